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
	case state.SetOffloads:
		return k.setOffloads(s.Port, s.Want)
	case state.RestoreOffloads:
		return k.restore(s.Port) // saved.json is the truth; s.Saved is for reading
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
	case state.DeleteTable:
		return c.dropTable(step.String(), unix.NFPROTO_INET)
	case state.RemoveDevices:
		return c.takeOut(step.String(), s.Devices)
	case state.AddDevices:
		b.addFlowtable(state.TableName, state.FlowtableName, s.Flowtable, s.Devices)
	case state.ReplaceRules:
		b.flushChain(unix.NFPROTO_INET, state.TableName, state.ChainName)
		err = b.addRules(s.Table)
	case state.ReplaceTable:
		// Deleting a table that isn't there would end the transaction: so it
		// is added first, which for one that is there changes nothing.
		b.addTable(unix.NFPROTO_INET, state.TableName)
		b.deleteTable(unix.NFPROTO_INET, state.TableName)
		b.addTable(unix.NFPROTO_INET, state.TableName)
		if f := s.Table.Flowtable; len(f.Devices) > 0 {
			b.addFlowtable(state.TableName, state.FlowtableName, f, f.Devices)
		}
		for _, kind := range sortedKeys(s.Table.Engines) {
			b.addDevices(state.TableName, kind, s.Table.Engines[kind])
		}
		b.addChain(forwardChain(state.TableName))
		err = b.addRules(s.Table)
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
	flowtables, err := c.flowtables(state.TableName)
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
		flowtable = slices.Contains(s.Table.Rules, state.Rule{Verdict: state.Add})
	case state.AddDevices:
		devices = s.Devices
	case state.AddCheck:
		devices = []string{s.Device}
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
