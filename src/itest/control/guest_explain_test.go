// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"fastpath/src/itest/topo"
)

// marking is what mwan3, pbr or a QoS package may do.
const marking = `
table inet marking {
	chain prerouting {
		type filter hook prerouting priority mangle; policy accept;
		udp dport 5101 meta mark set 0x10
		udp sport 5101 meta mark set 0x10
		udp dport 5102 ct mark set 0x20
	}
}
`

const keptPolicy = "\nconfig policy 'kept'\n\toption action 'bypass'\n\toption proto 'udp'\n\toption dest_port '5103'\n"

// A connection that isn't accelerated has its cause in explain, and the right
// one: what it says is held against the packets that took the slow path.
func TestExplainCauses(t *testing.T) {
	if os.Getenv("KERNEL") == "6.1" || early() {
		t.Log("the causes are the same on every kernel: one is enough")
		return
	}
	r := build(t, topo.Bridge)
	r.rewrite(t, "fastpath", "config fastpath", keptPolicy+"\nconfig fastpath")
	r.Router.Run(t, "nft -f - <<'X'"+marking+"X\n")
	t.Cleanup(func() { r.Router.Run(t, "nft delete table inet marking") })
	r.start(t)
	r.want(t, lowest(topo.Bridge)...)
	const rounds = 20
	explained := func(cause string, port uint16, exit int, words ...string) {
		t.Helper()
		slow := r.pingPong(t, topo.Serverv4, port, rounds)
		text, code := r.explain(t, port)
		t.Logf("%s: %d of %d packets slow: %s", cause, slow, 2*rounds, text)
		if code != exit || code == 0 != (slow < rounds) {
			t.Errorf("%s: exit code %d, want %d; %d of %d packets took the slow path", cause, code, exit, slow, 2*rounds)
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q doesn't name %q", cause, text, w)
			}
		}
	}
	explained("nothing", 5100, 0, "By the flowtable")
	explained("a packet mark", 5101, 3, "meta mark")
	explained("a connection mark", 5102, 3, "mark 0x20")
	explained("a policy", 5103, 3, `policy "kept"`)
	r.unanswered(t, 5104)
	if text, code := r.explain(t, 5104); code != 3 || !strings.Contains(text, "no packet has come back") {
		t.Errorf("no answer: %d, %s", code, text)
	}
	r.rewrite(t, "firewall", "option syn_flood '1'", "option syn_flood '1'\n\toption flow_offloading '1'")
	r.reload(t)
	r.want(t)
	explained("fw4's own flow_offloading", 5105, 3, "nothing is accelerated: fw4's own flow_offloading is on")
	r.Router.Run(t, "nft delete table inet fw4")
	r.eventually(t, "the firewall's end is noticed", func() bool { return strings.Contains(r.status(t).Report.HookReason, "firewall stopped") })
	if text, code := r.explain(t, 5105); code != 3 || !strings.Contains(text, "firewall stopped") {
		t.Errorf("no firewall: %d, %s", code, text)
	}
}

// explain asks about host1's connection to a port of the server.
func (r *router) explain(t *testing.T, port uint16) (text string, code int) {
	t.Helper()
	out, err := r.command("explain", "udp", "192.168.1.101:6000", net.JoinHostPort(topo.Serverv4, strconv.Itoa(int(port)))).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), code
}

// unanswered sends a datagram from host1 to a port where nobody listens.
func (r *router) unanswered(t *testing.T, port uint16) {
	t.Helper()
	err := r.Host1.Inside(func() error {
		end := netip.AddrPortFrom(netip.MustParseAddr(topo.Serverv4), port)
		c, err := net.DialUDP("udp", &net.UDPAddr{Port: 6000}, net.UDPAddrFromAddrPort(end))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("anybody?"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
