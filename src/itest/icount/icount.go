// SPDX-License-Identifier: Apache-2.0

// Package icount counts the instructions that a packet costs a router: in a VM
// whose clock is the number of instructions (qemu's -icount), between virtio
// NICs that packets from outside reach in bursts of 64. A process that runs when
// nobody else wants to counts the instructions that nobody else has executed;
// the rest, kernel and daemon, divided by the packets is the cost.
package icount

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"fastpath/src/testkit/vm"
)

// Cost is what one way through the router costs.
type Cost struct {
	Path         string  `json:"path"`         // a Path's name
	Flows        int     `json:"flows"`        // that take turns, packet by packet
	Instructions float64 `json:"instructions"` // per packet
	Packets      int64   `json:"packets"`      // that were counted
	Interrupts   int64   `json:"interrupts"`   // of both NICs meanwhile
	Slow         float64 `json:"slow_path"`    // share of packets that the kernel forwarded by the slow path
}

// Absent is a way that this kernel doesn't have.
type Absent struct {
	Path  string `json:"path"`
	Flows int    `json:"flows"`
	Why   string `json:"why"` // as the daemon gives it
}

// Counted is what one run gives, and each line of JSON that the VM says is a part of it.
type Counted struct {
	Kernel string   `json:"kernel,omitempty"` // uname -r
	Costs  []Cost   `json:"instructions,omitempty"`
	Absent []Absent `json:"absent,omitempty"`
}

// Ends of the wires. The guest knows them too.
const (
	hostMAC, providerMAC = "02:00:00:00:01:01", "02:00:00:00:02:01"
	hostPort, serverPort = 4000, 5000
)

var lanMAC, wanMAC = vm.NICAddr(0), vm.NICAddr(1)

// Run measures each of the paths, by their names, on the kernel with the program
// fastpath (amd64) and so many flows. What the VM says goes to log.
func Run(ctx context.Context, k vm.Kernel, fastpath string, flows int, names []string, log io.Writer) (c Counted, err error) {
	dir, err := os.MkdirTemp("", "icount-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	guest := filepath.Join(dir, "guest")
	if err := vm.GoBuild(guest, "./src/itest/icount/guest"); err != nil {
		return c, err
	}
	lan, wan := filepath.Join(dir, "lan"), filepath.Join(dir, "wan")
	g, err := listen(lan, wan, flows)
	if err != nil {
		return c, err
	}
	var done sync.WaitGroup
	var generated error
	done.Go(func() { generated = g.run() })
	out := &collector{log: log}
	status, err := vm.Run(ctx, vm.Config{
		Kernel: k, Sockets: []string{lan, wan}, VirtualTime: true, Timeout: 30 * time.Minute,
		Files:    map[string]string{"/job/guest": guest, "/usr/sbin/fastpath": fastpath},
		Programs: []string{"busybox", "sh", "ip", "nft", "ethtool"},
		Args:     append([]string{"/job/guest", hostMAC, providerMAC, strconv.Itoa(flows)}, names...),
	}, out)
	g.close()
	done.Wait()
	if err == nil && status != 0 {
		err = fmt.Errorf("the VM's program ended with status %d", status)
	}
	return out.Counted, errors.Join(err, generated)
}

// collector puts what the VM says together.
type collector struct {
	log io.Writer
	Counted
}

func (c *collector) Write(line []byte) (int, error) {
	var said Counted
	if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &said) == nil {
		c.Kernel = cmp.Or(c.Kernel, said.Kernel)
		c.Costs, c.Absent = append(c.Costs, said.Costs...), append(c.Absent, said.Absent...)
	}
	return c.log.Write(line)
}
