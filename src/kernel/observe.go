// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// Files of /proc: thread-self, because a namespace belongs to the thread, which
// /proc/sys looks at by itself.
const (
	procPPPoE    = "/proc/thread-self/net/pppoe"
	procModules  = "/proc/modules"
	sysNetfilter = "/proc/sys/net/netfilter"
)

// Observe takes one look. It changes nothing: what has to be tried to be known
// is tried in a transaction that is never committed.
func (k *Kernel) Observe(q state.Query) (state.Observed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen := state.Observed{
		Release:      release(),
		Sessions:     readProc(procPPPoE, state.ParseSessions),
		Accelerators: readProc(procModules, loadedAccelerators),
		Translators:  readProc(procModules, func(r io.Reader) []string { return loaded(r, translators) }),
	}
	var err error
	if seen.Links, err = k.links(); err != nil {
		return seen, refused("read the links", err)
	}
	if seen.Routing, err = k.routing(seen.Links); err != nil {
		return seen, refused("read the routes", err)
	}
	if err := k.addFeatures(seen.Links); err != nil {
		return seen, refused("read the ports' features", err)
	}
	if err := k.addXDPFeatures(seen.Links); err != nil {
		return seen, refused("read the ports' XDP features", err)
	}
	if err := k.addQdiscs(seen.Links); err != nil {
		return seen, refused("read the qdiscs", err)
	}
	if anyClassifies(seen.Links) && runs(procDir, state.Bridger) {
		seen.Accelerators = append([]string{state.Bridger}, seen.Accelerators...)
	}
	if seen.Multicast, err = k.multicast(seen.Links); err != nil {
		return seen, refused("read the bridges' groups", err)
	}
	if seen.Saved, err = k.saved(seen.Links); err != nil {
		return seen, refused("read what was saved", err)
	}
	if seen.SavedSysctls, err = k.savedSysctls(); err != nil {
		return seen, refused("read what was saved", err)
	}
	// Without netifd's names the files of /etc/config still have some.
	if seen.Interfaces, seen.NetifdLate, err = k.interfaces(); err != nil {
		k.log.Warn("netifd does not answer", "err", err)
	}
	err = k.observeTables(q, &seen)
	seen.Sysctls = k.sysctls() // the trial has brought conntrack's
	return seen, refused("read nf_tables", err)
}

func (k *Kernel) observeTables(q state.Query, seen *state.Observed) error {
	c, err := k.nfnetlink()
	if err != nil {
		return withoutTables(seen, err)
	}
	defer c.close()
	if seen.FW4, err = c.fw4(); err != nil {
		return withoutTables(seen, err)
	}
	if seen.Flowtables, err = c.foreignFlowtables(); err != nil {
		return err
	}
	if seen.Table, err = c.ownTable(); err != nil {
		return err
	}
	if seen.Setters, err = k.setters.look(c); err != nil {
		return err
	}
	checks, err := c.checks()
	if err != nil {
		return err
	}
	seen.Checks = sortedKeys(checks)
	if err := c.readDrop(&seen.Drop); err != nil {
		return err
	}
	return k.abilities(c, q, seen)
}

// withoutTables turns "this kernel has no nf_tables" into abilities.
func withoutTables(seen *state.Observed, err error) error {
	if !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	none := state.Ability{Reason: "the kernel has no nf_tables: " + Explain(err)}
	seen.Hooks.Ingress, seen.Hooks.Early, seen.IPsec, seen.Marks, seen.FIB = none, none, none, none, none
	return nil
}
