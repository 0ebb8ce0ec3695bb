// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// trialTable is never committed: nobody sees it.
const trialTable = state.TableName + "-trial"

// trialAge is how long answers are believed for an unchanged set of links. A
// trial makes the kernel wait for an RCU grace period, so it isn't free.
const trialAge = 10 * time.Minute

// trial is what the kernel answered, and to what question.
type trial struct {
	number uint32 // tried for early_ingress
	links  uint64 // fingerprint of the links at that time
	since  time.Time
	// final: no answer was one that a module loaded later could change.
	final                             bool
	ingress, early, ipsec, marks, fib state.Ability
	loose                             state.Ability
}

// abilities finds out which hooks a flowtable can have, and whether rules can
// match IPsec, look up routes and hand connections to engines.
func (k *Kernel) abilities(c *conn, q state.Query, seen *state.Observed) error {
	links := fnv.New64a()
	for _, l := range seen.Links {
		fmt.Fprintln(links, l.Index, l.Name)
	}
	t := &k.trial
	if !t.final || t.number != q.HookNumber || t.links != links.Sum64() || time.Since(t.since) > trialAge {
		*t = trial{number: q.HookNumber, links: links.Sum64(), since: time.Now()}
		if err := t.run(c, seen.Release); err != nil {
			return err
		}
	}
	seen.Hooks.Ingress, seen.Hooks.Early, seen.IPsec, seen.Marks, seen.FIB = t.ingress, t.early, t.ipsec, t.marks, t.fib
	seen.FIBLoose = t.loose
	if seen.Marks.OK {
		seen.Marks = conntrackEvents(sysNetfilter)
	}
	if seen.Table == nil || len(seen.Table.Flowtable.Devices) == 0 {
		return nil
	}
	// Where our own flowtable stands, nothing needs to be believed.
	switch seen.Table.Flowtable.Number {
	case state.NumberIngress:
		seen.Hooks.Ingress = state.Ability{OK: true}
	case q.HookNumber:
		seen.Hooks.Early = state.Ability{OK: true}
	}
	return nil
}

// run sends one batch that is never committed: a fresh flowtable and a rule
// for each hook, the rules that match IPsec, one that looks up a route, and one that marks.
func (t *trial) run(c *conn, release string) error {
	var b batch
	chain := forwardChain(trialTable)
	b.addTable(unix.NFPROTO_INET, trialTable)
	b.addChain(chain)
	hooks := []uint32{state.NumberIngress, t.number}
	for _, n := range hooks {
		name := fmt.Sprint("at", n)
		b.addFlowtable(trialTable, name, state.Flowtable{Number: n, Counter: true}, nil)
		if _, err := b.addRule(chain, []expr.Any{&expr.FlowOffload{Name: name}}, name); err != nil {
			return err
		}
	}
	for _, key := range []state.Key{state.KeySecpath, state.KeyIPsec, state.KeyWayBackMarked, state.KeyRoute} {
		m := matcher{b: &b, table: trialTable}
		if err := m.add(state.Is(key)); err != nil {
			return err
		}
		if _, err := b.addRule(chain, m.exprs, string(key)); err != nil {
			return err
		}
	}
	if _, err := b.addRule(chain, setMark(1), "mark"); err != nil {
		return err
	}
	a, err := c.try("try the kernel's hooks", &b)
	if err != nil {
		return err
	}
	// The messages in order: table, chain, two for each question, the last.
	ingress := errors.Join(a[0], a[1], a[2], a[3])
	early := errors.Join(a[0], a[1], a[4], a[5])
	ipsec := errors.Join(a[0], a[1], a[6], a[7])
	fib := errors.Join(a[0], a[1], a[8])
	loose := errors.Join(fib, a[9])
	marks := errors.Join(a[0], a[1], a[10])
	t.ingress = ability(ingress, flowtableReason(ingress))
	t.early = ability(early, earlyReason(early, t.number, release))
	t.ipsec = ability(ipsec, ipsecReason(ipsec))
	t.marks = ability(marks, marksReason(marks))
	t.fib = ability(fib, "rules can't look up routes (nft_fib_inet; on OpenWrt kmod-nft-fib): "+Explain(fib))
	t.loose = ability(loose, looseReason(loose, t.fib))
	t.final = final(loose) && final(ingress) && final(early) && final(ipsec) && final(marks) && final(fib)
	return nil
}

func ability(err error, reason string) state.Ability {
	if err == nil {
		return state.Ability{OK: true}
	}
	return state.Ability{Reason: reason}
}

// final: the answer is yes, or a no that lies in the kernel's own code.
func final(err error) bool { return err == nil || errors.Is(err, unix.EOPNOTSUPP) }

func flowtableReason(err error) string {
	if errors.Is(err, unix.ENOENT) {
		return ErrNoFlowtable.Error() + " " + code(unix.ENOENT)
	}
	return "the kernel refuses a flowtable: " + Explain(err)
}

func earlyReason(err error, number uint32, release string) string {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Sprintf("kernel %s has no hook early_ingress: it refuses number %d %s", release, number, code(unix.EOPNOTSUPP))
	}
	return flowtableReason(err)
}

func marksReason(err error) string {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "the kernel has no conntrack marks (CONFIG_NF_CONNTRACK_MARK) " + code(unix.EOPNOTSUPP)
	}
	return "rules can't set conntrack marks: " + Explain(err)
}

func ipsecReason(err error) string {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "the kernel has no IPsec " + code(unix.EOPNOTSUPP)
	}
	return "rules can't match IPsec: " + Explain(err)
}
