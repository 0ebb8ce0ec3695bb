// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
)

// document is more of `fastpath status --json` than status.
type document struct {
	Report struct {
		Hook       string `json:"hook"`
		HookReason string `json:"hook_reason"`
		Ports      []struct {
			Name string `json:"name"`
			Hook string `json:"hook"`
		} `json:"ports"`
	} `json:"report"`
	Look struct {
		Count    int      `json:"count"`
		Problems []string `json:"problems"`
	} `json:"last_look"`
	Plan struct {
		Time  string            `json:"time"`
		Steps []json.RawMessage `json:"steps"`
	} `json:"last_plan"`
	Config struct {
		InForce  string   `json:"in_force"`
		Problems []string `json:"problems"`
	} `json:"configuration"`
}

func (r *router) document(t *testing.T) (d document) {
	t.Helper()
	out, err := r.command("status", "--json").Output()
	if err != nil {
		t.Fatalf("status --json: %v", err)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("status --json: %v in %s", err, out)
	}
	return d
}

// A kernel without nf_flow_table (the VM of TestWithoutFlowtable on the host
// has not loaded it): one readable reason, no steps, no errors in the log, and
// the router forwards as before.
func TestWithoutFlowtable(t *testing.T) {
	if os.Getenv("FLOWTABLE") != "missing" {
		t.Log("this VM has flowtables: the host's TestWithoutFlowtable boots one that has none")
		return
	}
	r := build(t, topo.PPPoEVLAN)
	before := r.settings(t)
	r.start(t)
	d := r.document(t)
	if d.Report.Hook != "off" || !strings.Contains(d.Report.HookReason, "nf_flow_table") || strings.Contains(d.Report.HookReason, "\n") {
		t.Errorf("hook %q, reason %q; want off, and one line that names nf_flow_table", d.Report.Hook, d.Report.HookReason)
	}
	t.Logf("the reason: %s", d.Report.HookReason)
	if len(d.Look.Problems) != 0 || len(d.Plan.Steps) != 0 || strings.Contains(r.log.String(), "level=ERROR") {
		t.Errorf("problems %q, steps %s; log:\n%s", d.Look.Problems, d.Plan.Steps, r.log.String())
	}
	r.settled(t)
	for _, up := range []bool{true, false} {
		result, err := r.transfer(topo.Serverv4, false, up, 500_000).Run(t.Context())
		if err != nil || result.Received != result.Sent {
			t.Errorf("up %v: %+v, %v", up, result, err)
		}
	}
	if after := r.settings(t); after != before {
		t.Errorf("something was changed:\n%s\nbefore:\n%s", after, before)
	}
	r.stop(t, syscall.SIGTERM)
	if after := r.settings(t); after != before {
		t.Errorf("after the end:\n%s\nbefore:\n%s", after, before)
	}
}

// oddNames are names of 15 bytes that try everybody's quoting.
var oddNames = []string{`lan"'\{};,#$&*@`, "lån-Etherne-é", "-+!()[]<>~`^|=@", "a%sb", "a b", "\u3000\u0085wide", "\xff\xfe\x01"}

// Names are bytes to the kernel. What it takes as a name is planned, installed,
// read back, shown and taken away as any other.
func TestOddNames(t *testing.T) {
	r := build(t, topo.Bridge)
	before := r.settings(t)
	ports := r.oddPorts(t)
	r.excludeOdd(t, ports)
	r.start(t)
	want := []string{"wan", ports[0], ports[1]}
	slices.Sort(want)
	r.eventually(t, fmt.Sprintf("a flowtable on %q", want), func() bool { return slices.Equal(r.listed(t), want) })
	r.settled(t)
	shown := map[string]string{}
	for _, p := range r.document(t).Report.Ports {
		shown[p.Name] = p.Hook
	}
	for _, name := range want {
		if hook, ok := shown[name]; !ok || hook == "off" {
			t.Errorf("status has hook %q for %q: %v", hook, name, shown)
		}
	}
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
	if out, err := r.Router.Sh("nft list table inet fastpath"); err != nil || !strings.Contains(out, "comment") {
		t.Errorf("nft can't list the table: %v\n%s", err, out)
	}
	r.stop(t, syscall.SIGTERM)
	r.renameBack(t, ports)
	if after := r.settings(t); after != before {
		t.Errorf("after the end:\n%s\nbefore:\n%s", after, before)
	}
}

