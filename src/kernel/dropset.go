// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// A set of 100,000 entries is made in transactions of so many ranges: up to
// 0.5 MiB for the socket's send buffer and for our memory, whatever the set's size.
const (
	rangesPerMessage     = 500 // of 64 bytes at most
	rangesPerTransaction = 16 * rangesPerMessage
	sendBuffer           = 1 << 20
)

// dropSetPrefixes are how the names of our sets begin.
var dropSetPrefixes = []string{"v4-", "v6-"}

// dropSets reads the names of our sets, sorted.
func (c *conn) dropSets() (names []string, err error) {
	all, err := c.sets(unix.NFPROTO_NETDEV, state.TableName)
	if gone, err := absent(err); gone || err != nil {
		return nil, err
	}
	for _, s := range all {
		if hasPrefix(s.name, dropSetPrefixes) {
			names = append(names, s.name)
		}
	}
	return names, nil
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func (b *batch) deleteDropSet(name string) {
	b.message("set "+name, unix.NFT_MSG_DELSET, 0, unix.NFPROTO_NETDEV, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, state.TableName)
		w.str(unix.NFTA_SET_NAME, name)
	})
}

func (c *conn) deleteDropSet(call, name string) error {
	var b batch
	b.deleteDropSet(name)
	_, err := absent(c.commit(call, &b))
	return err
}

// makeDropSet makes a set. Until rules refer to it, nobody takes it for complete.
func (c *conn) makeDropSet(call string, s state.DropSet) error {
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer); err != nil {
		return fmt.Errorf("set %s: send buffer of %d bytes: %w", s.Name, sendBuffer, err)
	}
	var b batch
	b.addTable(unix.NFPROTO_NETDEV, state.TableName)
	b.addDropSet(s)
	err := c.commit(call, &b)
	total := len(s.V4) + len(s.V6)
	buffer := b.w.b
	for at := 0; at < total && err == nil; at += rangesPerTransaction {
		b = batch{w: writer{b: buffer[:0]}}
		for from := at; from < min(at+rangesPerTransaction, total); from += rangesPerMessage {
			b.addRanges(s, from, min(from+rangesPerMessage, total))
		}
		err = c.commit(call, &b)
		buffer = b.w.b
	}
	if err != nil {
		return errors.Join(err, c.deleteDropSet(call, s.Name))
	}
	return nil
}

func (b *batch) addDropSet(s state.DropSet) {
	size := uint32(4)
	if s.Family == "ipv6" {
		size = 16
	}
	b.message("set "+s.Name, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_NETDEV, func(w *writer) {
		w.str(unix.NFTA_SET_TABLE, state.TableName)
		w.str(unix.NFTA_SET_NAME, s.Name)
		w.be32(unix.NFTA_SET_FLAGS, unix.NFT_SET_INTERVAL)
		w.be32(unix.NFTA_SET_KEY_TYPE, addressTypes[s.Family])
		w.be32(unix.NFTA_SET_KEY_LEN, size)
		w.be32(unix.NFTA_SET_ID, 0)
	})
}

// addRanges adds some of a set's ranges.
func (b *batch) addRanges(s state.DropSet, from, to int) {
	b.message("the entries of set "+s.Name, unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_NETDEV, func(w *writer) {
		w.str(unix.NFTA_SET_ELEM_LIST_TABLE, state.TableName)
		w.str(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
		w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
			for i := from; i < to; i++ {
				if s.V4 != nil {
					w.between(s.V4[i][0][:], s.V4[i][1][:])
				} else {
					w.between(s.V6[i][0][:], s.V6[i][1][:])
				}
			}
		})
	})
}

// between writes a range: where it begins, and unless the last address of all
// is in it, where it has ended.
func (w *writer) between(first, last []byte) {
	w.element(first, 0)
	var next [16]byte
	end := next[:copy(next[:], last)]
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			w.element(end, unix.NFT_SET_ELEM_INTERVAL_END)
			return
		}
	}
}

func (w *writer) element(key []byte, flags uint32) {
	w.nest(unix.NFTA_LIST_ELEM, func() {
		w.nest(unix.NFTA_SET_ELEM_KEY, func() { w.attr(unix.NFTA_DATA_VALUE, key) })
		if flags != 0 {
			w.be32(unix.NFTA_SET_ELEM_FLAGS, flags)
		}
	})
}
