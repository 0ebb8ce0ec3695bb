// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/state"
)

// stroll is a router that is changed at random.
type stroll struct {
	*rand.Rand
	c     config.Config
	r     *router
	trail []string
	names int
	met   map[reflect.Type]int // steps of all plans
}

// TestRandomWalks starts from every golden case and lets links, firewall, netifd
// and configuration change at random. After each change one plan has to do: for
// a kernel that does every step, for one that fails at any single step, and for
// one that changes between look and apply.
func TestRandomWalks(t *testing.T) {
	met := map[reflect.Type]int{}
	paths, ran := casePaths(t), 0
	for seed, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			ran++
			w := &stroll{Rand: rand.New(rand.NewPCG(uint64(seed), 2026)), met: met}
			w.start(t, path)
			w.walk(t)
		})
	}
	// Walks that never met a kind of step would prove nothing about it.
	for _, step := range []state.Step{
		state.ReplaceTable{}, state.DeleteTable{}, state.AddDevices{}, state.RemoveDevices{}, state.ReplaceRules{},
		state.AddCheck{}, state.RemoveCheck{}, state.SetOffloads{}, state.RestoreOffloads{},
		state.StartEngine{}, state.StopEngine{}, state.SetSysctl{}, state.RestoreSysctl{},
	} {
		if n := met[reflect.TypeOf(step)]; n < 10 && ran == len(paths) {
			t.Errorf("%T was met %d times only", step, n)
		}
	}
	t.Logf("steps met: %v", met)
}

func (w *stroll) walk(t *testing.T) {
	const changes = 60
	defer func() {
		if t.Failed() {
			t.Logf("changes so far:\n%s", strings.Join(w.trail, "\n"))
		}
	}()
	for range changes {
		w.change(t)
		w.failEachStep(t)
		w.changeUnderway(t)
		want, _ := Desired(w.c, w.r.o)
		converge(t, w.c, w.r, Diff(want, w.r.o))
	}
}

// start takes the case's first stage, on either kind of kernel.
func (w *stroll) start(t *testing.T, path string) {
	s := newStage(t)
	for _, in := range readCase(t, path)[1:] {
		if !s.input(t, in) {
			break
		}
	}
	w.c, w.r = s.config(t), s.r
	w.r.keepsNames = w.IntN(2) == 0
	w.trail = append(w.trail, fmt.Sprintf("keeps names: %v", w.r.keepsNames))
}

// failEachStep stops before each step of a plan in turn, as a crash or an error
// of the kernel does, and plans again from there. What is saved is right at every point.
func (w *stroll) failEachStep(t *testing.T) {
	t.Helper()
	want, _ := Desired(w.c, w.r.o)
	steps := Diff(want, w.r.o)
	for failed, step := range steps {
		w.met[reflect.TypeOf(step)]++
		k := w.r.clone()
		for _, step := range steps[:failed] {
			if err := k.apply(step); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			offloadsAreKnown(t, k)
		}
		again, _ := Desired(w.c, k.o)
		if !reflect.DeepEqual(want, again) {
			t.Fatalf("after %d of %d steps the plan is another:\n%+v\n%+v", failed, len(steps), want, again)
		}
		converge(t, w.c, k, Diff(again, k.o))
	}
}

// changeUnderway applies a plan to a router that has changed since it was looked
// at: the first step that fails ends it.
func (w *stroll) changeUnderway(t *testing.T) {
	want, _ := Desired(w.c, w.r.o)
	steps := Diff(want, w.r.o)
	if len(steps) == 0 {
		return
	}
	before := w.c
	w.change(t)
	w.c = before
	for _, step := range steps {
		if w.r.apply(step) != nil {
			return
		}
	}
}

