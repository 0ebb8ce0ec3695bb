// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/bpf"
	"fastpath/src/state"
	"fastpath/src/xsk"
)

func TestExplain(t *testing.T) {
	link := state.Link{Name: "eth0", Driver: "e1000e", MTU: 9000}
	xdp, zero := state.Engine{Kind: state.EngineXDP}, state.Engine{Kind: state.EngineAFXDP, ZeroCopy: true}
	generic := state.Engine{Kind: state.EngineXDP, Generic: true}
	bind := func(errno error) error { return fmt.Errorf("AF_XDP on eth0 queue 0: bind: %w", errno) }
	for _, tt := range []struct {
		err  error
		want state.Engine
		line string
	}{
		{fmt.Errorf("attach: %w", &bpf.ForeignError{Ifindex: 3, ID: 17}), xdp, "XDP program 17 of somebody else is attached; it stays"},
		{fmt.Errorf("attach: %w: %w", bpf.ErrTooBig, unix.ERANGE), xdp, "MTU 9000 is too big for XDP here (ERANGE, errno 34); most drivers take up to "},
		{fmt.Errorf("attach: %w: %w", bpf.ErrMode, unix.EOPNOTSUPP), xdp, "the driver e1000e can't run XDP programs in native mode (EOPNOTSUPP, errno 95); xdp_mode 'generic' "},
		{fmt.Errorf("attach: %w: %w", bpf.ErrMode, unix.EOPNOTSUPP), generic, "the driver e1000e can't run XDP programs in generic mode (EOPNOTSUPP, errno 95)"},
		{fmt.Errorf("attach: %w", unix.EINVAL), xdp, "the driver e1000e refuses XDP (EINVAL, errno 22); it may be the MTU of 9000, most drivers take up to "},
		{bind(unix.EINVAL), state.Engine{Kind: state.EngineAFXDP}, "AF_XDP on eth0 queue 0: bind: invalid argument"},
		{bind(unix.EINVAL), zero, "the driver e1000e can't do zero copy (EINVAL, errno 22)"},
		{bind(unix.EOPNOTSUPP), zero, "the driver e1000e can't do zero copy (EOPNOTSUPP, errno 95); without option zero_copy packets are copied"},
		{bind(fmt.Errorf("%w: %w", xsk.ErrQueueBusy, unix.EBUSY)), zero, "AF_XDP on eth0 queue 0: bind: another AF_XDP socket is bound to this queue: device or resource busy"},
		{fmt.Errorf("socket: %w: %w", xsk.ErrNotSupported, unix.EAFNOSUPPORT), zero, "socket: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): address family not supported by protocol"},
		{errors.Join(errors.New("one"), errors.New("two")), xdp, "one; two"},
	} {
		got := explain(tt.err, link, tt.want)
		if !strings.HasPrefix(got, tt.line) || strings.Contains(got, "\n") {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.line)
		}
	}
	for want, l := range map[string]state.Link{"a veth device": {Kind: "veth"}, "the port": {}} {
		if got := driver(l); got != want {
			t.Errorf("%+v is %q", l, got)
		}
	}
}

func TestFits(t *testing.T) {
	m := manager(t, 256*mb)
	m.ports = []*port{{link: state.Link{Name: "eth9"}, want: state.Engine{Kind: state.EngineAFXDP}}}
	poor := manager(t, 64*mb)
	afxdp := state.Engine{Kind: state.EngineAFXDP}
	for _, tt := range []struct {
		m    *Manager
		mtu  int
		want state.Engine
		line string
	}{
		{m, 1500, afxdp, ""},
		{m, maxMTU, afxdp, ""},
		{m, maxMTU + 1, afxdp, "MTU 1707, and a frame of engine afxdp holds 1706"},
		{m, 9000, state.Engine{Kind: state.EngineXDP}, ""}, // the driver has its say
		{m, 1500, state.Engine{Kind: state.EngineAFXDP, ZeroCopy: true}, "eth9 has another"},
		{poor, 1500, afxdp, "64 MB are too few"},
		{poor, 1500, state.Engine{Kind: state.EngineXDP}, ""},
	} {
		err := tt.m.fits(state.Link{Name: "eth0", MTU: tt.mtu}, tt.want)
		if (err == nil) != (tt.line == "") || err != nil && !strings.Contains(err.Error(), tt.line) {
			t.Errorf("MTU %d, %v: %v, want %q", tt.mtu, tt.want, err, tt.line)
		}
	}
	for range bpf.MaxPorts {
		m.ports = append(m.ports, &port{})
	}
	if err := m.fits(state.Link{MTU: 1500}, afxdp); err == nil {
		t.Error("a port more than there are slots fits")
	}
}

