// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"fastpath/src/status"
	"fastpath/src/testkit"
)

// TestExplain asks a daemon about connections that the conntrack tool made.
func TestExplain(t *testing.T) {
	_, err := exec.LookPath("conntrack")
	testkit.Need(t, err == nil, "needs conntrack")
	p := newProc(t)
	p.ns.Run(t, `
		ip addr add 192.0.2.254/24 dev p0
		ip addr add 198.51.100.254/24 dev p1
		ip link set q0 up
		ip link set q1 up
		conntrack -I -p tcp -s 192.0.2.1 -d 198.51.100.2 --sport 1000 --dport 443 --state SYN_SENT -t 100
		conntrack -I -p udp -s 192.0.2.1 -d 192.0.2.254 --sport 1000 --dport 53 -u SEEN_REPLY,ASSURED -t 100`)
	p.start()
	for args, want := range map[string]string{
		"udp 192.0.2.1:1000 192.0.2.254:53":   "at the router itself",
		"192.0.2.254:53 192.0.2.1:1000 udp":   "at the router itself",
		"tcp 192.0.2.1:1001 198.51.100.2:443": "No path: conntrack has no such connection",
		"tcp [2001:db8::1]:1 [2001:db8::2]:2": "No path: conntrack has no such connection",
	} {
		r := p.inside(append([]string{"explain", "--run", p.run}, strings.Fields(args)...)...)
		if r.code != exitSlow || !strings.Contains(r.stdout, want) || strings.Count(r.stdout, "\n") != 1 || r.stderr != "" {
			t.Errorf("%s: %+v, want exit code %d and %q", args, r, exitSlow, want)
		}
	}
	r := p.inside("explain", "--json", "--run", p.run, "tcp", "192.0.2.1:1000", "198.51.100.2:443")
	var e status.Explanation
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != exitSlow || e.Path != status.PathSlow ||
		e.Connection == nil || e.Connection.TCP != "SYN_SENT" || e.Connection.InDevice != "p0" || e.Connection.OutDevice != "p1" {
		t.Errorf("JSON: %v, %+v", err, r)
	}
}
