// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

// golden turns a commented hex listing into bytes.
func golden(t *testing.T, listing string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(listing) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	must(t, err)
	return b
}

func needLittleEndian(t *testing.T) {
	t.Helper()
	testkit.Need(t, binary.NativeEndian.Uint16([]byte{1, 0}) == 1, "the golden bytes are a little-endian CPU's")
}

func TestGoldenRemoveDevices(t *testing.T) {
	needLittleEndian(t)
	var b batch
	b.removeDevices("fastpath", "ft", []string{"eth0.35", "lan1"})
	b.end()
	want := golden(t, `
		14000000 1000 0100 00000000 00000000   # NFNL_MSG_BATCH_BEGIN, request
		00 00 000a                             # AF_UNSPEC, version 0, NFNL_SUBSYS_NFTABLES
		4c000000 180a 0500 01000000 00000000   # NFT_MSG_DELFLOWTABLE, request and ack
		01 00 0000                             # NFPROTO_INET
		0d00 0100 6661737470617468 00 000000   # NFTA_FLOWTABLE_TABLE "fastpath"
		0700 0200 6674 00 00                   # NFTA_FLOWTABLE_NAME "ft"
		2000 0380                              # NFTA_FLOWTABLE_HOOK, nested
		1c00 0380                              # NFTA_FLOWTABLE_HOOK_DEVS, nested
		0c00 0100 657468302e3335 00            # NFTA_DEVICE_NAME "eth0.35"
		0900 0100 6c616e31 00 000000           # NFTA_DEVICE_NAME "lan1"
		14000000 1100 0100 00000000 00000000   # NFNL_MSG_BATCH_END
		00 00 000a`)
	if !bytes.Equal(b.w.b, want) {
		t.Errorf("got\n%x, want\n%x", b.w.b, want)
	}
}

func TestGoldenAddDevices(t *testing.T) {
	needLittleEndian(t)
	var b batch
	b.addFlowtable("fastpath", "ft", state.Flowtable{Number: 2, Counter: true}, []string{"wan"})
	want := golden(t, `
		14000000 1000 0100 00000000 00000000   # begin
		00 00 000a
		54000000 160a 0504 01000000 00000000   # NFT_MSG_NEWFLOWTABLE, request, ack, create; no excl
		01 00 0000
		0d00 0100 6661737470617468 00 000000   # table
		0700 0200 6674 00 00                   # name
		2000 0380                              # hook: its own number and priority must come with an update
		0800 0100 00000002                     # NFTA_FLOWTABLE_HOOK_NUM, network order
		0800 0200 00000000                     # NFTA_FLOWTABLE_PRIORITY
		0c00 0380                              # devices
		0800 0100 77616e 00                    # "wan"
		0800 0700 00000002                     # NFTA_FLOWTABLE_FLAGS: counter`)
	if !bytes.Equal(b.w.b, want) {
		t.Errorf("got\n%x, want\n%x", b.w.b, want)
	}
}

// TestUncommitted: what is tried has a begin and no end.
func TestUncommitted(t *testing.T) {
	var b batch
	b.addTable(unix.NFPROTO_INET, "x")
	if _, err := b.addRule(forwardChain("x"), []expr.Any{&expr.Counter{}}, "y"); err != nil {
		t.Fatal(err)
	}
	var types []uint16
	for rest := b.w.b; len(rest) > 0; {
		h, body, next := split(rest)
		if body == nil {
			t.Fatalf("a message of %d bytes, %d are left", h.Len, len(rest))
		}
		types = append(types, h.Type)
		rest = next
	}
	want := []uint16{unix.NFNL_MSG_BATCH_BEGIN, nftType(unix.NFT_MSG_NEWTABLE), nftType(unix.NFT_MSG_NEWRULE)}
	if len(types) != 3 || types[0] != want[0] || types[1] != want[1] || types[2] != want[2] {
		t.Errorf("messages %#x, want %#x", types, want)
	}
}

func TestAttrsRoundTrip(t *testing.T) {
	var w writer
	w.str(1, "name")
	w.be32(2, 0x01020304)
	w.nest(3, func() {
		w.u32(1, 7)
		w.nest(2, func() { w.attr(9, []byte{1, 2, 3}) })
	})
	seen := 0
	for typ, b := range attrs(w.b) {
		seen++
		switch typ {
		case 1:
			if text(b) != "name" {
				t.Errorf("text %q", text(b))
			}
		case 2:
			if be32(b) != 0x01020304 {
				t.Errorf("be32 %#x", be32(b))
			}
		case 3:
			for typ, b := range attrs(b) {
				if typ == 1 && u32(b) != 7 {
					t.Errorf("u32 %d", u32(b))
				}
				for _, inner := range attrs(b) {
					if typ == 2 && !bytes.Equal(inner, []byte{1, 2, 3}) {
						t.Errorf("inner %x", inner)
					}
				}
			}
		default:
			t.Errorf("type %d", typ)
		}
	}
	if seen != 3 {
		t.Errorf("%d attributes", seen)
	}
}

// FuzzRead: no bytes of a socket make a reader fail.
func FuzzRead(f *testing.F) {
	var b batch
	b.addFlowtable("fastpath", "ft", state.Flowtable{}, []string{"wan"})
	f.Add(b.w.b)
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) >= unix.NLMSG_HDRLEN; {
			_, body, next := split(rest)
			if body == nil {
				break
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			rest = next
			data = body
		}
		readFlowtable(data)
		readChain(data)
		readRule(data)
		readConnection(data)
		readElements(data)
		readUserData(data)
		var bits [len(featureNames)]int
		readNames(data, &bits)
		(&ethtool{}).read(data)
		for _, s := range subscriptions {
			s.anyMatters(data)
		}
	})
}