// A refusal holds until something changes that can matter, and no longer.
func TestRefusalHolds(t *testing.T) {
	link := state.Link{Index: 5, Name: "eth0", MTU: 9000, MAC: [6]byte{2, 1}, Queues: 2, XDP: 17}
	for name, tt := range map[string]struct {
		change func(l *state.Link)
		holds  bool
	}{
		"nothing":    {func(*state.Link) {}, true},
		"it goes up": {func(l *state.Link) { l.Up = true }, true},
		"offloads":   {func(l *state.Link) { l.Feature.GRO.On = true }, true},
		"MTU":        {func(l *state.Link) { l.MTU = 1500 }, false},
		"MAC":        {func(l *state.Link) { l.MAC[5] = 9 }, false},
		"queues":     {func(l *state.Link) { l.Queues = 1 }, false},
		"program":    {func(l *state.Link) { l.XDP = 0 }, false},
		"another":    {func(l *state.Link) { l.Index = 6 }, false},
		"gone":       {func(l *state.Link) { l.Name = "eth1" }, false},
	} {
		m := manager(t, 256*mb)
		want := state.Engine{Kind: state.EngineXDP}
		m.refuse(link, want, "because")
		now := link
		tt.change(&now)
		for range 2 {
			o := state.Observed{Links: []state.Link{now}}
			if err := m.Observe(&o); err != nil {
				t.Fatal(err)
			}
			got, refused := o.Refused["eth0"]
			if refused != tt.holds || refused && got != (state.Refusal{Want: want, Reason: "because"}) {
				t.Errorf("%s: refused %v", name, o.Refused)
			}
		}
		m.Reload()
		o := state.Observed{Links: []state.Link{now}}
		if err := m.Observe(&o); err != nil || len(o.Refused) > 0 {
			t.Errorf("%s: after Reload %v, %v", name, o.Refused, err)
		}
	}
}

// With our program a port may have other queues than without: that must not look
// like a change, or the engine would come and go for ever. A real change counts.
func TestRefusalOfOneThatRan(t *testing.T) {
	m, want := manager(t, 256*mb), state.Engine{Kind: state.EngineXDP}
	link := state.Link{Index: 5, Name: "eth0", MTU: 1500, Queues: 2, XDP: 17}
	m.own[17] = true
	p := &port{link: link, want: want}
	m.ports = []*port{p}
	m.refuse(p.link, want, "paused")
	m.ports = nil // the plan has stopped it
	look := func(l state.Link) string {
		o := state.Observed{Links: []state.Link{l}}
		if err := m.Observe(&o); err != nil {
			t.Fatal(err)
		}
		return o.Refused["eth0"].Reason
	}
	without := link
	without.XDP, without.Queues = 0, 4
	for i, l := range []state.Link{link, without, without} {
		if got := look(l); got != "paused" {
			t.Errorf("look %d: %q", i, got)
		}
	}
	m.refuse(link, want, "steps aside")
	if got := look(without); got != "steps aside" {
		t.Errorf("after the verdict: %q", got)
	}
	without.Queues = 3
	if got := look(without); got != "" {
		t.Errorf("with other queues: %q", got)
	}
}

func manager(t *testing.T, memory uint64) *Manager {
	t.Helper()
	m, err := New(Options{Log: slog.New(slog.DiscardHandler), MemTotal: memory})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
