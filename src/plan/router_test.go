// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fastpath/src/state"
)

// router is a model of the kernel: just enough of nf_tables and ethtool to do a
// Step or refuse it, with the differences between kernels that a plan has to
// bear (facts seen in VMs with 6.12 and 7.3).
type router struct {
	o state.Observed
	// keepsNames: a flowtable goes on naming a device that vanished or got
	// another name (7.3); before, the device left the list, or was followed (6.12).
	keepsNames bool
	index      int
	original   map[string]state.Offloads // what each port has without us
}

var (
	errNoDevice = errors.New("ENOENT: no such device")
	errOrder    = errors.New("an early flowtable would take lists of a port that merges packets")
)

func (r *router) link(name string) *state.Link {
	for i := range r.o.Links {
		if r.o.Links[i].Name == name {
			return &r.o.Links[i]
		}
	}
	return nil
}

// apply does one step as the kernel would.
func (r *router) apply(step state.Step) error {
	switch s := step.(type) {
	case state.ReplaceTable:
		r.o.Table, r.o.Routing.Moved = &state.Table{}, nil
		return r.install(s.Table)
	case state.DeleteTable:
		if r.o.Table == nil {
			return errors.New("ENOENT: no table")
		}
		r.o.Table = nil
	case state.AddDevices:
		return r.addDevices(s)
	case state.RemoveDevices:
		return r.removeDevices(s)
	case state.ReplaceRules:
		return r.replaceRules(s.Table)
	case state.SetSysctl, state.RestoreSysctl:
		return r.sysctlStep(step)
	case state.SetDrop:
		return r.setDrop(s.Drop)
	case state.RemoveDrop:
		if r.o.Drop.Is(nil) {
			return errors.New("ENOENT: no chains")
		}
		r.o.Drop = state.DropState{}
	case state.AddCheck:
		if r.link(s.Device) == nil || slices.Contains(r.o.Checks, s.Device) {
			return errNoDevice
		}
		r.o.Checks = append(r.o.Checks, s.Device)
		slices.Sort(r.o.Checks)
	case state.RemoveCheck:
		i := slices.Index(r.o.Checks, s.Device)
		if i < 0 {
			return errors.New("ENOENT: no chain")
		}
		r.o.Checks = slices.Delete(r.o.Checks, i, i+1)
	case state.SetOffloads:
		return r.setOffloads(s)
	case state.RestoreOffloads:
		return r.restoreOffloads(s)
	case state.StartEngine:
		return r.startEngine(s)
	case state.StopEngine:
		return r.stopEngine(s)
	default:
		return r.forget(step)
	}
	return nil
}

func (r *router) install(t state.Table) error {
	checks := len(t.Validation.Input) > 0
	if carries := len(t.Flowtable.Devices)+len(t.Engines) > 0; carries != (len(t.Rules) > 0) || !carries && t.Sets == nil && !checks {
		return errors.New("a table without devices or rules")
	}
	if err := r.rulesFit(t); err != nil {
		return err
	}
	r.o.Table.Generation = t.Generation
	r.o.Table.Rules = readBack(t.Rules)
	r.validate(t.Validation)
	r.o.Table.Zones, r.o.Table.Sets = maps.Clone(t.Zones), slices.Clone(t.Sets)
	r.o.Table.Engines = maps.Clone(t.Engines)
	r.o.Table.Flowtable = state.Flowtable{Number: t.Flowtable.Number, Counter: t.Flowtable.Counter}
	return r.addDevices(state.AddDevices{Flowtable: t.Flowtable, Devices: t.Flowtable.Devices})
}

