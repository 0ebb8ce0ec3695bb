// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// InSet asks whether an address is in a set of our table.
func (k *Kernel) InSet(set string, a netip.Addr) (bool, error) {
	op := "look for " + a.String() + " in set " + set
	c, err := k.nfnetlink()
	if err != nil {
		return false, refused(op, err)
	}
	defer c.close()
	found := false
	err = c.ask(request{
		call: "read set " + set, typ: nftType(unix.NFT_MSG_GETSETELEM), header: nfHeader(unix.NFPROTO_INET, 0),
		attrs: func(w *writer) {
			w.str(unix.NFTA_SET_ELEM_LIST_TABLE, state.TableName)
			w.str(unix.NFTA_SET_ELEM_LIST_SET, set)
			w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() { w.span(span{first: a.AsSlice(), last: a.AsSlice()}, false) })
		},
	}, func([]byte) { found = true })
	gone, err := absent(err)
	return found && !gone, refused(op, err)
}
