// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// What the kernel tells about its tables, as far as it is asked for here.
type (
	tableInfo struct {
		handle uint64 // new for each table that is made
		flags  uint32
		use    uint32 // chains, sets, objects and flowtables in it
	}
	flowtableInfo struct {
		family        byte
		table, name   string
		number, flags uint32
		priority      int32
		devices       []string
	}
	chainInfo struct {
		table, name, typ string
		hook, policy     uint32
		priority         int32
		devices          []string
	}
	ruleInfo struct {
		chain, comment string
		handle         uint64
		packets, bytes uint64 // of its first counter
	}
)

// absent turns the kernel's ENOENT into "not found".
func absent(err error) (bool, error) {
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	return false, err
}

// table reads one table; nil: there is none.
func (c *conn) table(family byte, name string) (*tableInfo, error) {
	var t tableInfo
	err := c.ask(request{
		call: "read table " + name, typ: nftType(unix.NFT_MSG_GETTABLE), header: nfHeader(family, 0),
		attrs: func(w *writer) { w.str(unix.NFTA_TABLE_NAME, name) },
	}, func(body []byte) {
		for typ, b := range attrsOf(body) {
			switch typ {
			case unix.NFTA_TABLE_FLAGS:
				t.flags = be32(b)
			case unix.NFTA_TABLE_USE:
				t.use = be32(b)
			case nftaTableHandle:
				t.handle = be64(b)
			}
		}
	})
	if gone, err := absent(err); gone || err != nil {
		return nil, err
	}
	return &t, nil
}

// flowtables reads the flowtables of all tables.
func (c *conn) flowtables() (list []flowtableInfo, err error) {
	err = steady(func() error {
		list = nil
		return c.ask(request{
			call: "read the flowtables", typ: nftType(unix.NFT_MSG_GETFLOWTABLE), dump: true,
			header: nfHeader(unix.NFPROTO_UNSPEC, 0),
		}, func(body []byte) { list = append(list, readFlowtable(body)) })
	})
	return list, err
}

// flowtablesOf reads those of a table in family inet.
func (c *conn) flowtablesOf(table string) ([]flowtableInfo, error) {
	list, err := c.flowtables()
	return slices.DeleteFunc(list, func(f flowtableInfo) bool { return f.family != unix.NFPROTO_INET || f.table != table }), err
}

func readFlowtable(body []byte) (f flowtableInfo) {
	if len(body) > 0 {
		f.family = body[0] // struct nfgenmsg
	}
	for typ, b := range attrsOf(body) {
		switch typ {
		case nftaFlowtableTable:
			f.table = text(b)
		case nftaFlowtableName:
			f.name = text(b)
		case nftaFlowtableFlags:
			f.flags = be32(b)
		case nftaFlowtableHook:
			for typ, b := range attrs(b) {
				switch typ {
				case nftaFlowtableHookNum:
					f.number = be32(b)
				case nftaFlowtablePriority:
					f.priority = int32(be32(b))
				case nftaFlowtableHookDevs:
					f.devices = readDevices(b)
				}
			}
		}
	}
	slices.Sort(f.devices)
	return f
}

// readDevices reads a device list; newer kernels also have prefixes in it.
func readDevices(b []byte) (names []string) {
	for typ, b := range attrs(b) {
		switch typ {
		case nftaDeviceName:
			names = append(names, text(b))
		case nftaDevicePrefix:
			names = append(names, text(b)+"*")
		}
	}
	return names
}

// chains reads the chains of a table. The kernel filters by family only.
func (c *conn) chains(family byte, table string) (list []chainInfo, err error) {
	err = steady(func() error {
		list = nil
		return c.ask(request{
			call: "read the chains of table " + table, typ: nftType(unix.NFT_MSG_GETCHAIN), dump: true,
			header: nfHeader(family, 0),
		}, func(body []byte) {
			if ch := readChain(body); ch.table == table {
				list = append(list, ch)
			}
		})
	})
	return list, err
}

// chain reads one chain; nil: there is none.
func (c *conn) chain(family byte, table, name string) (*chainInfo, error) {
	var ch chainInfo
	err := c.ask(request{
		call: "read chain " + name, typ: nftType(unix.NFT_MSG_GETCHAIN), header: nfHeader(family, 0),
		attrs: func(w *writer) { w.str(unix.NFTA_CHAIN_TABLE, table); w.str(unix.NFTA_CHAIN_NAME, name) },
	}, func(body []byte) { ch = readChain(body) })
	if gone, err := absent(err); gone || err != nil {
		return nil, err
	}
	return &ch, nil
}

func readChain(body []byte) (ch chainInfo) {
	for typ, b := range attrsOf(body) {
		switch typ {
		case unix.NFTA_CHAIN_TABLE:
			ch.table = text(b)
		case unix.NFTA_CHAIN_NAME:
			ch.name = text(b)
		case unix.NFTA_CHAIN_TYPE:
			ch.typ = text(b)
		case unix.NFTA_CHAIN_POLICY:
			ch.policy = be32(b)
		case unix.NFTA_CHAIN_HOOK:
			for typ, b := range attrs(b) {
				switch typ {
				case unix.NFTA_HOOK_HOOKNUM:
					ch.hook = be32(b)
				case unix.NFTA_HOOK_PRIORITY:
					ch.priority = int32(be32(b))
				case nftaHookDevs:
					ch.devices = readDevices(b)
				}
			}
		}
	}
	return ch
}

// rules hands every rule of a table to each, in the kernel's order. It may
// begin again when the rules change meanwhile: restart says so.
func (c *conn) rules(family byte, table string, restart func(), each func(ruleInfo)) error {
	return steady(func() error {
		restart()
		return c.ask(request{
			call: "read the rules of table " + table, typ: nftType(unix.NFT_MSG_GETRULE), dump: true,
			header: nfHeader(family, 0),
			attrs:  func(w *writer) { w.str(unix.NFTA_RULE_TABLE, table) },
		}, func(body []byte) {
			if r, of := readRule(body); of == table {
				each(r)
			}
		})
	})
}

func readRule(body []byte) (r ruleInfo, table string) {
	for typ, b := range attrsOf(body) {
		switch typ {
		case unix.NFTA_RULE_TABLE:
			table = text(b)
		case unix.NFTA_RULE_CHAIN:
			r.chain = text(b)
		case unix.NFTA_RULE_HANDLE:
			r.handle = be64(b)
		case unix.NFTA_RULE_USERDATA:
			r.comment = readUserData(b)
		case unix.NFTA_RULE_EXPRESSIONS:
			r.packets, r.bytes = readCounter(b)
		}
	}
	return r, table
}

// readCounter finds the first counter among a rule's expressions.
func readCounter(exprs []byte) (packets, bytes uint64) {
	for _, e := range attrs(exprs) {
		var name string
		var data []byte
		for typ, b := range attrs(e) {
			switch typ {
			case unix.NFTA_EXPR_NAME:
				name = text(b)
			case unix.NFTA_EXPR_DATA:
				data = b
			}
		}
		if name != "counter" {
			continue
		}
		for typ, b := range attrs(data) {
			switch typ {
			case unix.NFTA_COUNTER_PACKETS:
				packets = be64(b)
			case unix.NFTA_COUNTER_BYTES:
				bytes = be64(b)
			}
		}
		return packets, bytes
	}
	return 0, 0
}
