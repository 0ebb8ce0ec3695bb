// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
)

// Key is what a rule looks at, in nft's words.
type Key string

// The keys that the rules of chain forward use. Each has one meaning for Value.
const (
	KeyAny     Key = ""                // every packet
	KeyL4Proto Key = "meta l4proto"    // Value "{ tcp, udp }"
	KeyCtState Key = "ct state"        // Value "established"
	KeyMark    Key = "meta mark"       // Value a number
	KeyCtMark  Key = "ct mark and"     // Value "MASK", compared with 0
	KeyHelper  Key = "ct helper"       // exists
	KeySecpath Key = "meta secpath"    // exists: it came in by IPsec
	KeyIPsec   Key = "rt ipsec"        // exists: it will leave by IPsec
	KeyIif     Key = "iifname"         // Value a device
	KeyOif     Key = "oifname"         // Value a device
	KeyEngine  Key = "iifname oifname" // Value a kind of engine: both devices are in its set
)

// Verdict is what a rule does with a packet that it matches.
type Verdict string

// The verdicts. Return leaves the packet on the slow path.
const (
	Count  Verdict = "counter"
	Return Verdict = "return"
	Add    Verdict = "flow add @" + FlowtableName
)

// Mark is the verdict that hands a connection to an engine: it sets the bit in
// the connection's mark, keeps the other bits, and leaves the packet on the slow path.
func Mark(bit uint32) Verdict {
	return Verdict(fmt.Sprintf("%s%08x %s", MarkPrefix, bit, Return))
}

// MarkPrefix is how a Verdict made by Mark begins; the bit follows as eight hex digits.
const MarkPrefix = "ct mark set ct mark or 0x"

// Hands says that v gives the flow to the flowtable or to an engine.
func (v Verdict) Hands() bool { return v == Add || strings.HasPrefix(string(v), MarkPrefix) }

// Rule is one match and one verdict.
type Rule struct {
	Key     Key
	Not     bool // the comparison is !=
	Value   string
	Verdict Verdict
}

// String is the rule in nft's syntax; it is also the rule's identity in the kernel.
func (r Rule) String() string {
	switch r.Key {
	case KeyAny:
		return string(r.Verdict)
	case KeyHelper, KeySecpath, KeyIPsec:
		return fmt.Sprintf("%s exists %s", r.Key, r.Verdict)
	case KeyIif, KeyOif:
		return fmt.Sprintf("%s%s %q %s", r.Key, r.op(), r.Value, r.Verdict)
	case KeyEngine:
		return fmt.Sprintf("iifname @%s oifname @%s %s", r.Value, r.Value, r.Verdict)
	case KeyCtMark:
		return fmt.Sprintf("%s %s != 0 %s", r.Key, r.Value, r.Verdict)
	}
	return fmt.Sprintf("%s%s %s %s", r.Key, r.op(), r.Value, r.Verdict)
}

func (r Rule) op() string {
	if r.Not {
		return " !="
	}
	return ""
}
