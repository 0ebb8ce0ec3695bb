// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Generic netlink family netdev, since Linux 6.3 (include/uapi/linux/netdev.h).
const (
	netdevGet         = 1 // NETDEV_CMD_DEV_GET
	netdevIfindex     = 1 // NETDEV_A_DEV_IFINDEX, u32
	netdevXDPFeatures = 3 // NETDEV_A_DEV_XDP_FEATURES, u64
)

// featureXmit is NETDEV_XDP_ACT_NDO_XMIT: the driver sends frames that XDP
// redirects to the device. Many drivers have it only while a program is
// attached there (veth: or GRO is on at the peer).
const featureXmit = 1 << 2

// genlHeader is struct genlmsghdr: command, version, reserved. The library's own
// sends whatever lies behind it in memory as reserved, and the kernel refuses that.
type genlHeader [4]byte

// Len is for nl.NetlinkRequestData.
func (h genlHeader) Len() int { return len(h) }

// Serialize is for nl.NetlinkRequestData.
func (h genlHeader) Serialize() []byte { return h[:] }

// featureReader asks for xdp-features, in the network namespace in which it was
// made, whichever thread asks.
type featureReader struct {
	family  int // 0: before Linux 6.3
	sockets map[int]*nl.SocketHandle
}

// answerTime bounds the wait for an answer, which the kernel gives at once but
// for a busy rtnl lock.
var answerTime = unix.Timeval{Sec: 10}

func newFeatureReader() (*featureReader, error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if errors.Is(err, unix.ENOENT) {
		return &featureReader{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for netlink family netdev: %w", err)
	}
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err == nil {
		err = s.SetReceiveTimeout(&answerTime)
	}
	if err != nil {
		return nil, fmt.Errorf("open generic netlink: %w", err)
	}
	return &featureReader{int(family.ID), map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: s}}}, nil
}

// read returns a device's xdp-features; known is false before Linux 6.3.
func (r *featureReader) read(ifindex int) (features uint64, known bool, err error) {
	if r.family == 0 {
		return 0, false, nil
	}
	req := nl.NewNetlinkRequest(r.family, 0)
	req.Sockets = r.sockets
	req.AddData(genlHeader{netdevGet, 1})
	req.AddData(nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(ifindex))))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, false, fmt.Errorf("read the xdp-features of ifindex %d: %w", ifindex, err)
	}
	for _, m := range msgs {
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, false, fmt.Errorf("read the xdp-features of ifindex %d: %w", ifindex, err)
		}
		for _, a := range attrs {
			if a.Attr.Type&nl.NLA_TYPE_MASK == netdevXDPFeatures && len(a.Value) == 8 {
				return binary.NativeEndian.Uint64(a.Value), true, nil
			}
		}
	}
	return 0, false, nil
}
