// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"fastpath/src/bpf"
	"fastpath/src/flowsync"
	"fastpath/src/packet"
	"fastpath/src/state"
)

// port is a port with an engine.
type port struct {
	link state.Link // as the last look saw it; in Start: before the program was attached
	want state.Engine
	slot uint16
	prog uint32      // id of our program there
	addr packet.Port // as the program knows it

	queues   int // receive queues with a socket each; engine afxdp
	txQueues int
	seen     int // link.Queues when the engine ran first: attaching may have changed it

	output    bool   // packets may leave by it
	proved    bool   // its driver transmits XDP frames: the kernel says so, or the first packets
	known     bool   // the kernel tells the driver's features
	watched   bool   // the first packets have to prove it
	sent      uint64 // what the driver had counted before them
	doubt     uint64 // how many were due when it had counted none
	retired   bool   // refused while it ran: the plan will stop it
	lost      map[string]uint64
	base      []uint64 // the program's counters of the slot when the port came
	baseBytes uint64
}

func (p *port) xdp() bool { return p.want.Kind == state.EngineXDP }

// mode is where the program runs.
func (p *port) mode() bpf.Mode {
	if p.want.Generic {
		return bpf.Generic
	}
	return bpf.Native
}

// sync is the port for flowsync.
func (p *port) sync() flowsync.Port {
	return flowsync.Port{Name: p.link.Name, Ifindex: p.link.Index, Slot: p.slot, Engine: p.want.Kind}
}

// start puts an engine on a port. On error nothing is left of it.
func (m *Manager) start(link state.Link, want state.Engine) (err error) {
	if err := m.fits(link, want); err != nil {
		return err
	}
	if m.base == nil {
		if m.base, err = m.open(want.Mark); err != nil {
			return err
		}
	}
	p := &port{link: link, want: want, slot: m.freeSlot(), lost: map[string]uint64{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.release(p))
		}
	}()
	if err := m.base.set.Attach(link.Index, p.mode()); err != nil {
		return err
	}
	if p.prog, err = m.programOf(link.Index); err != nil {
		return err
	}
	m.own[p.prog] = true
	if err := p.begin(m.base.set); err != nil {
		return err
	}
	if want.Kind == state.EngineAFXDP {
		if err := m.recruit(p); err != nil {
			return err
		}
	}
	p.addr = m.addresses(p)
	if err := m.base.set.PutPort(link.Index, &p.addr); err != nil {
		return err
	}
	m.ports = append(m.ports, p)
	return nil
}

// recruit gives p a socket on each of its receive queues. When that fails the
// other ports get their workers back.
func (m *Manager) recruit(p *port) error {
	p.queues, p.txQueues = countQueues(p.link)
	if p.queues > bpf.MaxQueues {
		return fmt.Errorf("%w: %d receive queues (ethtool -L %s reduces them); an engine serves %d",
			errQueues, p.queues, p.link.Name, bpf.MaxQueues)
	}
	err := m.base.crew.assemble(append(m.served(), p))
	if err != nil {
		err = errors.Join(err, m.staff())
	}
	return err
}

// served are the ports that workers should serve.
func (m *Manager) served() (ports []*port) {
	for _, p := range m.ports {
		if !p.xdp() && !p.retired {
			ports = append(ports, p)
		}
	}
	return ports
}

// staff gives the workers those ports. After an error there are no workers; the
// next look tries again.
func (m *Manager) staff() error {
	ports := m.served()
	if slices.Equal(ports, m.base.crew.ports) {
		return nil
	}
	return m.base.crew.assemble(ports)
}

// release takes the engine off a port, whatever there is of it. Its flows must
// be gone. That the device is gone is no error.
func (m *Manager) release(p *port) error {
	var errs []error
	m.ports = slices.DeleteFunc(m.ports, func(q *port) bool { return q == p })
	errs = append(errs, m.base.set.DeleteDevice(p.slot), m.base.set.DeletePort(p.link.Index))
	errs = append(errs, m.staff())
	errs = append(errs, m.base.set.Detach(p.link.Index), m.awaitDetached(p))
	if len(m.ports) == 0 {
		errs = append(errs, m.base.close())
		m.base = nil
	}
	return errors.Join(errs...)
}

// freeSlot is the lowest slot without a port; fits has seen that there is one.
func (m *Manager) freeSlot() uint16 {
	slot := uint16(0)
	for slices.ContainsFunc(m.ports, func(p *port) bool { return p.slot == slot }) {
		slot++
	}
	return slot
}

// addresses are the MACs that frames for the router have on p: its own and its
// bridge's.
func (m *Manager) addresses(p *port) packet.Port {
	a := packet.Port{MACs: [2][6]byte{p.link.MAC, p.link.MAC}, Slot: p.slot}
	for _, l := range m.links {
		if l.Index == p.link.Master && l.Kind == "bridge" {
			a.MACs[1] = l.MAC
		}
	}
	return a
}

// countQueues returns the receive and transmit queues in use. With a program
// attached virtio-net has more than before, for the transmission of XDP frames;
// what comes in by them counts too. Without a /sys of this namespace the look's
// number holds, and one queue to send by.
func countQueues(l state.Link) (rx, tx int) {
	dir := filepath.Join("/sys/class/net", l.Name)
	if index, err := os.ReadFile(filepath.Join(dir, "ifindex")); err != nil || string(index) != strconv.Itoa(l.Index)+"\n" {
		return max(l.Queues, 1), 1
	}
	receive, _ := filepath.Glob(filepath.Join(dir, "queues/rx-*")) // the patterns are right
	send, _ := filepath.Glob(filepath.Join(dir, "queues/tx-*"))
	return max(l.Queues, len(receive), 1), max(len(send), 1)
}

// programOf is the id of the program attached to a device; 0: none.
func (m *Manager) programOf(ifindex int) (uint32, error) {
	l, err := m.netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, fmt.Errorf("read ifindex %d: %w", ifindex, err)
	}
	if x := l.Attrs().Xdp; x != nil && x.Attached {
		return x.ProgId, nil
	}
	return 0, nil
}

// awaitDetached returns when p's program is off its device: the kernel takes a
// closed bpf_link off in its own time, and who looked before that would take the
// program for somebody else's.
func (m *Manager) awaitDetached(p *port) error {
	for end := time.Now().Add(detachTime); ; time.Sleep(5 * time.Millisecond) {
		id, err := m.programOf(p.link.Index)
		if err != nil || id == 0 || id != p.prog { // gone with its device
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("detach from %s: the kernel still shows program %d", p.link.Name, id)
		}
	}
}

const detachTime = 2 * time.Second
