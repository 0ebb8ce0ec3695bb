// SPDX-License-Identifier: Apache-2.0

package flowsync

import "golang.org/x/sys/unix"

// A use is what an end depends on besides links and routes: a neighbour, or a
// bridge's knowledge of a host.
type use struct {
	neighbour neighbourKey
	fdb       fdbKey
}

// noteNeighbour writes a message of RTM_NEWNEIGH or RTM_DELNEIGH into the
// world. changed: flows that go by what is changed may be wrong now.
func (w *world) noteNeighbour(body []byte, gone bool) (what use, changed bool) {
	if len(body) < ndmsgLen {
		return use{}, false
	}
	dev, state, flags := int(u32(body[4:])), u16(body[8:]), body[10]
	var n neighbour
	var key neighbourKey
	var bridge int
	var vlan uint16
	n.state, key.dev = state, dev
	for typ, b := range attrs(body[ndmsgLen:]) {
		switch typ {
		case unix.NDA_DST:
			key.addr = address(b)
		case unix.NDA_LLADDR:
			n.mac = mac(b)
		case unix.NDA_MASTER:
			bridge = int(u32(b))
		case unix.NDA_VLAN:
			vlan = u16(b)
		}
	}
	switch {
	case body[0] == unix.AF_BRIDGE:
		if bridge == 0 {
			return use{}, false // the device's own filter, no bridge's
		}
		return w.noteHost(fdbKey{bridge, vlan, n.mac}, dev, gone)
	case body[0] != unix.AF_INET && body[0] != unix.AF_INET6, flags&unix.NTF_PROXY != 0:
		return use{}, false
	}
	old := w.neighbours[key]
	if gone {
		delete(w.neighbours, key)
		return use{neighbour: key}, old.valid()
	}
	w.neighbours[key] = n
	return use{neighbour: key}, !old.same(n)
}

// noteHost writes into the forwarding database where a host is.
func (w *world) noteHost(key fdbKey, port int, gone bool) (what use, changed bool) {
	old, known := w.fdb[key]
	switch {
	case !gone:
		w.fdb[key] = port
		return use{fdb: key}, old != port
	case known && old == port:
		delete(w.fdb, key)
		return use{fdb: key}, true
	}
	return use{}, false // an entry that has moved already
}
