// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"fastpath/src/testkit"
	"fastpath/src/testkit/vm"
)

// Wires is what the namespaces are connected by.
type Wires int

// The wires.
const (
	Virtio Wires = iota // virtio NICs on qemu's hubs: a real driver with NAPI
	Veth                // veth pairs
)

func (w Wires) String() string {
	if w == Veth {
		return "veth"
	}
	return "virtio"
}

// hubs is the hub of each of the VM's NICs: two NICs a cable.
var hubs = []int{0, 0, 1, 1, 2, 2, 3, 3}

// plugAt is one end of a cable; the i-th end is the VM's i-th NIC.
type plugAt struct {
	ns     *testkit.Netns
	device string
}

// ends are both ends of each cable, the router's second.
func (n *Net) ends() []plugAt {
	all := []plugAt{
		{n.Host1, "eth0"}, {n.Router, "lan1"},
		{n.Host2, "eth0"}, {n.Router, "lan2"},
		{n.Provider, "line"}, {n.Router, "wan"},
	}
	if n.Variant.SecondWAN {
		all = append(all, plugAt{n.Provider, secondPeer}, plugAt{n.Router, second})
	}
	return all
}

// cables calls f for each cable in use; a and b count the VM's NICs.
func (n *Net) cables(f func(a, b int) error) error {
	ends := n.ends()
	for a := 0; a < len(ends); a += 2 {
		if ends[a].ns == nil || ends[a+1].ns == nil {
			continue
		}
		if err := f(a, a+1); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) plug() error {
	return n.cables(func(a, b int) error {
		end := n.ends()
		var err error
		if n.wires == Veth {
			err = ip(nil, fmt.Sprintf("link add %s netns %s type veth peer name %s netns %s",
				end[a].device, end[a].ns.Name, end[b].device, end[b].ns.Name))
		} else {
			err = errors.Join(moveNIC(a, end[a]), moveNIC(b, end[b]))
		}
		if err != nil {
			return err
		}
		// What endpoints send is what the wire of a real LAN carries: packets
		// no larger than the MTU, so that a packet counted is a packet.
		offloads := []string{"-K", end[a].device, "tso", "off", "gso", "off", "gro", "off"}
		if n.wires == Veth {
			offloads = append(offloads, "tx", "off", "txvlan", "off", "rxvlan", "off")
		}
		_, err = feed(end[a].ns.Command("ethtool", offloads...), "")
		return err
	})
}

// moveNIC finds the VM's i-th NIC by its address and plugs it in.
func moveNIC(i int, to plugAt) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, nic := range all {
		if nic.HardwareAddr.String() == vm.NICAddr(i) {
			return ip(nil, fmt.Sprintf("link set dev %s netns %s name %s", nic.Name, to.ns.Name, to.device))
		}
	}
	return fmt.Errorf("no NIC %s: is this the VM that VM describes?", vm.NICAddr(i))
}

// Replug takes the virtio NIC of a bridge port out of the router and puts it
// back: the device goes and comes with another index.
func (n *Net) Replug(device string) error {
	at := plugAt{n.Router, device}
	i := slices.Index(n.ends(), at)
	name, err := n.Router.Sh("basename $(readlink /sys/class/net/" + device + "/device)")
	if err != nil {
		return err
	}
	const driver = "/sys/bus/virtio/drivers/virtio_net/"
	for _, file := range []string{"unbind", "bind"} {
		if err := os.WriteFile(driver+file, []byte(strings.TrimSpace(name)), 0); err != nil {
			return err
		}
	}
	// In netifd's order. The bridge takes another address when it gets a port, and
	// asks for its neighbours anew: a second is lost if that port isn't up yet.
	return errors.Join(moveNIC(i, at), ip(n.Router, "link set "+device+" up", "link set "+device+" master "+n.Variant.LAN()))
}

// unplug gives virtio NICs back to the VM's first namespace, at once: when a
// namespace is deleted the kernel does so some time later.
func (n *Net) unplug() error {
	if n.wires == Veth {
		return nil
	}
	return n.cables(func(a, b int) error {
		var errs []error
		for _, i := range []int{a, b} {
			end := n.ends()[i]
			if exec.Command("ip", "-n", end.ns.Name, "link", "show", end.device).Run() != nil {
				continue // Build failed before it got there
			}
			errs = append(errs, ip(end.ns, "link set "+end.device+" down nomaster",
				fmt.Sprintf("link set dev %s netns 1 name nic%d", end.device, i)))
		}
		return errors.Join(errs...)
	})
}