// oddPorts renames lan1 and lan2 to the first two odd names that the kernel
// takes, and makes a dummy of each other one that it takes.
func (r *router) oddPorts(t *testing.T) (taken []string) {
	t.Helper()
	for _, name := range oddNames {
		var err error
		if len(taken) < 2 {
			err = r.rename([]string{"lan1", "lan2"}[len(taken)], name)
		} else {
			err = r.Router.Command("ip", "link", "add", "name", name, "type", "dummy").Run()
		}
		if err != nil {
			t.Logf("refused as a name: %q: %v", name, err)
			continue
		}
		taken = append(taken, name)
	}
	if len(taken) < 3 {
		t.Fatalf("only %q were taken", taken)
	}
	t.Cleanup(func() { r.renameBack(t, taken) })
	return taken
}

func (r *router) renameBack(t *testing.T, ports []string) {
	t.Helper()
	for i, name := range []string{"lan1", "lan2"} {
		if r.Router.Command("ip", "link", "show", "dev", name).Run() == nil {
			continue
		}
		if err := r.rename(ports[i], name); err != nil {
			t.Errorf("rename %q back: %v", ports[i], err)
		}
	}
}

// excludeOdd lets rules, a zone with a policy, and drop chains name each dummy.
func (r *router) excludeOdd(t *testing.T, ports []string) {
	t.Helper()
	var ours strings.Builder
	zone := "\nconfig zone\n\toption name 'odd'\n"
	for _, name := range ports[2:] {
		quoted := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		fmt.Fprintf(&ours, "\nconfig port\n\toption device %s\n\toption engine 'none'\n", quoted)
		zone += "\tlist device " + quoted + "\n"
	}
	ours.WriteString("\nconfig policy 'odd'\n\toption action 'bypass'\n\tlist src 'odd'\n\nconfig drop 'oddly'\n\tlist source '198.51.100.99'\n")
	r.append(t, "fastpath", ours.String())
	r.append(t, "firewall", zone)
}

