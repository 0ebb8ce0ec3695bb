// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// featureNames are ethtool's words for state.Features, in its order: those of
// state.Offloads, then the one that is only looked at.
var featureNames = [...]string{"rx-gro", "rx-gro-list", "rx-gro-hw", "rx-lro", "rx-vlan-hw-parse", "rx-udp-gro-forwarding"}

const settable = len(featureNames) - 1

// featureBits is where this kernel keeps them: the number of the generic
// netlink family "ethtool" and each feature's bit (-1: the kernel lacks it).
// Both stay the same while the kernel runs.
type featureBits struct {
	family uint16
	bits   [len(featureNames)]int
}

// ethtool is a conversation with the kernel's ethtool (Documentation/networking/
// ethtool-netlink.rst): one dump tells about all ports.
type ethtool struct {
	*conn
	featureBits
}

// ethtool opens it. The error is ENOENT where the kernel has no such family.
func (k *Kernel) ethtool() (*ethtool, error) {
	c, err := dial(unix.NETLINK_GENERIC, k.inject)
	if err != nil {
		return nil, err
	}
	if k.features.family == 0 {
		if err := k.findFeatures(c); err != nil {
			c.close()
			return nil, err
		}
	}
	return &ethtool{conn: c, featureBits: k.features}, nil
}

func (k *Kernel) findFeatures(c *conn) error {
	family, err := c.findFamily(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		return err
	}
	f := featureBits{family: family}
	for i := range f.bits {
		f.bits[i] = -1
	}
	err = c.ask(request{
		call: "read the names of ethtool's features", typ: f.family,
		header: genlHeader(unix.ETHTOOL_MSG_STRSET_GET, unix.ETHTOOL_GENL_VERSION),
		attrs: func(w *writer) {
			w.nest(unix.ETHTOOL_A_STRSET_HEADER, func() {})
			w.nest(unix.ETHTOOL_A_STRSET_STRINGSETS, func() {
				w.nest(unix.ETHTOOL_A_STRINGSETS_STRINGSET, func() { w.u32(unix.ETHTOOL_A_STRINGSET_ID, featureSet) })
			})
		},
	}, func(body []byte) { readNames(body, &f.bits) })
	if err != nil {
		return err
	}
	k.features = f
	return nil
}

// featureSet is ETH_SS_FEATURES (include/uapi/linux/ethtool.h).
const featureSet = 4

// readNames finds the features' bits: string sets, a string set, its strings,
// a string: its index and its value.
func readNames(body []byte, bits *[len(featureNames)]int) {
	for _, sets := range attrsOf(body) {
		for _, set := range attrs(sets) {
			for typ, strs := range attrs(set) {
				if typ != unix.ETHTOOL_A_STRINGSET_STRINGS {
					continue
				}
				for _, s := range attrs(strs) {
					readName(s, bits)
				}
			}
		}
	}
}

func readName(s []byte, bits *[len(featureNames)]int) {
	index, name := -1, ""
	for typ, b := range attrs(s) {
		switch typ {
		case unix.ETHTOOL_A_STRING_INDEX:
			index = int(u32(b))
		case unix.ETHTOOL_A_STRING_VALUE:
			name = text(b)
		}
	}
	for i, n := range featureNames {
		if n == name {
			bits[i] = index
		}
	}
}

// all reads every port's features, by interface index.
func (e *ethtool) all() (map[int]state.Features, error) {
	var found map[int]state.Features
	err := steady(func() error {
		found = map[int]state.Features{}
		r := e.get(unix.ETHTOOL_MSG_FEATURES_GET, "read the ports' features", 0)
		r.dump = true
		return e.ask(r, func(body []byte) {
			index, f := e.read(body)
			found[index] = f
		})
	})
	return found, err
}

// of reads one port's features.
func (e *ethtool) of(index int) (f state.Features, err error) {
	err = e.ask(e.get(unix.ETHTOOL_MSG_FEATURES_GET, "read a port's features", index), func(body []byte) { _, f = e.read(body) })
	return f, err
}

// get asks for one port, or with index 0 for all. The header is attribute 1 of every message.
func (e *ethtool) get(command byte, call string, index int) request {
	return request{
		call: call, typ: e.family, header: genlHeader(command, unix.ETHTOOL_GENL_VERSION),
		attrs: func(w *writer) {
			w.nest(ethtoolHeader, func() {
				if index != 0 {
					w.u32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
				}
				w.u32(unix.ETHTOOL_A_HEADER_FLAGS, unix.ETHTOOL_FLAG_COMPACT_BITSETS)
			})
		},
	}
}

