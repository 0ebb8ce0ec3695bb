// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Step is one change to the kernel, done as a whole or not at all.
type Step interface {
	fmt.Stringer
	step()
}

// The steps. Each nftables step is one transaction.
type (
	// ReplaceTable makes our table anew: every accelerated flow, an engine's too,
	// goes back to the slow path and is learnt again. What is in sets stays.
	ReplaceTable struct{ Table Table }
	// DeleteTable removes our table and with it all flows, an engine's too.
	DeleteTable struct{}
	// AddDevices adds devices to our flowtable; the others keep their flows.
	AddDevices struct {
		Flowtable Flowtable // as it is: an update must carry its number
		Devices   []string
	}
	// RemoveDevices removes devices from our flowtable; the others keep their flows.
	RemoveDevices struct {
		Flowtable Flowtable
		Devices   []string
	}
	// ReplaceRules exchanges the rules and their zones, and sets that come or go;
	// flows stay, and what is in the other sets.
	ReplaceRules struct{ Table Table }
	// AddCheck adds a chain at netdev ingress of a device that only counts.
	AddCheck struct{ Device string }
	// RemoveCheck removes it.
	RemoveCheck struct{ Device string }
	// SetOffloads saves a port's receive offloads, if that hasn't been done yet, and sets them.
	SetOffloads struct {
		Port string
		Want Offloads
	}
	// RestoreOffloads gives a port back what it had before us and forgets it.
	RestoreOffloads struct {
		Port  string
		Saved Offloads
	}
	// StartEngine puts an engine on a port.
	StartEngine struct {
		Port string
		Want Engine
	}
	// StopEngine takes it off; its flows go back to the slow path.
	StopEngine struct{ Port string }
)

func (ReplaceTable) step()    {}
func (DeleteTable) step()     {}
func (AddDevices) step()      {}
func (RemoveDevices) step()   {}
func (ReplaceRules) step()    {}
func (AddCheck) step()        {}
func (RemoveCheck) step()     {}
func (SetOffloads) step()     {}
func (RestoreOffloads) step() {}
func (StartEngine) step()     {}
func (StopEngine) step()      {}

func (s ReplaceTable) String() string {
	what := "no flowtable"
	if f := s.Table.Flowtable; len(f.Devices) > 0 {
		what = fmt.Sprintf("flowtable at %s on %s", f.hook(), strings.Join(f.Devices, ", "))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Table.Engines)) {
		what += fmt.Sprintf(", engine %s between %s", kind, strings.Join(s.Table.Engines[kind], ", "))
	}
	for i, set := range s.Table.Sets {
		what += []string{", sets ", ", "}[min(i, 1)] + set.Name
	}
	return fmt.Sprintf("install table inet %s: %s, %d rules", TableName, what, len(s.Table.Rules))
}

func (f Flowtable) hook() string {
	if f.Number == NumberIngress {
		return string(HookIngress)
	}
	return fmt.Sprintf("%s (number %d)", HookEarly, f.Number)
}

func (DeleteTable) String() string { return "remove table inet " + TableName }

func (s AddDevices) String() string {
	return "add to the flowtable: " + strings.Join(s.Devices, ", ")
}

func (s RemoveDevices) String() string {
	return "remove from the flowtable: " + strings.Join(s.Devices, ", ")
}

func (s ReplaceRules) String() string {
	return fmt.Sprintf("replace the rules of chain %s: %d rules, flows stay", ChainName, len(s.Table.Rules))
}

func (s AddCheck) String() string { return "count packets at netdev ingress of " + s.Device }

func (s RemoveCheck) String() string { return "stop counting packets at netdev ingress of " + s.Device }

func (s SetOffloads) String() string { return fmt.Sprintf("set %s: %v", s.Port, s.Want) }

func (s RestoreOffloads) String() string {
	return fmt.Sprintf("give %s back its own settings: %v", s.Port, s.Saved)
}

// String is the setting in ethtool's words.
func (o Offloads) String() string {
	on := map[bool]string{true: "on", false: "off"}
	return fmt.Sprintf("rx-gro %s, rx-gro-list %s, rx-gro-hw %s, rx-lro %s, rx-vlan-hw-parse %s",
		on[o.GRO], on[o.GROList], on[o.GROHW], on[o.LRO], on[o.RxVLAN])
}

func (s StartEngine) String() string { return fmt.Sprintf("start engine %v on %s", s.Want, s.Port) }

func (s StopEngine) String() string { return "stop the engine of " + s.Port }

// String is the engine with what isn't the default.
func (e Engine) String() string {
	s := e.Kind
	if e.Generic {
		s += " (generic mode)"
	}
	if e.ZeroCopy {
		s += " (zero copy)"
	}
	if e.Force {
		s += " (forced)"
	}
	return s
}