func (w *stroll) change(t *testing.T) {
	line := w.event()
	w.trail = append(w.trail, line)
	if line == "config" {
		w.configure()
		w.trail = append(w.trail, fmt.Sprintf("%+v", w.c))
		return
	}
	if err := w.r.event(line); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

func pick[T any](w *stroll, from ...T) T { return from[w.IntN(len(from))] }

func (w *stroll) fresh() string {
	w.names++
	return fmt.Sprintf("n%d", w.names)
}

// linkOf is a random link's name with one of these kinds, "" if there is none.
func (w *stroll) linkOf(kinds ...string) string {
	var names []string
	for i := range w.r.o.Links {
		for _, kind := range kinds {
			if w.r.o.Links[i].Kind == kind {
				names = append(names, w.r.o.Links[i].Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return pick(w, names...)
}

// event is one line of the notation that this router can take. What stops all
// acceleration is rare, and soon over: there is little to see meanwhile.
func (w *stroll) event() string {
	if o := &w.r.o; w.IntN(3) == 0 {
		switch {
		case !o.FW4.Present || o.FW4.Offload:
			return "fw4 g1"
		case !o.Hooks.Ingress.OK:
			return "ingress ok"
		case !w.c.Main.Enabled || w.c.Main.Hook == config.HookOff:
			return "config"
		}
	}
	if port := w.linkOf("", "veth"); port != "" && w.IntN(12) == 0 {
		return w.engineEvent(port)
	}
	if port := w.linkOf(""); port != "" && w.IntN(10) == 0 {
		return w.mixEvent(port)
	}
	if w.IntN(8) == 0 {
		return w.wanEvent()
	}
	switch w.IntN(10) {
	case 0:
		return pick(w, "fw4 g1", "fw4 g2", "fw4 g3 offload", "fw4 g3 hardware", "flush", "ingress no flowtables", "marks ok", "marks no events",
			"acct 0", "acct 1", "acct 0 it is read-only")
	case 1:
		return pick(w, "early ok", "early ok", "early no such hook", "confirmed", "unconfirmed")
	case 2, 3:
		return "config"
	case 4:
		return pick(w, "session ", "hangup ") + pick(w, "eth1", "eth1.7", "eth2")
	case 5:
		return "iface wan " + pick(w, "pppoe eth1 pppoe-wan", "pppoe eth1 -", "dhcp eth1 eth1", "dhcp eth2 -")
	}
	return w.linkEvent()
}

// linkEvent makes, changes or takes away a link.
func (w *stroll) linkEvent() string {
	port, bridge := w.linkOf("", "veth", "vlan"), w.linkOf("bridge")
	if port == "" || w.IntN(3) == 0 {
		return w.newLink()
	}
	if bridge != "" && w.IntN(2) == 0 {
		return pick(w, "join "+port+" "+bridge, "join "+port+" "+bridge, "leave "+port, "leave "+port, "del "+bridge)
	}
	lines := []string{"del " + port, "leave " + port, "rename " + port + " " + w.fresh(),
		"ethtool " + port + pick(w, " -gro", " gro", " list", " -list", " -hw", " lro", " rxvlan", " -rxvlan"),
		"vlan " + w.fresh() + " on=" + port + " tag=9", pick(w, "addr ", "noaddr ") + port, w.tc(port, bridge)}
	if ppp := w.linkOf("ppp"); ppp != "" {
		lines = append(lines, "del "+ppp)
	}
	return pick(w, lines...)
}

// newLink is preferably one that configurations speak of.
func (w *stroll) newLink() string {
	if w.r.link("pppoe-wan") == nil && w.IntN(4) == 0 {
		return "ppp pppoe-wan"
	}
	name := w.fresh()
	for _, usual := range []string{"eth0", "eth1", "eth2", "wan", "lan1", "usb0"} {
		if w.r.link(usual) == nil {
			name = usual
		}
	}
	return pick(w, "nic", "nic", "nic", "nic", "veth", "wlan", "dummy", "wireguard", "ip6tnl") + " " + name +
		pick(w, "", "", " list rxvlan", " hw", " gro!", " lro", " rxvlan", " rxvlan!", " lro!")
}

// engineEvent is somebody's program, an engine that can't be had, or one that
// may be tried again.
func (w *stroll) engineEvent(port string) string {
	if e, runs := w.r.o.Engines[port]; runs && e.Mark == 0x40000000 && w.IntN(2) == 0 {
		words := e.Kind
		for word, on := range map[string]bool{",generic": e.Generic, ",zero-copy": e.ZeroCopy, ",force": e.Force} {
			if on {
				words += word
			}
		}
		return "refused " + port + " " + words + " it doesn't earn its place"
	}
	return pick(w, "xdp ", "noxdp ", "retry ") + port
}

// configure changes one thing in the configuration.
func (w *stroll) configure() {
	c := &w.c
	switch w.IntN(11) {
	case 9:
		c.Main.DeferPackets = pick[uint32](w, 0, 0, 3, 8)
	case 10:
		w.policies()
	case 0:
		c.Main.Enabled = w.IntN(3) > 0
	case 1, 2:
		c.Main.Enabled = true
		c.Main.Hook = pick(w, config.HookAuto, config.HookEarly, config.HookIngress, config.HookIngress, config.HookOff)
	case 3:
		c.Main.Counters = !c.Main.Counters
	case 4:
		c.Ports = nil
	case 5:
		c.GRO = map[string]bool{pick(w, "eth0", "eth1", "lan1"): w.IntN(2) == 0}
	case 6:
		p := config.Port{
			Engine:  pick(w, config.EngineFlowtable, config.EngineNone, config.EngineXDP, config.EngineAFXDP),
			Receive: pick(w, config.ReceiveAuto, config.ReceiveBulk, config.ReceiveFraglist, config.ReceiveGRO, config.ReceiveOff, config.ReceiveKeep),
		}
		if w.IntN(2) == 0 {
			p.Networks = []string{pick(w, "wan", "lan", "nowhere")}
		} else {
			p.Device = pick(w, "eth0", "eth1", "lan1", "br-lan", "n1", "n2")
		}
		c.Ports = append(append([]config.Port(nil), c.Ports...), p)
	case 7, 8:
		w.engines()
	}
}

// policies adds one, takes all away, or turns their order.
func (w *stroll) policies() {
	c := &w.c
	switch old := slices.Clone(c.Policies); w.IntN(4) {
	case 0:
		c.Policies = nil
	case 1:
		slices.Reverse(old)
		c.Policies = old
	default:
		c.Policies = append(old, config.Policy{
			Name: w.fresh(), Action: pick(w, config.Bypass, config.Accelerate),
			Src: pick(w, nil, []string{"lan"}), Dest: pick(w, nil, []string{"wan"}),
			Set: pick(w, "", "", "games"), DSCP: pick(w, nil, []uint8{46}),
		})
	}
}

// engines asks for an engine on all usual ports.
func (w *stroll) engines() {
	p := config.Port{
		Networks: []string{"lan", "wan", "wan6"}, Engine: pick(w, config.EngineXDP, config.EngineXDP, config.EngineAFXDP),
		Receive: config.ReceiveAuto, XDPMode: pick(w, config.XDPNative, config.XDPNative, config.XDPGeneric), Force: w.IntN(2) == 0,
	}
	p.ZeroCopy = p.Engine == config.EngineAFXDP && p.XDPMode == config.XDPNative && w.IntN(2) == 0
	w.c.Ports = []config.Port{p}
	for _, device := range []string{"eth0", "eth1", "eth2", "n1"} {
		p.Networks, p.Device = nil, device
		w.c.Ports = append(w.c.Ports, p)
	}
}