// read decodes one answer. A feature is fixed if the driver doesn't offer to
// change it (not in HW) or the core forbids it (NOCHANGE), as ethtool -k has it.
func (e *ethtool) read(body []byte) (index int, f state.Features) {
	var hw, active, noChange []byte
	for typ, b := range attrsOf(body) {
		switch typ {
		case ethtoolHeader:
			index = headerIndex(b)
		case unix.ETHTOOL_A_FEATURES_HW:
			hw = bitsetValue(b)
		case unix.ETHTOOL_A_FEATURES_ACTIVE:
			active = bitsetValue(b)
		case unix.ETHTOOL_A_FEATURES_NOCHANGE:
			noChange = bitsetValue(b)
		}
	}
	for i, out := range []*state.Feature{&f.GRO, &f.GROList, &f.GROHW, &f.LRO, &f.RxVLAN, &f.UDPForward} {
		bit := e.bits[i]
		*out = state.Feature{On: hasBit(active, bit), Fixed: !hasBit(hw, bit) || hasBit(noChange, bit)}
	}
	return index, f
}

func bitsetValue(b []byte) []byte {
	for typ, v := range attrs(b) {
		if typ == unix.ETHTOOL_A_BITSET_VALUE {
			return v
		}
	}
	return nil
}

// hasBit looks into words of 32 bits in the CPU's byte order.
func hasBit(words []byte, bit int) bool {
	if bit < 0 || len(words) < bit/32*4+4 {
		return false
	}
	return u32(words[bit/32*4:])>>(bit%32)&1 != 0
}

// set changes the features in which want differs from now.
func (e *ethtool) set(index int, now, want state.Offloads) error {
	from, to := values(now), values(want)
	return e.ask(request{
		call: "set a port's features", typ: e.family, header: genlHeader(unix.ETHTOOL_MSG_FEATURES_SET, unix.ETHTOOL_GENL_VERSION),
		attrs: func(w *writer) {
			w.nest(ethtoolHeader, func() { w.u32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index)) })
			w.nest(unix.ETHTOOL_A_FEATURES_WANTED, func() {
				w.nest(unix.ETHTOOL_A_BITSET_BITS, func() {
					for i, name := range featureNames[:settable] {
						if from[i] != to[i] {
							w.bit(name, to[i])
						}
					}
				})
			})
		},
	}, nil)
}

func (w *writer) bit(name string, on bool) {
	w.nest(unix.ETHTOOL_A_BITSET_BITS_BIT, func() {
		w.str(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
		if on {
			w.attr(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		}
	})
}

func values(o state.Offloads) [settable]bool {
	return [...]bool{o.GRO, o.GROList, o.GROHW, o.LRO, o.RxVLAN}
}

// change sets a port's features and reads them back: a driver may refuse
// without saying so. It then puts them back; the error is a *stayError.
func (e *ethtool) change(index int, want state.Offloads) error {
	before, err := e.of(index)
	if err != nil || before.Offloads() == want {
		return err
	}
	if err := e.set(index, before.Offloads(), want); err != nil {
		return err
	}
	after, err := e.of(index)
	if err == nil {
		err = mismatch(after, want)
	}
	if err == nil {
		return nil
	}
	if undo := e.set(index, want, before.Offloads()); undo != nil {
		return fmt.Errorf("%w, and it can't be put back: %w", err, undo)
	}
	return err
}

// giveBack is change as far as the port follows: a feature that can't be had
// any more (an XDP program forbids LRO) must not keep the others from coming back.
func (e *ethtool) giveBack(index int, own state.Offloads) error {
	err := e.change(index, own)
	var stay *stayError
	if errors.As(err, &stay) {
		return errors.Join(err, e.change(index, stay.got))
	}
	return err
}

// stayError names the features that did not follow.
type stayError struct {
	names []string
	got   state.Offloads // what the port had then
}

func (e *stayError) Error() string { return strings.Join(e.names, ", ") }

// mismatch is a *stayError if f isn't as wanted.
func mismatch(f state.Features, want state.Offloads) error {
	var stay []string
	now, to := values(f.Offloads()), values(want)
	for i, feature := range []state.Feature{f.GRO, f.GROList, f.GROHW, f.LRO, f.RxVLAN} {
		if now[i] == to[i] {
			continue
		}
		why := "the driver refuses"
		if feature.Fixed {
			why = "fixed"
		}
		stay = append(stay, fmt.Sprintf("%s stays %s [%s]", featureNames[i], map[bool]string{true: "on", false: "off"}[now[i]], why))
	}
	if stay == nil {
		return nil
	}
	return &stayError{stay, f.Offloads()}
}
