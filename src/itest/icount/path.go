// SPDX-License-Identifier: Apache-2.0

package icount

import (
	"fmt"
	"strings"

	"fastpath/src/config"
	"fastpath/src/state"
)

// Path is a way through the router, and what its owner configures to have it.
type Path struct {
	Name string
	// Hook of the flowtable that carries the flows; "": none does.
	Hook state.Hook
	// Engine that carries them, in the words of `fastpath flows`; "": none, the
	// slow path, without a daemon.
	Engine   string
	ZeroCopy bool
	// Receive is what `option receive` asks for; "": it isn't written.
	Receive string
	// Lists is how many packets the kernel collects before it hands them on
	// (net.core.gro_normal_batch); 8 is the kernel's own choice.
	Lists int
}

// SlowPath is the Name of the kernel's forwarding with NAT alone.
const SlowPath = "slow path"

// flowtable is what `fastpath flows` calls the engine of flows in the flowtable.
const flowtable = "flowtable"

// Lists of 64 are what one burst gives; GRO is on where nothing else is said,
// as the kernel has it by itself.
var paths = []Path{
	{Name: SlowPath, Lists: burst},
	{Name: "flowtable at ingress", Hook: state.HookIngress, Engine: flowtable, Receive: config.ReceiveGRO, Lists: burst},
	{Name: "fraglist + ingress", Hook: state.HookIngress, Engine: flowtable, Receive: config.ReceiveFraglist, Lists: burst},
	{Name: "flowtable at early_ingress", Hook: state.HookEarly, Engine: flowtable, Receive: config.ReceiveBulk, Lists: burst},
	{Name: "early_ingress, lists of 8", Hook: state.HookEarly, Engine: flowtable, Receive: config.ReceiveBulk, Lists: 8},
	{Name: "xdp", Engine: "xdp", Lists: burst},
	{Name: "afxdp zero copy", Engine: "afxdp", ZeroCopy: true, Lists: burst},
}

// PathOf finds a path by its name.
func PathOf(name string) (Path, error) {
	for _, p := range paths {
		if p.Name == name {
			return p, nil
		}
	}
	return Path{}, fmt.Errorf("no path %q", name)
}

// Config is the router's /etc/config/fastpath for the path, with the ports lan1
// and wan.
func (p Path) Config() string {
	var b strings.Builder
	b.WriteString("config fastpath 'main'\n\toption enabled '1'\n")
	option := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "\toption %s '%s'\n", name, value)
		}
	}
	option("hook", string(p.Hook))
	for _, device := range []string{"lan1", "wan"} {
		b.WriteString("\nconfig port\n")
		option("device", device)
		option("receive", p.Receive)
		if p.Hook == "" {
			option("engine", p.Engine)
			// An engine need not show that it is cheaper than the best path without
			// it: that is what we are here to see.
			option("force", "1")
		}
		if p.ZeroCopy {
			option("zero_copy", "1")
		}
	}
	return b.String()
}
