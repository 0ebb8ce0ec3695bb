// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// The check chains live in table netdev fastpath: one for each port, because
// there is no other way to count a port's packets at netdev ingress.
const (
	checkPrefix   = "check-"
	checkComment  = commentPrefix + "count what comes to netdev ingress"
	checkPriority = -300 // before a flowtable at hook ingress, whose priority is 0
)

// checks reads which device has which of our counting chains.
func (c *conn) checks() (map[string]string, error) {
	chains, err := c.chains(unix.NFPROTO_NETDEV, state.TableName)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, ch := range chains {
		if !strings.HasPrefix(ch.name, checkPrefix) {
			continue
		}
		for _, device := range ch.devices {
			found[device] = ch.name
		}
	}
	return found, nil
}

// addCheck adds the counting chain of a device. Its name is the device's at
// this moment; a device that was renamed keeps its chain, so the name may be taken.
func (c *conn) addCheck(call, device string) error {
	chains, err := c.chains(unix.NFPROTO_NETDEV, state.TableName)
	if err != nil {
		return err
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(chains, func(ch chainInfo) bool { return ch.name == name })
	}
	name := checkPrefix + device
	for taken(name) {
		name += "+"
	}
	var b batch
	chain := chainSpec{table: state.TableName, name: name, family: unix.NFPROTO_NETDEV,
		hook: unix.NF_NETDEV_INGRESS, priority: checkPriority, device: device}
	b.addTable(chain.family, chain.table)
	b.addChain(chain)
	if _, err := b.addRule(chain, []expr.Any{&expr.Counter{}}, checkComment); err != nil {
		return err
	}
	return c.commit(call, &b)
}

// removeCheck removes the counting chain of a device, and the table with the
// last one. A chain that isn't there is as good as removed.
func (c *conn) removeCheck(call, device string) error {
	found, err := c.checks()
	if err != nil {
		return err
	}
	name, ok := found[device]
	if !ok {
		return nil
	}
	var b batch
	info, err := c.table(unix.NFPROTO_NETDEV, state.TableName)
	if err != nil {
		return err
	}
	if info != nil && info.use == 1 {
		b.deleteTable(unix.NFPROTO_NETDEV, state.TableName)
	} else {
		b.deleteChain(unix.NFPROTO_NETDEV, state.TableName, name)
	}
	_, err = absent(c.commit(call, &b))
	return err
}