func (r *router) addDevices(s state.AddDevices) error {
	if r.o.Table == nil || !adds(r.o.Table.Rules) && len(s.Devices) > 0 {
		return errors.New("ENOENT: no flowtable")
	}
	f := &r.o.Table.Flowtable
	if s.Flowtable.Number != f.Number {
		return errors.New("EOPNOTSUPP: an update has to carry the flowtable's own hook")
	}
	for _, device := range s.Devices {
		if r.link(device) == nil {
			return fmt.Errorf("%s: %w", device, errNoDevice)
		}
		if slices.Contains(f.Devices, device) {
			return fmt.Errorf("%s: EEXIST", device)
		}
		f.Devices = append(f.Devices, device)
	}
	slices.Sort(f.Devices)
	return r.earlyHolds(s.Devices...)
}

func (r *router) removeDevices(s state.RemoveDevices) error {
	if r.o.Table == nil || s.Flowtable.Number != r.o.Table.Flowtable.Number {
		return errors.New("ENOENT: no such flowtable")
	}
	f := &r.o.Table.Flowtable
	for _, device := range s.Devices {
		i := slices.Index(f.Devices, device)
		if i < 0 {
			return fmt.Errorf("%s: ENOENT in the flowtable", device)
		}
		f.Devices = slices.Delete(slices.Clone(f.Devices), i, i+1)
	}
	return nil
}

func (r *router) setOffloads(s state.SetOffloads) error {
	l := r.link(s.Port)
	if l == nil {
		return errNoDevice
	}
	if reachable(s.Want, l.Feature) != s.Want {
		return errors.New("EINVAL: a fixed feature")
	}
	if _, saved := r.o.Saved[s.Port]; !saved {
		r.o.Saved[s.Port] = l.Feature.Offloads()
	}
	l.Feature = with(l.Feature, s.Want)
	return cmp.Or(r.engineSees(l), r.earlyHolds(s.Port))
}

func (r *router) restoreOffloads(s state.RestoreOffloads) error {
	l := r.link(s.Port)
	saved, ok := r.o.Saved[s.Port]
	if l == nil || !ok || saved != s.Saved {
		return errNoDevice
	}
	l.Feature = with(l.Feature, reachable(saved, l.Feature))
	delete(r.o.Saved, s.Port)
	return cmp.Or(r.engineSees(l), r.earlyHolds(s.Port))
}

// earlyHolds: none of the ports that a step touches may merge packets while an
// early flowtable lists it.
func (r *router) earlyHolds(ports ...string) error {
	if r.o.Table == nil || r.o.Table.Flowtable.Number == state.NumberIngress {
		return nil
	}
	for _, port := range ports {
		l := r.link(port)
		merges := l.Feature.GRO.On || l.Feature.GROHW.On || l.Feature.LRO.On
		if merges && slices.Contains(r.o.Table.Flowtable.Devices, port) {
			return fmt.Errorf("%s: %w", port, errOrder)
		}
	}
	return nil
}

func with(f state.Features, o state.Offloads) state.Features {
	f.GRO.On, f.GROList.On, f.GROHW.On, f.LRO.On, f.RxVLAN.On = o.GRO, o.GROList, o.GROHW, o.LRO, o.RxVLAN
	return f
}

// clone is a copy that shares nothing which apply or an event changes.
func (r *router) clone() *router {
	c := *r
	c.o.Links = slices.Clone(r.o.Links)
	c.o.Interfaces = slices.Clone(r.o.Interfaces)
	c.o.Sessions = slices.Clone(r.o.Sessions)
	c.o.Checks = slices.Clone(r.o.Checks)
	c.o.Accelerators = slices.Clone(r.o.Accelerators)
	if r.o.Table != nil {
		t := *r.o.Table
		t.Flowtable.Devices = slices.Clone(t.Flowtable.Devices)
		t.Rules, t.Zones, t.Sets = slices.Clone(t.Rules), maps.Clone(t.Zones), slices.Clone(t.Sets)
		c.o.Table = &t
	}
	c.o.Saved = maps.Clone(r.o.Saved)
	c.o.Engines = maps.Clone(r.o.Engines)
	c.o.Refused = maps.Clone(r.o.Refused)
	c.o.Multicast, c.o.Mix = maps.Clone(r.o.Multicast), maps.Clone(r.o.Mix)
	c.original = maps.Clone(r.original)
	return &c
}
