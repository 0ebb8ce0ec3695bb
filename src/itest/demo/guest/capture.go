// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"fastpath/src/testkit"
)

// captures are tcpdumps of what comes in at the router's ports.
type captures struct {
	match string                   // what a packet of the flow has in its line
	seen  map[string]*atomic.Int64 // such packets, by port
	cmds  []*exec.Cmd
}

// startCaptures returns when each tcpdump listens. They have no filter: libpcap's
// would have to find IP in PPPoE in a VLAN tag that may be beside the packet.
func startCaptures(router *testkit.Netns, server netip.AddrPort) (*captures, error) {
	c := &captures{
		match: fmt.Sprintf(" %s.%d", server.Addr(), server.Port()),
		seen:  map[string]*atomic.Int64{},
	}
	for _, device := range ports {
		c.seen[device] = &atomic.Int64{}
		cmd := router.Command("tcpdump", "-i", device, "-Q", "in", "-Z", "root", "-nn", "-q", "-l", "--immediate-mode")
		if err := c.start(cmd, c.seen[device]); err != nil {
			c.stop()
			return nil, fmt.Errorf("tcpdump -i %s: %w", device, err)
		}
	}
	return c, nil
}

func (c *captures) start(cmd *exec.Cmd, seen *atomic.Int64) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	says, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmds = append(c.cmds, cmd)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), c.match) {
				seen.Add(1)
			}
		}
	}()
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on") {
			go io.Copy(io.Discard, says)
			return nil
		}
	}
	return errors.New("it ended before it listened: " + lines.Text())
}

// settled is how many packets were seen, and at how many ports, when that has
// stood still for many looks. Many short ones: a machine that stops for a while
// makes one look long, but then leaves tcpdump the others.
func (c *captures) settled() (packets int64, ports int) {
	for still := 0; still < 10; still++ {
		last := packets
		if packets, ports = c.count(); packets != last {
			still = 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return packets, ports
}

func (c *captures) count() (packets int64, ports int) {
	for _, n := range c.seen {
		if n := n.Load(); n > 0 {
			packets += n
			ports++
		}
	}
	return packets, ports
}

// both waits until the flow's first packets were seen at both of its ports
// and returns the count then. It is what proves that tcpdump looks where it should.
func (c *captures) both() (packets int64, err error) {
	ports := 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if packets, ports = c.settled(); ports >= 2 {
			return packets, nil
		}
	}
	return 0, fmt.Errorf("tcpdump saw the flow's first packets at %d ports, not at two", ports)
}

func (c *captures) stop() {
	for _, cmd := range c.cmds {
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
	}
}
