// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"fastpath/src/packet"
)

// A devmap takes any device, and where the driver can't transmit XDP frames
// each packet is dropped and nobody told. So an output of engine xdp is proved
// before packets go there, and where the kernel can't tell (before 6.3), by the
// first packets.

// watchPackets is how many packets must have been sent to an output before half
// of them have to be in the driver's counter: virtio-net counts a packet when it
// sends a later one, and a bulk is 16.
const watchPackets = 64

// proveOutputs puts the outputs into the devmap that are fit for it. Most
// drivers can transmit only while a program is attached, so the features are read
// after that, and again when another port has got its program.
func (m *Manager) proveOutputs() {
	xdp := 0
	for _, p := range m.ports {
		if p.xdp() {
			xdp++
		}
	}
	for _, p := range m.ports {
		if p.output || p.retired {
			continue
		}
		known, err := m.proved(p)
		if err == nil && (known || !p.xdp()) {
			err = m.base.set.PutDevice(p.slot, p.link.Index)
			p.output = err == nil
		}
		if err != nil && xdp > 1 {
			m.stepAside(p, explain(err, p.link, p.want))
		}
	}
}

// checkProved asks again whether proved outputs can transmit: a driver loses that
// with its rings, and veth with its peer's GRO, and no event of rtnetlink tells.
// The ticker calls it each second while there are flows.
func (m *Manager) checkProved() {
	for _, p := range m.ports {
		if !p.known || p.retired {
			continue
		}
		features, known, err := m.features(p.link.Index)
		if err == nil && known && features&featureXmit == 0 { // an error: the device is gone
			m.stepAside(p, errTransmit.Error()+" any more: its xdp-features lack ndo-xmit")
		}
	}
}

// proved tells whether packets may leave by p.
func (m *Manager) proved(p *port) (bool, error) {
	if !p.xdp() || p.want.Generic {
		return true, nil
	}
	features, known, err := m.features(p.link.Index)
	switch {
	case err != nil:
		return false, err
	case !known:
		return true, m.watch(p)
	case features&featureXmit == 0:
		return false, fmt.Errorf("%w: its xdp-features lack ndo-xmit", errTransmit)
	}
	p.proved, p.known = true, true
	return true, nil
}

// watch begins to compare what flows send to p with what its driver counts.
func (m *Manager) watch(p *port) error {
	l, err := m.netlink.LinkByIndex(p.link.Index)
	if err != nil {
		return err
	}
	p.watched = true
	p.sent = transmitted(l)
	m.base.sink.begin()
	return nil
}

// checkWatched judges the watched outputs. The ticker calls it each second
// while there are flows.
func (m *Manager) checkWatched() {
	if m.base == nil || !m.base.sink.watching() {
		return
	}
	left := false
	due := m.base.sink.due()
	for _, p := range m.ports {
		if !p.watched || p.retired {
			continue
		}
		l, err := m.netlink.LinkByIndex(p.link.Index)
		if err != nil {
			continue // the next look knows
		}
		sent := transmitted(l) - p.sent
		if p.judge(due[p.slot], sent); p.watched {
			left = true
		} else if !p.proved {
			m.stepAside(p, fmt.Sprintf("%v: of the first %d packets its driver counts %d as sent", errTransmit, due[p.slot], sent))
		}
	}
	if !left {
		m.base.sink.end()
	}
}

// judge ends the watch when it can be told whether packets leave by p. A driver
// that has counted nothing, although more packets came after the first that were
// due, sends nothing: a TCP connection would not send many more.
func (p *port) judge(due, sent uint64) {
	switch {
	case due >= watchPackets:
		p.watched, p.proved = false, sent >= due/2
	case sent > 0 || due == 0:
	case p.doubt > 0 && due > p.doubt:
		p.watched = false
	default:
		p.doubt = due
	}
}

func transmitted(l netlink.Link) uint64 {
	if s := l.Attrs().Statistics; s != nil {
		return s.TxPackets
	}
	return 0
}

// begin makes the sink remember where flows leave.
func (s *sink) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil {
		s.watch = map[packet.Key]uint16{}
	}
}

func (s *sink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = nil
}

func (s *sink) watching() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch != nil
}

// due is how many packets of the remembered flows should have left, by slot.
func (s *sink) due() map[uint16]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := map[uint16]uint64{}
	_ = s.set.FlowCounters(func(key []byte, packets, _ uint64) { // what can't be read is judged a second later
		if out, ok := s.watch[packet.LoadKey(key)]; ok {
			due[out] += packets
		}
	})
	return due
}
