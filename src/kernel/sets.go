// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// hostEndian is nft's own note in a set's user data: type 0 (libnftnl's
// NFTNL_UDATA_SET_KEYBYTEORDER), length, and the CPU's byte order (nft's enum
// byteorder). Without it nft prints no names.
var hostEndian = append([]byte{0, 4}, native(1)...)

// elementsPerMessage keeps a list of elements, each of 28 bytes, below the
// 64 KiB that a netlink attribute holds.
const elementsPerMessage = 1000

// addDevices adds a set of device names.
func (b *batch) addDevices(table, name string, devices []string) {
	b.message("set "+name, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, table)
		w.str(unix.NFTA_SET_NAME, name)
		w.be32(unix.NFTA_SET_FLAGS, 0)
		w.be32(unix.NFTA_SET_KEY_TYPE, ifnameType)
		w.be32(unix.NFTA_SET_KEY_LEN, unix.IFNAMSIZ)
		w.be32(unix.NFTA_SET_ID, 0)
		w.attr(unix.NFTA_SET_USERDATA, hostEndian)
	})
	for part := range slices.Chunk(devices, elementsPerMessage) {
		b.message("the devices of set "+name, unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
			w.str(unix.NFTA_SET_ELEM_LIST_TABLE, table)
			w.str(unix.NFTA_SET_ELEM_LIST_SET, name)
			w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
				for _, d := range part {
					key := make([]byte, unix.IFNAMSIZ)
					copy(key, d)
					w.nest(unix.NFTA_LIST_ELEM, func() {
						w.nest(unix.NFTA_SET_ELEM_KEY, func() { w.attr(unix.NFTA_DATA_VALUE, key) })
					})
				}
			})
		})
	}
}

// addressFlags: nft and dnsmasq may add prefixes, and elements that time out.
const addressFlags = unix.NFT_SET_INTERVAL | unix.NFT_SET_TIMEOUT

var addressTypes = map[string]uint32{"ipv4": addressType4, "ipv6": addressType6}

// addAddresses adds an empty set of addresses; one that is there keeps what is in it.
func (b *batch) addAddresses(table string, s state.Set) {
	size := uint32(4)
	if s.Family == "ipv6" {
		size = 16
	}
	b.message("set "+s.Name, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, table)
		w.str(unix.NFTA_SET_NAME, s.Name)
		w.be32(unix.NFTA_SET_FLAGS, addressFlags)
		w.be32(unix.NFTA_SET_KEY_TYPE, addressTypes[s.Family])
		w.be32(unix.NFTA_SET_KEY_LEN, size)
		w.be32(unix.NFTA_SET_ID, 0)
	})
}

func (b *batch) deleteSet(table, name string) {
	b.message("set "+name, unix.NFT_MSG_DELSET, 0, unix.NFPROTO_INET, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, table)
		w.str(unix.NFTA_SET_NAME, name)
	})
}

// setInfo is a named set.
type setInfo struct {
	name           string
	keyType, flags uint32
}

// addresses is the set as we would have made it; false: we would not.
func (s setInfo) addresses() (state.Set, bool) {
	for _, family := range []string{"ipv4", "ipv6"} {
		if s.keyType == addressTypes[family] && s.flags == addressFlags {
			return state.Set{Name: s.name, Family: family}, true
		}
	}
	return state.Set{}, false
}

// sets reads the named sets of a table, sorted.
func (c *conn) sets(family byte, table string) (list []setInfo, err error) {
	err = steady(func() error {
		list = nil
		return c.ask(request{
			call: "read the sets of table " + table, typ: nftType(unix.NFT_MSG_GETSET), dump: true,
			header: nfHeader(family, 0),
			attrs:  func(w *writer) { w.str(unix.NFTA_SET_TABLE, table) },
		}, func(body []byte) {
			var s setInfo
			for typ, b := range attrsOf(body) {
				switch typ {
				case unix.NFTA_SET_NAME:
					s.name = text(b)
				case unix.NFTA_SET_KEY_TYPE:
					s.keyType = be32(b)
				case unix.NFTA_SET_FLAGS:
					s.flags = be32(b)
				}
			}
			if s.flags&unix.NFT_SET_ANONYMOUS == 0 {
				list = append(list, s)
			}
		})
	})
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list, err
}

// readSets fills in a table's sets. One that isn't like ours is no set of
// anything: it makes the table another one than is wanted.
func (c *conn) readSets(t *state.Table) (sets int, err error) {
	all, err := c.sets(unix.NFPROTO_INET, state.TableName)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.keyType != ifnameType {
			set, _ := s.addresses()
			t.Sets = append(t.Sets, set)
			continue
		}
		devices, err := c.devicesOf(state.TableName, s.name)
		if err != nil {
			return 0, err
		}
		if zone, ok := strings.CutPrefix(s.name, state.ZonePrefix); ok {
			t.Zones = with(t.Zones, zone, devices)
		} else {
			t.Engines = with(t.Engines, s.name, devices)
		}
	}
	return len(all), nil
}

func with(m map[string][]string, name string, devices []string) map[string][]string {
	if m == nil {
		m = map[string][]string{}
	}
	m[name] = devices
	return m
}

// devicesOf reads a set of device names, sorted.
func (c *conn) devicesOf(table, name string) (devices []string, err error) {
	err = steady(func() error {
		devices = nil
		return c.ask(request{
			call: "read set " + name, typ: nftType(unix.NFT_MSG_GETSETELEM), dump: true,
			header: nfHeader(unix.NFPROTO_INET, 0),
			attrs: func(w *writer) {
				w.str(unix.NFTA_SET_ELEM_LIST_TABLE, table)
				w.str(unix.NFTA_SET_ELEM_LIST_SET, name)
			},
		}, func(body []byte) {
			for typ, b := range attrsOf(body) {
				if typ == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
					devices = append(devices, readElements(b)...)
				}
			}
		})
	})
	slices.Sort(devices)
	return devices, err
}

func readElements(list []byte) (names []string) {
	for _, element := range attrs(list) {
		for typ, key := range attrs(element) {
			if typ != unix.NFTA_SET_ELEM_KEY {
				continue
			}
			for _, value := range attrs(key) {
				names = append(names, text(value))
			}
		}
	}
	return names
}
