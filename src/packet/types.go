// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"unsafe"
)

// Sizes in bytes.
const (
	ethLen   = 14
	vlanLen  = 4
	pppoeLen = 8 // RFC 2516 header and the PPP protocol
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	tcpLen   = 20

	// MaxL2 is the longest header in front of a packet: Ethernet, two VLAN tags,
	// PPPoE, and the outer IPv6 header of a tunnel.
	MaxL2 = ethLen + 2*vlanLen + pppoeLen + ipv6Len
	// Headroom is what Rewrite may need in front of a frame.
	Headroom = MaxL2 - ethLen
	// MinFrame is the shortest Ethernet frame, without FCS. Rewrite pads up to
	// it: not every driver does so for frames that don't come from the stack.
	MinFrame = 60
)

// Protocol numbers.
const (
	TCP = 6
	UDP = 17
)

// protoIPv4 is IPv4 in IPv6 (RFC 2473).
const protoIPv4 = 4

// ECN, the low bits of IPv4's TOS and of IPv6's traffic class (RFC 3168).
const (
	ecnMask = 3
	ecnECT0 = 2
	ecnCE   = 3
)

// EtherTypes and PPP protocols.
const (
	typeIPv4  = 0x0800
	typeIPv6  = 0x86dd
	TypeVLAN  = 0x8100 // 802.1Q
	TypeQinQ  = 0x88a8 // 802.1ad
	typePPPoE = 0x8864 // session stage
	pppIPv4   = 0x0021
	pppIPv6   = 0x0057
)

// Key tells one direction of a flow from all others by what a frame carries
// when it comes in. A frame with the right tuple that comes by another port,
// VLAN, PPPoE session, concentrator or tunnel has another key. 56 bytes.
type Key struct {
	SrcPort, DstPort [2]byte
	Tags             [2][2]byte // VLANs, the outer one first; see tag
	Session          [2]byte    // PPPoE session id; 0: no PPPoE
	Peer             [6]byte    // source MAC of a PPPoE frame, else 0
	Port             uint16     // slot of the port
	Tunnel           uint16     // id of the tunnel that an IPv4 packet came by; 0: none
	Proto            uint8      // TCP or UDP
	Family           uint8      // 4 or 6; of the inner packet
	pad              [2]byte    // compared as bytes by the program: 0
	Src, Dst         [16]byte   // IPv4: the first 4 bytes
}

// A tag in a key is the VLAN id with tagged set, and tagQinQ for TypeQinQ. The
// priority bits don't count.
const (
	tagged  = 0x10 // in the first byte
	tagQinQ = 0x20
)

// Action is everything that one direction of a flow needs. Its flow's key says
// what a packet's addresses and ports are, so they are written whether they
// change or not, and the checksum differences are constants. 116 bytes.
type Action struct {
	Out              uint16  // slot of the output port
	MTU              uint16  // the longest IP packet that may leave, bytes; of a tunnel the inner one
	L3Diff           [2]byte // to add to the complement of the IPv4 header checksum; has the TTL in it
	L4Diff           [2]byte // the same for TCP's and UDP's
	L2Len            uint8   // 14, 18, 22, 26 or 30; 40 more with a tunnel
	Encap            uint8   // what L2 ends in, encapPPPoE and encapTunnel
	SrcPort, DstPort [2]byte
	Src, Dst         [16]byte    // IPv4: the first 4 bytes
	L2               [MaxL2]byte // the first L2Len bytes
}

// What is in front of the packet. Some of it is set for each packet.
const (
	encapPPPoE  = 1 // a PPPoE header: its length
	encapTunnel = 2 // behind that, an outer IPv6 header: its length and ECN
)

// Layout says where things are in a parsed frame: all that Rewrite has to
// know. Four fields: the compiler keeps no longer struct in registers.
type Layout struct {
	L3     uint8  // offset of the IP header, of a tunnel the inner one, from the frame's first byte
	Family uint8  // 4 or 6
	Proto  uint8  // TCP or UDP
	Len    uint16 // of the IP packet, from its own header
}

// Parsed is what Parse found.
type Parsed struct {
	Key    Key
	Layout Layout
}

// Ref names a flow in the flow table (src/flow). An index is used again, a Ref
// is not. No flow has the zero Ref.
type Ref struct{ Index, Gen uint32 }

// MetaLen is the size of the metadata in front of a frame.
const MetaLen = 16

// Meta is what the XDP program puts in front of a frame that it hands to a
// worker: the last MetaLen bytes before the frame's first one.
type Meta struct {
	Ref    Ref
	Layout Layout
}

// LoadMeta reads the metadata in b, which holds at least MetaLen bytes.
func LoadMeta(b []byte) Meta {
	_ = b[MetaLen-1]
	ne := binary.NativeEndian
	return Meta{
		Ref:    Ref{Index: ne.Uint32(b), Gen: ne.Uint32(b[4:])},
		Layout: Layout{L3: b[8], Family: b[9], Proto: b[10], Len: ne.Uint16(b[12:])},
	}
}

// Port is what a frame is judged by when it comes in. 16 bytes.
type Port struct {
	MACs [2][6]byte // the port's own and its bridge's; both the same without a bridge
	Slot uint16
	_    [2]byte
}

// Endpoints are the addresses of a tunnel.
type Endpoints struct{ Local, Remote [16]byte }

// Tunnels are the ids, above 0, of the tunnels that Parse looks into: IPv4 in
// IPv6 (RFC 2473 without encapsulation limit, as DS-Lite has it, RFC 6333).
type Tunnels map[Endpoints]uint16

// LoadKey reads a key as it lies in the program's memory: b holds at least its 56 bytes.
func LoadKey(b []byte) Key {
	var k Key
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), b[:unsafe.Sizeof(k)])
	return k
}
