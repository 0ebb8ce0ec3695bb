// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Multicast TV is seen by who wants it: a multicast router (igmpproxy,
// omcproxy, …) tells the kernel its interfaces while it runs, and a group of a
// channel is joined by the router for it, or by a host behind a snooping bridge.
const (
	procIGMP  = "/proc/thread-self/net/igmp"
	procIGMP6 = "/proc/thread-self/net/igmp6"
	procVIF   = "/proc/thread-self/net/ip_mr_vif"
	procVIF6  = "/proc/thread-self/net/ip6_mr_vif"
)

// Columns of ip_mr_vif and ip6_mr_vif behind the device's name (net/ipv4/ipmr.c,
// ipmr_vif_seq_show; net/ipv6/ip6mr.c, ip6mr_vif_seq_show).
const (
	vifColumns  = 7
	vif6Columns = 5
)

// multicast is why a device is taken to carry multicast TV, by its name.
func (k *Kernel) multicast(links []state.Link) (map[string]string, error) {
	names := make(map[int]string, len(links))
	bridges := false
	for _, l := range links {
		names[l.Index] = l.Name
		bridges = bridges || l.Kind == "bridge"
	}
	found := map[string]string{}
	add := func(index int, group netip.Addr) {
		name := names[index]
		if why, ok := found[name]; name == "" || !isChannel(group) || ok && why <= joined(group) {
			return // the least group: the order in which the kernel tells them says nothing
		}
		found[name] = joined(group)
	}
	if bridges {
		if err := k.snooped(func() { clear(found) }, add); err != nil {
			return nil, err
		}
	}
	for _, g := range readProc(procIGMP, readIGMP) {
		add(g.index, g.addr)
	}
	for _, g := range readProc(procIGMP6, readIGMP6) {
		add(g.index, g.addr)
	}
	routed := readProc(procVIF, func(r io.Reader) []string { return readVIF(r, vifColumns) })
	for _, name := range append(routed, readProc(procVIF6, func(r io.Reader) []string { return readVIF(r, vif6Columns) })...) {
		found[name] = "a multicast router (igmpproxy, omcproxy) uses it"
	}
	return found, nil
}

func joined(group netip.Addr) string { return "group " + group.String() + " is joined" }

// isChannel leaves out the groups by which hosts find each other and that every
// home has: RFC 5771 (link-local and internetwork control), RFC 2365 (local
// scope), BEP 14; for IPv6 RFC 4291 (permanent groups, scopes up to the link).
func isChannel(group netip.Addr) bool {
	b := group.AsSlice()
	switch {
	case !group.IsMulticast():
		return false
	case group.Is4():
		control := b[0] == 224 && b[1] == 0 && b[2] <= 1
		local := b[0] == 239 && b[1] == 255
		return !control && !local && group != netip.AddrFrom4([4]byte{239, 192, 152, 143})
	}
	transient, scope := b[1]&0x10 != 0, b[1]&0xf
	return transient && scope > 2
}

type membership struct {
	index int
	addr  netip.Addr
}

// readIGMP reads /proc/net/igmp (net/ipv4/igmp.c, igmp_mc_seq_show): a line with
// the device, then one for each group, in hex as the CPU reads network order.
func readIGMP(r io.Reader) (list []membership) {
	index := 0
	for s := bufio.NewScanner(r); s.Scan(); {
		field := strings.Fields(s.Text())
		if len(field) == 0 {
			continue
		}
		if s.Text()[0] != '\t' {
			index, _ = strconv.Atoi(field[0])
			continue
		}
		group, err := strconv.ParseUint(field[0], 16, 32)
		if err == nil {
			list = append(list, membership{index, netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, uint32(group))))})
		}
	}
	return list
}

// readIGMP6 reads /proc/net/igmp6 (net/ipv6/mcast.c, igmp6_mc_seq_show): index,
// device, group, users, flags, timer; the name may hold blanks.
func readIGMP6(r io.Reader) (list []membership) {
	for s := bufio.NewScanner(r); s.Scan(); {
		field := strings.Fields(s.Text())
		if len(field) < 6 {
			continue
		}
		index, err := strconv.Atoi(field[0])
		group, err2 := hex.DecodeString(field[len(field)-4])
		if addr, ok := netip.AddrFromSlice(group); err == nil && err2 == nil && ok {
			list = append(list, membership{index, addr})
		}
	}
	return list
}

// readVIF reads the names of a multicast router's interfaces: after a header
// the number, the name, so many columns.
func readVIF(r io.Reader, columns int) (names []string) {
	s := bufio.NewScanner(r)
	s.Scan()
	for s.Scan() {
		_, line, ok := strings.Cut(strings.TrimLeft(s.Text(), " "), " ")
		for range columns {
			line = strings.TrimRight(line, " ")
			line = line[:strings.LastIndexByte(line, ' ')+1]
		}
		if name := strings.TrimRight(line, " "); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// include/uapi/linux/if_bridge.h: MDBA_MDB, MDBA_MDB_ENTRY and
// MDBA_MDB_ENTRY_INFO are all 1, each inside the one before.
const (
	brPortMsgLen = 8 // struct br_port_msg: family, ifindex
	mdbGroup     = 8 // struct br_mdb_entry: port, state, flags, VLAN, group, its EtherType
	mdbProto     = 24
)

// snooped hands each group that a host behind a bridge has joined, with the
// bridge: by which of its ports the channel comes in isn't told.
func (k *Kernel) snooped(restart func(), each func(bridge int, group netip.Addr)) error {
	c, err := dial(unix.NETLINK_ROUTE, k.inject)
	if err != nil {
		return err
	}
	defer c.close()
	err = steady(func() error {
		restart()
		header := make([]byte, brPortMsgLen)
		header[0] = unix.AF_BRIDGE
		return c.ask(request{call: "read the bridges' groups", typ: unix.RTM_GETMDB, dump: true, header: header}, func(body []byte) {
			readMDB(body, each)
		})
	})
	if errors.Is(err, unix.EOPNOTSUPP) { // a kernel without snooping
		return nil
	}
	return err
}

func readMDB(body []byte, each func(bridge int, group netip.Addr)) {
	if len(body) < brPortMsgLen {
		return
	}
	bridge := int(u32(body[4:]))
	for typ, mdb := range attrs(body[brPortMsgLen:]) {
		if typ != 1 {
			continue // MDBA_ROUTER
		}
		for _, entry := range attrs(mdb) {
			for typ, b := range attrs(entry) {
				if typ != 1 || len(b) < mdbProto+2 {
					continue
				}
				switch be16(b[mdbProto:]) {
				case unix.ETH_P_IP:
					each(bridge, netip.AddrFrom4([4]byte(b[mdbGroup:mdbGroup+4])))
				case unix.ETH_P_IPV6:
					each(bridge, netip.AddrFrom16([16]byte(b[mdbGroup:mdbGroup+16])))
				}
			}
		}
	}
}
