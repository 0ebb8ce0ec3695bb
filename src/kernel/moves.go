// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

const ndmsgLen = 12 // struct ndmsg

// moves remembers where hosts are: a flow to a host behind a bridge keeps the
// port and the MAC that it had when the flow was learnt (FLOW_OFFLOAD_XMIT_DIRECT
// in net/netfilter/nft_flow_offload.c). A host that moves, to another access point
// say, would never again get a packet of it.
type moves struct {
	mu    sync.Mutex
	ports map[bridged]int32
	macs  map[neighbour]mac
	moved map[any]string // what of the above has changed (key), and how in words
	told  []any          // by the last look
}

type (
	mac [6]byte
	// bridged is a MAC in a bridge, and in one of its VLANs if it has any.
	bridged struct {
		bridge int32
		vlan   uint16
		mac    mac
	}
	neighbour struct {
		dev  int32
		addr netip.Addr
	}
)

func newMoves() *moves {
	return &moves{ports: map[bridged]int32{}, macs: map[neighbour]mac{}, moved: map[any]string{}}
}

// open listens, and reads what there is: only what is known can move.
func (m *moves) open(k *Kernel) func(int, ...int) (*os.File, error) {
	return func(protocol int, groups ...int) (*os.File, error) {
		f, err := subscribe(protocol, groups...)
		if err != nil {
			return nil, err
		}
		if err := m.read(k); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

func (m *moves) read(k *Kernel) error {
	c, err := dial(unix.NETLINK_ROUTE, k.inject)
	if err != nil {
		return err
	}
	defer c.close()
	for _, family := range []byte{unix.AF_UNSPEC, unix.AF_BRIDGE} {
		header := make([]byte, ndmsgLen)
		header[0] = family
		err := steady(func() error {
			return c.ask(request{call: "read the neighbours", typ: unix.RTM_GETNEIGH, dump: true, header: header},
				func(body []byte) { m.note(body) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// matters: a host has moved. One that is gone is remembered where it was, as
// the flows to it are; it may come back somewhere else.
func (m *moves) matters(h unix.NlMsghdr, body []byte) bool {
	return h.Type == unix.RTM_NEWNEIGH && m.note(body)
}

// alive are the states in which a neighbour has a MAC that it answered with.
const alive = unix.NUD_REACHABLE | unix.NUD_PROBE | unix.NUD_STALE | unix.NUD_DELAY

// note writes down a neighbour or a bridge's host.
func (m *moves) note(body []byte) (moved bool) {
	if len(body) < ndmsgLen {
		return false
	}
	dev, nud := int32(u32(body[4:])), u16(body[8:])
	n, b := neighbour{dev: dev}, bridged{}
	for typ, v := range attrs(body[ndmsgLen:]) {
		switch typ {
		case unix.NDA_DST:
			n.addr, _ = netip.AddrFromSlice(v)
		case unix.NDA_LLADDR:
			copy(b.mac[:], v)
		case unix.NDA_MASTER:
			b.bridge = int32(u32(v))
		case unix.NDA_VLAN:
			b.vlan = u16(v)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ports)+len(m.macs) >= mostRemembered {
		clear(m.ports)
		clear(m.macs)
	}
	switch {
	case b.mac == mac{}:
		return false
	case body[0] != unix.AF_BRIDGE:
		if nud&alive == 0 || !n.addr.IsValid() {
			return false
		}
		old, known := m.macs[n]
		m.macs[n] = b.mac
		if moved = known && old != b.mac; moved {
			m.wait(n, fmt.Sprintf("%v has another MAC", n.addr))
		}
	case b.bridge != 0 && nud&unix.NUD_PERMANENT == 0: // that is: the bridge's own
		old, known := m.ports[b]
		m.ports[b] = dev
		if moved = known && old != dev; moved {
			m.wait(b, fmt.Sprintf("%v has moved to another port", net.HardwareAddr(b.mac[:])))
		}
	}
	return moved
}

// wait lets the next look judge a move.
func (m *moves) wait(key any, how string) {
	if len(m.moved) >= mostRemembered {
		clear(m.moved)
	}
	m.moved[key] = how
}

// pending says what has moved since the last ReplaceTable, of hosts that flows
// in the flowtable go to. What else has moved is forgotten.
func (m *moves) pending(flows func(func(state.Flow)) error, gateways map[netip.Addr]bool) (words []string, err error) {
	m.mu.Lock()
	addrs := map[netip.Addr][]any{}
	var keys []any
	for key := range m.moved {
		keys = append(keys, key)
		switch key := key.(type) {
		case neighbour:
			addrs[key.addr] = append(addrs[key.addr], key)
		case bridged:
			for n, has := range m.macs {
				if has == key.mac {
					addrs[n.addr] = append(addrs[n.addr], key)
				}
			}
		}
	}
	m.mu.Unlock()
	m.told = nil
	if len(addrs) > 0 {
		err = flows(func(f state.Flow) {
			for _, end := range []string{f.Orig.Src, f.Orig.Dst, f.Reply.Src} {
				a, _ := netip.ParseAddr(end)
				m.told = append(m.told, addrs[a]...)
				delete(addrs, a)
			}
			for a, keys := range addrs { // what goes there goes by it to anybody
				if gateways[a] {
					m.told = append(m.told, keys...)
					delete(addrs, a)
				}
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if slices.Contains(m.told, key) {
			words = append(words, m.moved[key])
		} else if err == nil {
			delete(m.moved, key)
		}
	}
	slices.Sort(words)
	return words, err
}

// learnAnew forgets the moves that the last look told of when a step has sent
// all flows back to the slow path.
func (k *Kernel) learnAnew(step state.Step) {
	switch step.(type) {
	case state.ReplaceTable, state.DeleteTable:
	default:
		return
	}
	m := k.hosts
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.told {
		delete(m.moved, key)
	}
	m.told = nil
}
