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
	first := ports[port].Index != index
	if first {
		ports[port] = savedPort{Index: index, Offloads: now.Offloads()}
		if err := k.storeSaved(ports); err != nil {
			return err
		}
	}
	err = e.change(index, want)
	if err == nil || !first {
		return err
	}
	// Not ours to give back, unless even the way back failed.
	if after, lost := e.of(index); lost == nil && after.Offloads() == now.Offloads() {
		delete(ports, port)
		err = errors.Join(err, k.storeSaved(ports))
	}
	return err
}

// restore gives a port what saved.json has for it and forgets it. A device
// that is gone, or that has the name but is another one, needs nothing back.
func (k *Kernel) restore(port string) error {
	ports, err := k.loadSaved()
	if err != nil {
		return err
	}
	p, ok := ports[port]
	if !ok {
		return nil
	}
	e, err := k.ethtool()
	if err != nil {
		return err
	}
	defer e.close()
	if err := e.change(p.Index, p.Offloads); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	delete(ports, port)
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
