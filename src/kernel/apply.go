// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Apply does one step, as a whole or not at all. The error is one readable
// line that begins with the step and matches ErrVanished, ErrPermission or
// ErrNoFlowtable where that is the cause.
func (k *Kernel) Apply(step state.Step) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.apply(step)
	if err == nil {
		k.learnAnew(step)
		return nil
	}
	out := refused(step.String(), err).(*Error)
	if kernelErrno(err) == unix.ENOENT {
		k.missing(step, out)
	}
	return out
}

func (k *Kernel) apply(step state.Step) error {
	switch s := step.(type) {
	case state.ForgetConnections:
		return k.forgetConnections(step.String(), s.Addresses)
	case state.SetOffloads:
		return k.setOffloads(s.Port, s.Want)
	case state.RestoreOffloads:
		return k.restore(s.Port) // saved.json is the truth; s.Saved is for reading
	case state.SetSysctl:
		return k.setSysctl(s.Name, s.Value)
	case state.RestoreSysctl:
		return k.restoreSysctl(s.Name)
	}
	c, err := k.nfnetlink()
	if err != nil {
		return err
	}
	defer c.close()
	var b batch
	switch s := step.(type) {
	case state.AddCheck:
		return c.addCheck(step.String(), s.Device)
	case state.RemoveCheck:
		return c.removeCheck(step.String(), s.Device)
	case state.SetDrop:
		return c.setDrop(step.String(), s.Drop)
	case state.RemoveDrop:
		return c.removeDrop(step.String())
	case state.DeleteTable:
		return c.dropTable(step.String(), unix.NFPROTO_INET)
	case state.RemoveDevices:
		return c.takeOut(step.String(), s.Devices)
	case state.AddDevices:
		b.addFlowtable(state.TableName, state.FlowtableName, s.Flowtable, s.Devices)
	case state.ReplaceRules:
		err = c.replaceRules(&b, s.Table)
	case state.ReplaceTable:
		err = c.replaceTable(&b, s.Table)
	default:
		err = fmt.Errorf("unknown step %T", step)
	}
	if err != nil {
		return err
	}
	return c.commit(step.String(), &b)
}

// dropTable deletes our table of a family; one that isn't there is as good as deleted.
func (c *conn) dropTable(call string, family byte) error {
	var b batch
	b.deleteTable(family, state.TableName)
	_, err := absent(c.commit(call, &b))
	return err
}

// takeOut takes devices out of our flowtable. The kernel refuses all of them
// if one isn't in it any more (it leaves by itself with its device): then only
// those that are.
func (c *conn) takeOut(call string, devices []string) error {
	var b batch
	b.removeDevices(state.TableName, state.FlowtableName, devices)
	gone, err := absent(c.commit(call, &b))
	if !gone {
		return err
	}
	flowtables, err := c.flowtablesOf(state.TableName)
	if err != nil || len(flowtables) == 0 {
		return err
	}
	in := slices.DeleteFunc(slices.Clone(devices), func(d string) bool {
		return !slices.Contains(flowtables[0].devices, d)
	})
	if len(in) == 0 {
		return nil
	}
	b = batch{}
	b.removeDevices(state.TableName, state.FlowtableName, in)
	return c.commit(call, &b)
}

// missing finds out what an ENOENT meant: a device of the step that is gone,
// our table that somebody deleted, or a kernel without flowtables.
func (k *Kernel) missing(step state.Step, e *Error) {
	var devices []string
	flowtable := false // is made by the step
	switch s := step.(type) {
	case state.ReplaceTable:
		devices = s.Table.Flowtable.Devices
		flowtable = slices.ContainsFunc(s.Table.Rules, func(r state.Rule) bool { return r.Verdict == state.Add })
	case state.AddDevices:
		devices = s.Devices
	case state.AddCheck:
		devices = []string{s.Device}
	case state.SetDrop:
		for _, ch := range s.Drop.Chains {
			devices = append(devices, ch.Port)
		}
	}
	for _, d := range devices {
		if _, err := k.indexOf(d); errors.Is(err, unix.ENODEV) {
			e.Object, e.Kind = d, ErrVanished
			return
		}
	}
	switch {
	case !flowtable: // the table, or a device that is back already
		e.Kind = ErrVanished
	case k.noFlowtable():
		e.Kind = ErrNoFlowtable
	case e.Object == flowtableObject: // a device that is back already
		e.Kind = ErrVanished
	}
}

// noFlowtable asks once more: a module may have come or gone.
func (k *Kernel) noFlowtable() bool {
	c, err := k.nfnetlink()
	if err != nil {
		return false
	}
	defer c.close()
	t := trial{number: state.NumberIngress}
	return t.run(c, "") == nil && !t.ingress.OK
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