// append adds text to one of the router's files.
func (r *router) append(t *testing.T, file, more string) {
	t.Helper()
	path := filepath.Join(r.config(), file)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(text, more...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// listed are the devices of our flowtable by nft's JSON, which quotes them.
func (r *router) listed(t *testing.T) (devices []string) {
	t.Helper()
	out, err := r.Router.Command("nft", "-j", "list", "flowtables").Output()
	if err != nil {
		t.Fatalf("nft -j list flowtables: %v", err)
	}
	var all struct {
		Nftables []struct {
			Flowtable struct {
				Table string          `json:"table"`
				Dev   json.RawMessage `json:"dev"` // a list, or a string if there is one
			} `json:"flowtable"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("nft -j list flowtables: %v in %s", err, out)
	}
	for _, o := range all.Nftables {
		if o.Flowtable.Table == "fastpath" {
			json.Unmarshal(o.Flowtable.Dev, &devices)
		}
	}
	slices.Sort(devices)
	return devices
}

func (d document) steps() string {
	var all []string
	for _, s := range d.Plan.Steps {
		all = append(all, string(s))
	}
	return strings.Join(all, "; ")
}

// A file with an error keeps the last good configuration in force, and says
// where the error is.
func TestBrokenReload(t *testing.T) {
	r := build(t, topo.Bridge)
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.settled(t)
	was := r.document(t)
	for _, c := range []struct{ name, good, bad, place string }{
		{"a wrong value", "option enabled '1'", "option enabled '1'\n\toption hook 'sideways'", "fastpath:3: "},
		{"no UCI at all", "option enabled '1'", "option enabled '1", "fastpath:2: "},
	} {
		r.rewrite(t, "fastpath", c.good, c.bad)
		r.reload(t)
		r.eventually(t, c.name+" is noticed", func() bool { return r.document(t).Config.InForce == "last good" })
		d := r.document(t)
		if len(d.Config.Problems) != 1 || !strings.Contains(d.Config.Problems[0], c.place) {
			t.Errorf("%s: problems %q, want one at %s", c.name, d.Config.Problems, c.place)
		}
		if !strings.Contains(r.log.String(), c.place) {
			t.Errorf("%s: the log has no %s:\n%s", c.name, c.place, r.log.String())
		}
		if d.Plan.Time != was.Plan.Time || d.Report.Hook != was.Report.Hook || !slices.Equal(r.devices(t), lowest(topo.Bridge)) {
			t.Errorf("%s: not the last good configuration: hook %s, steps %s", c.name, d.Report.Hook, d.steps())
		}
		r.rewrite(t, "fastpath", c.bad, c.good)
		r.reload(t)
		r.eventually(t, "the good file counts again", func() bool { return r.document(t).Config.InForce == "as written" })
	}
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
}

// foreign is what somebody else may have, also on the ports that we use.
const foreign = `
table inet other {
	set hosts { type ipv4_addr; elements = { 192.0.2.7, 192.0.2.9 }; }
	flowtable ft { hook ingress priority 10; devices = { lan1, wan }; }
	chain forward { type filter hook forward priority 20; policy accept; ip saddr @hosts flow add @ft comment "fastpath: not ours"; }
	chain check-lan1 { counter comment "mine"; }
}
table netdev other {
	chain check-lan1 { type filter hook ingress device lan1 priority -300; policy accept; ip saddr 192.0.2.8 counter drop; }
}
table ip fastpath { chain forward { type filter hook forward priority 10; policy accept; ip saddr 192.0.2.8 drop; }; }
`

// Whatever we do, the tables of others stay as they are, down to their handles,
// also those that look like ours.
func TestForeignTables(t *testing.T) {
	r := build(t, topo.Bridge)
	r.Router.Run(t, "nft -f - <<'X'\n"+foreign+"X\n")
	show := func() string {
		return r.Router.Run(t, `for i in "inet other" "netdev other" "ip fastpath" "inet fw4" "inet slow"; do nft -a -s list table $i; done`)
	}
	before := show()
	same := func(when string) {
		t.Helper()
		if now := show(); now != before {
			t.Errorf("%s:\n%s\nbefore:\n%s", when, now, before)
		}
	}
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	r.settled(t)
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
	same("while it runs")
	r.rewrite(t, "fastpath", "option enabled '1'", "option enabled '1'\n\toption counters '0'")
	r.reload(t)
	r.settled(t)
	same("after a reload")
	r.stop(t, syscall.SIGKILL)
	if out, err := r.command("cleanup").CombinedOutput(); err != nil {
		t.Errorf("cleanup: %v: %s", err, out)
	}
	same("after cleanup")
	if out := r.Router.Run(t, "nft list tables"); strings.Contains(out, "inet fastpath") || strings.Contains(out, "netdev fastpath") {
		t.Errorf("ours are left:\n%s", out)
	}
}

// A connection that lives through a redial, as one over IPv6 does, goes on: its
// flow must not send into the session that is no more.
func TestRedialKeepsConnections(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	r.start(t)
	r.want(t, lowest(topo.PPPoEVLAN)...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := r.transfer(topo.Serverv6, false, true, 4_000_000)
	c.Steady = r.Redial
	result, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s over a redial: %d bytes, gap %v, in all %v", c, result.Received, result.Gap, result.Elapsed)
}
