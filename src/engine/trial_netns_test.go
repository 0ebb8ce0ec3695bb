// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// trialPatience is for a trial, which takes half a minute on an idle machine and
// another one each time that the traffic could not be compared.
const trialPatience = 5 * time.Minute

// A whole trial with real traffic. Which path is the cheaper one is this
// machine's business; that both are measured, and what follows from it, is ours.
func TestTrialWithTraffic(t *testing.T) {
	host, server := testkit.NewNetns(t, "host"), testkit.NewNetns(t, "server")
	l, want := newLab(t), state.Engine{Kind: state.EngineXDP, Mark: 0x40000000}
	l.run("ip link set p0 netns " + host.Name)
	l.run("ip link set p1 netns " + server.Name)
	l.run("sysctl -qw net.ipv4.ip_forward=1")
	l.run("ip addr add 10.0.1.1/24 dev r0")
	l.run("ip addr add 192.0.2.1/24 dev r1")
	host.Run(t, "ip addr add 10.0.1.2/24 dev p0; ethtool -K p0 gro on tx off; ip link set p0 up; ip route add default via 10.0.1.1")
	server.Run(t, "ip addr add 192.0.2.2/24 dev p1; ethtool -K p1 gro on tx off; ip link set p1 up; ip route add default via 192.0.2.1")
	l.plan(want)
	if got := l.look().Trials["r0"]; got != notMeasured {
		t.Errorf("before there is traffic: %q", got)
	}
	l.traffic(host, server)

	seen := map[phase]bool{}
	for end := time.Now().Add(trialPatience); ; time.Sleep(100 * time.Millisecond) {
		l.plan(want)
		p, said := l.trialPhase(want.Kind)
		seen[p] = true
		if p == paused && !said {
			t.Error("paused, but not said so")
		}
		if p == earned || p == failed {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the trial is at %s: %+v", p, l.trials[want.Kind])
		}
	}
	l.plan(want)
	l.plan(want)
	tr := l.trials[want.Kind]
	t.Logf("%s: %s", tr.phase, tr.verdict("the slow path"))
	if !seen[proving] || !seen[paused] || !tr.with.enough() || !tr.without.enough() || earns(tr.with, tr.without) != (tr.phase == earned) {
		t.Errorf("seen %v, trial %+v", seen, tr)
	}
	if tr.phase == earned {
		l.runs(want)
		if got := l.look().Trials["r1"]; !strings.HasPrefix(got, "it earns its place: ") {
			t.Errorf("said %q", got)
		}
	} else {
		l.refusedFor("r0", want, "steps aside: ")
		l.refusedFor("r1", want, " by the slow path (measured over ")
	}
}

// trialPhase is how far the trial is, and whether a paused one says so.
func (l *lab) trialPhase(kind string) (p phase, said bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tr := l.trials[kind]
	r0 := l.refused["r0"]
	return tr.phase, r0 != nil && strings.HasPrefix(r0.Reason, "paused for some seconds")
}

// plan does what the agent does: engines start before the rules that hand them
// connections, and stop after those have gone.
func (l *lab) plan(want state.Engine) {
	l.Helper()
	o := l.look()
	marks := len(o.Refused) == 0
	for _, port := range []string{"r0", "r1"} {
		if _, runs := o.Engines[port]; marks && !runs {
			l.must(l.Start(port, want))
		}
	}
	if marks && !l.rules {
		l.run("nft add table inet fastpath")
		l.run("nft add chain inet fastpath forward { type filter hook forward priority 10 ; }")
		l.run("nft add rule inet fastpath forward ct state established ct mark set ct mark or 0x40000000")
	} else if !marks && l.rules {
		l.run("nft delete table inet fastpath")
	}
	l.rules = marks
	for port := range o.Refused {
		l.must(l.Stop(port))
	}
}

// traffic is a flow of datagrams and their echoes, some thousand a second, until
// the test ends.
func (l *lab) traffic(host, server *testkit.Netns) {
	l.Helper()
	var far *net.UDPConn
	var near net.Conn
	var err error
	server.Do(l.T, func() { far, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 7}) })
	l.must(err)
	host.Do(l.T, func() { near, err = net.Dial("udp4", "192.0.2.2:7") })
	l.must(err)
	l.Cleanup(func() { far.Close(); near.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := far.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = far.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	go func() {
		for payload := make([]byte, 64); ; time.Sleep(10 * time.Millisecond) {
			for range 40 {
				if _, err := near.Write(payload); errors.Is(err, net.ErrClosed) {
					return
				}
			}
		}
	}()
}
