// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"fastpath/src/bpf"
	"fastpath/src/itest/topo/traffic"
	"fastpath/src/state"
	"fastpath/src/testkit"
)

// A port that is deleted and comes again gets its engine again.
func TestEnginePortComesAgain(t *testing.T) {
	for _, kind := range []string{state.EngineXDP, state.EngineAFXDP} {
		t.Run(kind, func(t *testing.T) {
			l := newEngineLab(t, "\toption engine '"+kind+"'\n\toption force '1'\n")
			l.start()
			l.running(kind)
			l.ns.Run(t, "ip link del lan")
			l.until("no engine without its partner", func() bool { return len(l.document().Engines) == 0 })
			testkit.Veth(t, l.host, "h0", l.ns, "lan")
			l.host.Run(t, "ethtool -K h0 gro on; ip addr add 10.0.1.2/24 dev h0; ip route add default via 10.0.1.1")
			l.ns.Run(t, "ip addr add 10.0.1.1/24 dev lan")
			l.running(kind)
			l.transfer(kind, traffic.Transfer{Addr: netip.MustParseAddr("192.0.2.2"), Port: 5001, Up: true, Bytes: 5e6})
			if p := l.document().Look.Problems; len(p) > 0 {
				t.Errorf("problems: %q", p)
			}
		})
	}
}

// Somebody else's program keeps its port, status says so, and the engines come
// when it has gone; a port that was started for nothing is left.
func TestEngineForeign(t *testing.T) {
	l := newEngineLab(t, "\toption engine 'xdp'\n\toption force '1'\n")
	foreign, err := bpf.Load(bpf.Options{MaxFlows: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	wan := 0
	l.ns.Do(t, func() {
		var dev *net.Interface
		if dev, err = net.InterfaceByName("wan"); err == nil {
			wan = dev.Index
			err = foreign.Attach(wan, bpf.Native)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	l.start()
	l.until("no engine", func() bool { return len(l.document().Engines) == 0 })
	if r := l.inside("status", "--run", l.run); !strings.Contains(r.stdout, "XDP program ") {
		t.Errorf("status doesn't say why:\n%s", r.stdout)
	}
	if r := l.inside("plan", "--config", l.config, "--run", l.run); r.code != 0 || r.stdout != "nothing to do\n" {
		t.Errorf("plan: %+v", r)
	}
	if links := l.ns.Run(t, "ip -d link show lan"); strings.Contains(links, "xdp") {
		t.Errorf("lan has a program:\n%s", links)
	}
	l.ns.Do(t, func() { err = foreign.Detach(wan) })
	if err != nil {
		t.Fatal(err)
	}
	l.signal(syscall.SIGUSR1)
	l.running("xdp")
}

// Where nothing can be transmitted the plan takes the whole pair back, in the
// same look, and tries again when that has changed and the files are read again.
func TestEngineCannotTransmit(t *testing.T) {
	l := newEngineLab(t, "\toption engine 'xdp'\n\toption force '1'\n")
	l.server.Run(t, "ethtool -K s0 gro off")
	l.start()
	l.until("refused", func() bool {
		d := l.document()
		return len(d.Engines) == 0 && strings.Contains(d.Refused["wan"].Reason, "xdp-features lack ndo-xmit")
	})
	if tables := l.ns.Run(t, "nft list table inet fastpath 2>/dev/null || true"); strings.Contains(tables, "ct mark set") {
		t.Errorf("rules still hand flows to an engine:\n%s", tables)
	}
	l.server.Run(t, "ethtool -K s0 gro on")
	l.signal(syscall.SIGHUP)
	l.running("xdp")
}
