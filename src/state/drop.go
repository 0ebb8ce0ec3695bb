// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
)

// Drop is our part of table netdev fastpath that drops by source: chains at the
// ports' hooks, and a set of addresses for each family, to which all chains refer.
type Drop struct {
	Sets   []DropSet   // by family: ipv4, ipv6; one that is empty isn't there
	Chains []DropChain // one for each port and hook
}

// DropSet is a set of ranges of addresses. Its name carries a hash of them, so
// that they never have to be read back.
type DropSet struct {
	Name   string
	Family string        // ipv4, ipv6
	V4     [][2][4]byte  // sorted, both ends included, a gap between any two
	V6     [][2][16]byte // as well
}

// DropChain is the chain at one hook of a port.
type DropChain struct {
	Port   string
	Number uint32 // netfilter hook number: NumberIngress or that of early_ingress
	Forms  []DropForm
}

// DropForm is one way in which an IP packet may lie in the frames of a port: what is
// between the Ethernet header, or the tag that the kernel or the device has taken
// off, and IP.
type DropForm struct {
	Tags  []uint16 // EtherTypes, from outside
	PPPoE bool
}

// String is what the form has around IP.
func (f DropForm) String() string {
	var words []string
	for _, tag := range f.Tags {
		words = append(words, map[uint16]string{TypeVLAN: "vlan", TypeQinQ: "qinq"}[tag])
	}
	if f.PPPoE {
		words = append(words, "pppoe")
	}
	if words == nil {
		return "ip"
	}
	return strings.Join(words, " ")
}

// EtherTypes of tags (IEEE 802.1Q).
const (
	TypeVLAN = 0x8100
	TypeQinQ = 0x88a8
)

// Name is the chain's in the kernel.
func (c DropChain) Name() string {
	if c.Number == NumberIngress {
		return "drop-" + c.Port
	}
	return "early-drop-" + c.Port
}

// Rules are what the chain's rules are known by in the kernel, in order.
func (c DropChain) Rules(sets []DropSet) (rules []string) {
	for _, s := range sets {
		for _, f := range c.Forms {
			rules = append(rules, fmt.Sprintf("%s saddr @%s drop", f, s.Name))
		}
	}
	return rules
}

// DropState is what Observe tells of our chains and sets.
type DropState struct {
	Chains []string // what DropIdentity makes of them, sorted
	Sets   []string // names, sorted
}

// DropIdentity is a chain in one line.
func DropIdentity(port string, number uint32, rules []string) string {
	return fmt.Sprintf("%s at %d: %s", port, number, strings.Join(rules, "; "))
}

// Is says that the kernel has d, and nothing more of that kind.
func (s DropState) Is(d *Drop) bool {
	if d == nil {
		return len(s.Chains)+len(s.Sets) == 0
	}
	return slices.Equal(s.Sets, d.names()) && slices.Equal(s.Chains, d.identities())
}

func (d *Drop) names() (names []string) {
	for _, s := range d.Sets {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func (d *Drop) identities() (all []string) {
	for _, c := range d.Chains {
		all = append(all, DropIdentity(c.Port, c.Number, c.Rules(d.Sets)))
	}
	slices.Sort(all)
	return all
}

// State is what Observe tells when the kernel has d.
func (d *Drop) State() DropState { return DropState{Chains: d.identities(), Sets: d.names()} }

type (
	// SetDrop makes sets that aren't there yet and then, in one transaction, the
	// chains; sets that none of them needs go.
	SetDrop struct{ Drop Drop }
	// RemoveDrop removes the chains and the sets.
	RemoveDrop struct{}
)

func (SetDrop) step()    {}
func (RemoveDrop) step() {}

func (s SetDrop) String() string {
	var where []string
	for _, c := range s.Drop.Chains {
		where = append(where, c.Port+" at "+Flowtable{Number: c.Number}.hook())
	}
	var what []string
	for _, set := range s.Drop.Sets {
		what = append(what, fmt.Sprintf("%d of %s", len(set.V4)+len(set.V6), set.Family))
	}
	return fmt.Sprintf("drop by source, %s entries: %s", strings.Join(what, ", "), strings.Join(where, ", "))
}

func (RemoveDrop) String() string { return "drop nothing by source any more" }
