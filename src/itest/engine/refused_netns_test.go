// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"fastpath/src/testkit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// Where an engine can't start, it says why in one line.
func TestRefused(t *testing.T) {
	l := newLab(t)
	_, flow := traffic(l)
	for _, c := range []struct {
		name, how, engine string
		device            string
		want              string
	}{
		{"xdp without capabilities", noCaps, "xdp", "r1", "CAP_BPF"},
		{"afxdp without capabilities", noCaps, "afxdp", "r1", "CAP_BPF"},
		{"no AF_XDP", noSockets, "afxdp", "r1", "no AF_XDP"},
		{"no such device", whole, "xdp", "r7", "r7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := l.spec(c.engine, flow)
			spec.Devices[1] = c.device
			_, err := launch(t, l.router, c.how, spec)
			checkLine(t, err, c.want)
		})
	}
	if out := l.router.Run(t, "ip link show"); strings.Contains(out, "prog/xdp") {
		t.Error("a program was left behind:", out)
	}
	p := l.start("xdp", flow) // the engine that needs no AF_XDP still starts
	p.finish()
}

// A program of somebody else stays where it is, in either mode.
func TestForeignProgram(t *testing.T) {
	for _, mode := range []link.XDPAttachFlags{link.XDPDriverMode, link.XDPGenericMode} {
		eachEngine(t, func(t *testing.T, l *lab, engine string) {
			_, flow := traffic(l)
			foreign := attachForeign(t, l.router, "r0", mode)
			_, err := launch(t, l.router, whole, l.spec(engine, flow))
			checkLine(t, err, "r0")
			checkLine(t, err, "somebody else")
			if got := attached(t, l.router, "r0"); got != foreign {
				t.Errorf("program %d is attached to r0, it was %d", got, foreign)
			}
			if got := attached(t, l.router, "r1"); got != 0 {
				t.Errorf("program %d was left behind on r1", got)
			}
		})
	}
}

func checkLine(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("it started; want an error with %q", want)
	case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
		t.Errorf("error %q, want one line with %q", err, want)
	default:
		t.Log(err)
	}
}

// attachForeign attaches a program that passes everything, and returns its id.
func attachForeign(t *testing.T, n *testkit.Netns, device string, mode link.XDPAttachFlags) uint32 {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "foreign", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	n.Do(t, func() {
		dev, err := netlink.LinkByName(device)
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Attrs().Index, Flags: mode})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	})
	id := attached(t, n, device)
	if id == 0 {
		t.Fatal("the foreign program isn't attached")
	}
	return id
}

// attached is the id of the program on a device; 0: none.
func attached(t *testing.T, n *testkit.Netns, device string) (id uint32) {
	t.Helper()
	n.Do(t, func() {
		dev, err := netlink.LinkByName(device)
		if err != nil {
			t.Fatal(err)
		}
		if x := dev.Attrs().Xdp; x != nil && x.Attached {
			id = x.ProgId
		}
	})
	return id
}
