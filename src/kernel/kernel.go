// SPDX-License-Identifier: Apache-2.0

// Package kernel is the only place that speaks netlink, nftables and ethtool,
// and reads /proc, /sys and ubus: it tells what a router has (Observe), changes
// it (Apply), says that something changed (Watch) and samples it (Counters, Flows).
package kernel

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Kernel is the network namespace of the thread that called New. Its methods
// may be called from several goroutines.
type Kernel struct {
	runDir string
	log    *slog.Logger
	routes *netlink.Handle // rtnetlink

	mu       sync.Mutex // one look or change at a time
	trial    trial
	setters  setters
	features featureBits // where the kernel keeps the features that matter; read once
	noNetdev bool        // the kernel has no netlink family netdev
	hosts    *moves
	ways     *routingChanges
	netifd   netifd
	events   chan struct{} // see Watch

	// fault, in tests only, is asked before each call to the kernel.
	fault func(call string) error
}

// New opens the kernel. runDir is where saved.json lives; it is made when
// something has to be saved.
func New(runDir string, log *slog.Logger) (*Kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, refused("open rtnetlink", err)
	}
	k := &Kernel{runDir: runDir, log: log, routes: h, hosts: newMoves(), events: make(chan struct{}, 1)}
	k.ways = newRoutingChanges(func() { notify(k.events) })
	return k, nil
}

// Close gives back what New took. What was applied stays.
func (k *Kernel) Close() error {
	k.routes.Close()
	return nil
}

func (k *Kernel) inject(call string) error {
	if k.fault == nil {
		return nil
	}
	return k.fault(call)
}

// nfnetlink opens a conversation with nf_tables or conntrack.
func (k *Kernel) nfnetlink() (*conn, error) { return dial(unix.NETLINK_NETFILTER, k.inject) }

// Cleanup removes our tables and gives every port in saved.json back what it
// had. It may be called any number of times; what fails is collected.
func (k *Kernel) Cleanup() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := []error{k.deleteTables()}
	f, err := k.loadFile()
	errs = append(errs, err)
	for _, index := range sortedKeys(f.Ports) {
		errs = append(errs, refused("give "+f.Ports[index].Name+" back its own settings", k.restoreIndex(index)))
	}
	for _, name := range sortedKeys(f.Sysctls) {
		errs = append(errs, refused(state.RestoreSysctl{Name: name, Saved: f.Sysctls[name].Was}.String(), k.restoreSysctl(name)))
	}
	return errors.Join(errs...)
}

func (k *Kernel) deleteTables() error {
	const op = "remove our tables"
	c, err := k.nfnetlink()
	if err != nil {
		return refused(op, err)
	}
	defer c.close()
	var errs []error
	for _, family := range []byte{unix.NFPROTO_INET, unix.NFPROTO_NETDEV} {
		errs = append(errs, refused(op, c.dropTable(op, family)))
	}
	return errors.Join(errs...)
}
