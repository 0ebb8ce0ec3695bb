// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// setOffloads saves what a port has, if that hasn't been done yet, and sets
// what is wanted. If the port doesn't follow, nothing has changed.
func (k *Kernel) setOffloads(port string, want state.Offloads) error {
	index, err := k.indexOf(port)
	if err != nil {
		return err
	}
	e, err := k.ethtool()
	if err != nil {
		return err
	}
	defer e.close()
	now, err := e.of(index)
	if err != nil || now.Offloads() == want {
		return err
	}
	ports, err := k.loadSaved()
	if err != nil {
		return err
	}
	p, before := ports[index]
	if !before {
		p = savedPort{Name: port, Offloads: now.Offloads()}
	}
	if !before || p.old {
		ports[index] = savedPort{Name: p.Name, Offloads: p.own(now)}
		if err := k.storeSaved(ports); err != nil {
			return err
		}
	}
	err = e.change(index, want)
	if err == nil || before {
		return err
	}
	// Not ours to give back, unless even the way back failed.
	if after, lost := e.of(index); lost == nil && after.Offloads() == now.Offloads() {
		delete(ports, index)
		err = errors.Join(err, k.storeSaved(ports))
	}
	return err
}

// restore gives a port what saved.json has for it. One that is gone needs
// nothing back.
func (k *Kernel) restore(port string) error {
	index, err := k.indexOf(port)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.restoreIndex(index)
}

// restoreIndex gives a device what saved.json has for it, and forgets it, also
// when the device is gone. What a port does not take stays owed.
func (k *Kernel) restoreIndex(index int) error {
	ports, err := k.loadSaved()
	if err != nil {
		return err
	}
	p, ok := ports[index]
	if !ok {
		return nil
	}
	e, err := k.ethtool()
	if err != nil {
		return err
	}
	defer e.close()
	now, err := e.of(index)
	if err == nil {
		err = e.giveBack(index, p.own(now))
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	delete(ports, index)
	return k.storeSaved(ports)
}

// indexOf is the index of a device; ENODEV when there is none.
func (k *Kernel) indexOf(name string) (int, error) {
	if err := k.inject("look for a device"); err != nil {
		return 0, err
	}
	l, err := k.routes.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return 0, unix.ENODEV
	}
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}
