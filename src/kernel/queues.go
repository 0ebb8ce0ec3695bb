// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// channels reads how many receive queues each port uses, by interface index,
// of the drivers that tell: those of their own and those shared with transmit.
func (e *ethtool) channels() (map[int]int, error) {
	var found map[int]int
	err := steady(func() error {
		found = map[int]int{}
		r := e.get(unix.ETHTOOL_MSG_CHANNELS_GET, "read the ports' channels", 0)
		r.dump = true
		return e.ask(r, func(body []byte) {
			index, queues := 0, 0
			for typ, b := range attrsOf(body) {
				switch typ {
				case ethtoolHeader:
					index = headerIndex(b)
				case unix.ETHTOOL_A_CHANNELS_RX_COUNT, unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT:
					queues += int(u32(b))
				}
			}
			found[index] = queues
		})
	})
	return found, err
}

// Netlink family netdev, since 6.3 (include/uapi/linux/netdev.h).
const (
	netdevFamily      = "netdev"
	netdevVersion     = 1
	netdevGet         = 1 // NETDEV_CMD_DEV_GET
	netdevIndex       = 1 // NETDEV_A_DEV_IFINDEX
	netdevXDPFeatures = 3 // NETDEV_A_DEV_XDP_FEATURES
)

// addXDPFeatures fills in what the drivers' XDP can do. A kernel without the
// family has nothing to tell, now or later: it is never a module.
func (k *Kernel) addXDPFeatures(links []state.Link) error {
	if k.noNetdev {
		return nil
	}
	c, err := dial(unix.NETLINK_GENERIC, k.inject)
	if err != nil {
		return err
	}
	defer c.close()
	family, err := c.findFamily(netdevFamily)
	if k.noNetdev, err = absent(err); k.noNetdev || err != nil {
		return err
	}
	features := map[int]uint64{}
	err = steady(func() error {
		return c.ask(request{
			call: "read the ports' XDP features", typ: family, dump: true, header: genlHeader(netdevGet, netdevVersion),
		}, func(body []byte) {
			index, f := 0, uint64(0)
			for typ, b := range attrsOf(body) {
				switch typ {
				case netdevIndex:
					index = int(u32(b))
				case netdevXDPFeatures:
					f = u64(b)
				}
			}
			features[index] = f
		})
	})
	for i := range links {
		links[i].XDPFeatures = features[links[i].Index]
	}
	return err
}
