// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// ifnameType is what nft calls ifname: it prints a set's elements by it.
const ifnameType = 41

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

// engines reads the sets that the rules refer to; nil: none does.
func (c *conn) engines(rules []state.Rule) (map[string][]string, error) {
	var sets map[string][]string
	for _, r := range rules {
		if r.Key != state.KeyEngine {
			continue
		}
		devices, err := c.devicesOf(state.TableName, r.Value)
		if err != nil {
			return nil, err
		}
		if sets == nil {
			sets = map[string][]string{}
		}
		sets[r.Value] = devices
	}
	return sets, nil
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
