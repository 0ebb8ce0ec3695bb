// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

const sysNet = "/sys/class/net"

// dumpLinks asks rtnetlink for all links, again while they change meanwhile.
func (k *Kernel) dumpLinks() (list []netlink.Link, err error) {
	if err := k.inject("read the links"); err != nil {
		return nil, err
	}
	err = steady(func() error {
		list, err = k.routes.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			return errInterrupted
		}
		return err
	})
	return list, err
}

// links reads all links, sorted by index, without their features.
func (k *Kernel) links() ([]state.Link, error) {
	list, err := k.dumpLinks()
	if err != nil {
		return nil, err
	}
	links := make([]state.Link, len(list))
	for i, l := range list {
		links[i] = readLink(l)
		if l.Attrs().ParentDev != "" {
			links[i].Bus = true
			readSysfs(&links[i], sysNet)
		}
	}
	sort.Slice(links, func(i, j int) bool { return links[i].Index < links[j].Index })
	return links, k.addTunnels(links)
}

// readLink is what rtnetlink alone tells.
func readLink(l netlink.Link) state.Link {
	a := l.Attrs()
	out := state.Link{
		Index: a.Index, Name: a.Name, Kind: kindOf(l),
		Master: a.MasterIndex, MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0, Queues: a.NumRxQueues,
	}
	copy(out.MAC[:], a.HardwareAddr)
	// What is below counts only in this namespace, and a veth's peer is not
	// below it.
	if a.NetNsID < 0 && out.Kind != "veth" {
		out.Lower = a.ParentIndex
	}
	if v, ok := l.(*netlink.Vlan); ok {
		out.VLAN = uint16(v.VlanId)
		out.QinQ = v.VlanProtocol == netlink.VLAN_PROTOCOL_8021AD
	}
	if a.Xdp != nil && a.Xdp.Attached {
		out.XDP, out.XDPGeneric = a.Xdp.ProgId, a.Xdp.AttachMode == nl.XDP_ATTACHED_SKB
	}
	return out
}

// kindOf is IFLA_INFO_KIND: the library has words of its own for two of them.
func kindOf(l netlink.Link) string {
	switch kind := l.Type(); kind {
	case "device":
		return ""
	case "tuntap":
		return "tun"
	default:
		return kind
	}
}

// readSysfs adds the driver, the uevent's DEVTYPE and the steering. /sys may be missing, or
// be another namespace's: then it is not believed.
func readSysfs(l *state.Link, root string) {
	dir := filepath.Join(root, l.Name)
	uevent, err := os.ReadFile(filepath.Join(dir, "uevent"))
	if err != nil {
		return
	}
	index, devtype := "", ""
	for line := range bytes.Lines(uevent) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte("="))
		switch string(key) {
		case "IFINDEX":
			index = string(value)
		case "DEVTYPE":
			devtype = string(value)
		}
	}
	if index != strconv.Itoa(l.Index) {
		return
	}
	l.DevType, l.Steered = devtype, steered(dir)
	if driver, err := os.Readlink(filepath.Join(dir, "device/driver")); err == nil {
		l.Driver = filepath.Base(driver)
	}
}

// addFeatures fills in what ethtool tells. A kernel without ethtool's netlink
// family has nothing to tell.
func (k *Kernel) addFeatures(links []state.Link) error {
	e, err := k.ethtool()
	if err != nil {
		_, err = absent(err)
		return err
	}
	defer e.close()
	features, err := e.all()
	if err != nil {
		return err
	}
	queues, err := e.channels()
	if err != nil {
		return err
	}
	for i := range links {
		l := &links[i]
		l.Feature = features[l.Index]
		if n := queues[l.Index]; n > 0 {
			l.Queues = n
		}
	}
	return nil
}
