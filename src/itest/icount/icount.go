// SPDX-License-Identifier: Apache-2.0

// Package icount counts the instructions that a packet costs a router: in a VM
// whose clock is the number of instructions (qemu's -icount), between virtio
// NICs that packets from outside reach in bursts of 64. A process that runs when
// nobody else wants to counts the instructions that nobody else has executed;
// the rest, kernel and daemon, divided by the packets is the cost.
package icount

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/testkit/vm"
)

// Cost is what one way through the router costs.
type Cost struct {
	Path         string  `json:"path"`         // slow path, xdp, afxdp, afxdp zero copy
	Instructions float64 `json:"instructions"` // per packet
	Packets      int64   `json:"packets"`      // that were counted
	Interrupts   int64   `json:"interrupts"`   // of both NICs meanwhile
}

// SlowPath is the Path of the kernel alone, with NAT.
const SlowPath = "slow path"

// Ends of the wires. The guest knows them too.
const (
	hostMAC, providerMAC = "02:00:00:00:01:01", "02:00:00:00:02:01"
	hostPort, serverPort = 4000, 5000
)

var lanMAC, wanMAC = vm.NICAddr(0), vm.NICAddr(1)

// Run measures each of the paths (as in Cost.Path) on the kernel with the
// program fastpath (amd64). What the VM says goes to log.
func Run(ctx context.Context, k vm.Kernel, fastpath string, paths []string, log io.Writer) ([]Cost, error) {
	dir, err := os.MkdirTemp("", "icount-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	guest := filepath.Join(dir, "guest")
	if err := vm.GoBuild(guest, "./src/itest/icount/guest"); err != nil {
		return nil, err
	}
	lan, wan := filepath.Join(dir, "lan"), filepath.Join(dir, "wan")
	g, err := listen(lan, wan)
	if err != nil {
		return nil, err
	}
	var done sync.WaitGroup
	var generated error
	done.Go(func() { generated = g.run() })
	out := &collector{log: log}
	status, err := vm.Run(ctx, vm.Config{
		Kernel: k, Sockets: []string{lan, wan}, VirtualTime: true, Timeout: 20 * time.Minute,
		Files:    map[string]string{"/job/guest": guest, "/usr/sbin/fastpath": fastpath},
		Programs: []string{"busybox", "sh", "ip", "nft", "ethtool"},
		Args:     append([]string{"/job/guest", hostMAC, providerMAC}, paths...),
	}, out)
	g.close()
	done.Wait()
	if err == nil && status != 0 {
		err = fmt.Errorf("the VM's program ended with status %d", status)
	}
	return out.costs, errors.Join(err, generated)
}

// collector takes the Costs out of what the VM says, which are lines of JSON.
type collector struct {
	log   io.Writer
	costs []Cost
}

func (c *collector) Write(line []byte) (int, error) {
	var cost Cost
	if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &cost) == nil {
		c.costs = append(c.costs, cost)
	}
	return c.log.Write(line)
}

// engines are the paths of engines, and what the configuration asks for.
var engines = map[string]topo.Engine{
	"xdp":             {Kind: "xdp", Force: true},
	"afxdp":           {Kind: "afxdp", Force: true},
	"afxdp zero copy": {Kind: "afxdp", ZeroCopy: true, Force: true},
}

// EngineOf is what the router's configuration asks for to make packets go by path.
func EngineOf(path string) (e topo.Engine, ok bool) {
	e, ok = engines[path]
	return e, ok || path == SlowPath
}
