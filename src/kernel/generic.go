// SPDX-License-Identifier: Apache-2.0

package kernel

import "golang.org/x/sys/unix"

// ethtoolHeader is the attribute by which each of ethtool's messages names its
// port (ETHTOOL_A_FEATURES_HEADER, ETHTOOL_A_CHANNELS_HEADER, …).
const ethtoolHeader = 1

// genlHeader is struct genlmsghdr (include/uapi/linux/genetlink.h).
func genlHeader(command, version byte) []byte { return []byte{command, version, 0, 0} }

// findFamily is the number of a generic netlink family; ENOENT where the kernel has none.
func (c *conn) findFamily(name string) (number uint16, err error) {
	err = c.ask(request{
		call: "look for netlink family " + name, typ: unix.GENL_ID_CTRL, header: genlHeader(unix.CTRL_CMD_GETFAMILY, 1),
		attrs: func(w *writer) { w.str(unix.CTRL_ATTR_FAMILY_NAME, name) },
	}, func(body []byte) {
		for typ, b := range attrsOf(body) {
			if typ == unix.CTRL_ATTR_FAMILY_ID {
				number = u16(b)
			}
		}
	})
	return number, err
}

// headerIndex is the interface index in the header of one of ethtool's messages.
func headerIndex(header []byte) (index int) {
	for typ, b := range attrs(header) {
		if typ == unix.ETHTOOL_A_HEADER_DEV_INDEX {
			index = int(u32(b))
		}
	}
	return index
}
