// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/itest/topo/traffic"
)

// slowTable counts, before every other chain, what the router forwards by the
// slow path.
const slowTable = `table inet slow { chain forward { type filter hook forward priority -400; counter; }; }`

// patience is how long a router under emulation on a busy machine may take for
// what takes it milliseconds.
const patience = 30 * time.Second

// router is a topology with fastpath's files in a folder of its own.
type router struct {
	*topo.Net
	dir    string
	daemon *exec.Cmd
	log    bytes.Buffer
	exited chan error
}

func build(t *testing.T, v topo.Variant) *router {
	t.Helper()
	n, err := topo.Build(v, topo.Virtio)
	if err != nil {
		t.Fatal(err)
	}
	r := &router{Net: n, dir: t.TempDir()}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := v.WriteConfig(r.config(), topo.Engine{}); err != nil {
		t.Fatal(err)
	}
	r.Router.Run(t, "nft '"+slowTable+"'")
	return r
}

func (r *router) config() string { return filepath.Join(r.dir, "config") }

// command is fastpath with this router's folders, inside its namespace.
func (r *router) command(name string, args ...string) *exec.Cmd {
	all := append([]string{name, "--run", filepath.Join(r.dir, "run")}, args...)
	return r.Router.Command("fastpath", all...)
}

// start runs the daemon until the test ends and waits for it to be ready.
func (r *router) start(t *testing.T) {
	t.Helper()
	r.daemon = r.command("run", "--config", r.config())
	r.log.Reset()
	r.daemon.Stderr, r.daemon.Stdout = &r.log, &r.log
	if err := r.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, exited := r.daemon, make(chan error, 1)
	r.exited = exited
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		r.stop(t, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", r.log.String())
		}
	})
	r.eventually(t, "the daemon answers", func() bool { return r.command("status").Run() == nil })
}

// stop ends the daemon and waits for its end.
func (r *router) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if r.daemon == nil {
		return
	}
	if err := r.daemon.Process.Signal(sig); err != nil {
		t.Errorf("signal the daemon: %v", err)
	}
	select {
	case err := <-r.exited:
		if sig == syscall.SIGTERM && err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the daemon doesn't end")
		r.daemon.Process.Kill()
	}
	r.daemon = nil
}

// eventually waits until ok and returns how long that took. It asks less and
// less often: on an emulated CPU an answer takes long.
func (r *router) eventually(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	start, wait := time.Now(), 20*time.Millisecond
	for time.Since(start) < patience {
		if ok() {
			return time.Since(start)
		}
		time.Sleep(wait)
		wait = min(2*wait, 300*time.Millisecond)
	}
	t.Fatalf("not within %v: %s; the daemon's log:\n%s", patience, what, r.log.String())
	return 0
}

// status is the part of `fastpath status --json` that the tests look at.
type status struct {
	Report struct {
		Hook       string   `json:"hook"`
		HookReason string   `json:"hook_reason"`
		Notices    []string `json:"notices"`
	} `json:"report"`
}

func (r *router) status(t *testing.T) (s status) {
	t.Helper()
	out, err := r.command("status", "--json").Output()
	if err != nil {
		t.Fatalf("status --json: %v", err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("status --json: %v in %s", err, out)
	}
	return s
}

// plan is what `fastpath plan` prints and its exit code.
func (r *router) plan(t *testing.T) (text string, code int) {
	t.Helper()
	out, err := r.command("plan", "--config", r.config()).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// settled waits until there is nothing to do.
func (r *router) settled(t *testing.T) {
	t.Helper()
	var text string
	r.eventually(t, "a plan without steps", func() bool {
		var code int
		text, code = r.plan(t)
		return code == 0 && strings.Contains(text, "nothing to do")
	})
}

var devicesOf = regexp.MustCompile(`devices = \{ ([^}]*) \}`)

// devices are what nft lists for our flowtable; nil if there is none.
func (r *router) devices(t *testing.T) []string {
	t.Helper()
	out, err := r.Router.Command("nft", "list", "flowtables").Output()
	if err != nil {
		t.Fatalf("nft list flowtables: %v", err)
	}
	_, ours, ok := strings.Cut(string(out), "table inet fastpath")
	if !ok {
		return nil
	}
	m := devicesOf.FindStringSubmatch(ours)
	if m == nil {
		return nil
	}
	names := strings.FieldsFunc(m[1], func(c rune) bool { return strings.ContainsRune(`, "`, c) })
	slices.Sort(names)
	return names
}

// want waits until our flowtable lists exactly these devices.
func (r *router) want(t *testing.T, devices ...string) time.Duration {
	t.Helper()
	return r.eventually(t, "a flowtable on "+strings.Join(devices, ", "), func() bool {
		return slices.Equal(r.devices(t), devices)
	})
}

var counter = regexp.MustCompile(`counter packets \d+ bytes (\d+)`)

func (r *router) slowBytes(t *testing.T) int64 {
	t.Helper()
	m := counter.FindStringSubmatch(r.Router.Run(t, "nft list table inet slow"))
	if m == nil {
		t.Fatal("no counter in table inet slow")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type transfer = traffic.Transfer

// transfer is one flow of host1; up: host1 sends.
func (r *router) transfer(addr string, udp, up bool, size int64) transfer {
	return transfer{Client: r.Host1, Server: r.Provider, Addr: netip.MustParseAddr(addr),
		Port: 5000, UDP: udp, Up: up, Bytes: size}
}

// accelerated runs a transfer and fails unless less than one percent of its
// measured part took the slow path, and all of it arrived.
func (r *router) accelerated(t *testing.T, c transfer) {
	t.Helper()
	r.acceleratedAfter(t, c, func() {})
}

// acceleratedAfter is accelerated with something to do, or to wait for, before
// the measured part.
func (r *router) acceleratedAfter(t *testing.T, c transfer, do func()) {
	t.Helper()
	var before int64
	c.Steady = func() error {
		do()
		before = r.slowBytes(t)
		return nil
	}
	result, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slow := r.slowBytes(t) - before
	t.Logf("%s: sent %d, received %d, slow path %d bytes, gap %v", c, result.Sent, result.Received, slow, result.Gap)
	if result.Received < result.Sent*99/100 {
		t.Errorf("%s: received %d of %d bytes", c, result.Received, result.Sent)
	}
	if slow > result.MostSlow() {
		t.Errorf("%s: %d of %d bytes took the slow path", c, slow, result.Sent)
	}
}

// rewrite replaces text in one of the router's files.
func (r *router) rewrite(t *testing.T, file, from, to string) {
	t.Helper()
	path := filepath.Join(r.config(), file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *router) reload(t *testing.T) {
	t.Helper()
	if err := r.daemon.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// early says whether this kernel has the early_ingress hook.
func early() bool { return os.Getenv("KERNEL") == "early" }

// rename gives a device of the router another name; up to kernel 6.1 it has to
// be down for that.
func (r *router) rename(from, to string) error {
	set := func(device string, what ...string) error {
		out, err := r.Router.Command("ip", append([]string{"link", "set", "dev", device}, what...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := set(from, "down"); err != nil {
		return err
	}
	if err := set(from, "name", to); err != nil {
		return errors.Join(err, set(from, "up"))
	}
	return set(to, "up")
}

// renamed is rename that must succeed.
func (r *router) renamed(t *testing.T, from, to string) {
	t.Helper()
	if err := r.rename(from, to); err != nil {
		t.Fatalf("rename %q to %q: %v", from, to, err)
	}
}
