// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// Key is what a match looks at, in nft's words.
type Key string

// The keys that rules use, each with what its values are.
const (
	KeyL4Proto   Key = "meta l4proto" // tcp, udp
	KeyFamily    Key = "meta nfproto" // ipv4, ipv6
	KeyCtState   Key = "ct state"     // established
	KeyDirection Key = "ct direction" // original, reply
	KeyPackets   Key = "ct packets <" // a number: both directions' packets so far; needs SysctlAcct
	KeyMark      Key = "meta mark"    // VALUE or VALUE/MASK
	KeyCtMark    Key = "ct mark"      // VALUE or VALUE/MASK
	KeyHelper    Key = "ct helper"    // none: it exists
	KeySecpath   Key = "meta secpath" // none: it came in by IPsec
	KeyIPsec     Key = "rt ipsec"     // none: it will leave by IPsec
	KeyIif       Key = "iifname"      // a device, or @SET of devices
	KeyOif       Key = "oifname"      // a device, or @SET of devices
	KeySaddr4    Key = "ip saddr"     // prefixes, or @SET of addresses
	KeyDaddr4    Key = "ip daddr"     // prefixes, or @SET of addresses
	KeySaddr6    Key = "ip6 saddr"    // prefixes, or @SET of addresses
	KeyDaddr6    Key = "ip6 daddr"    // prefixes, or @SET of addresses
	KeySport     Key = "th sport"     // ports and ranges FIRST-LAST
	KeyDport     Key = "th dport"     // ports and ranges FIRST-LAST
	KeyDSCP4     Key = "ip dscp"      // a code point
	KeyDSCP6     Key = "ip6 dscp"     // a code point
	// KeyWayBack: answers, with the packet's mark or without any, would leave by
	// the device that the packet came in by. None: it exists.
	KeyWayBack       Key = "fib saddr . iif oif"
	KeyWayBackMarked Key = "fib saddr . mark . iif oif"
	KeyRoute         Key = "fib saddr oif" // none: there is a route to the sender, by whatever device
)

// Match is one condition: the packet has one of the values.
type Match struct {
	Key    Key
	Not    bool // it has none of them
	Values []string
}

// Is matches what has one of the values, IsNot what has none.
func Is(k Key, values ...string) Match    { return Match{Key: k, Values: values} }
func IsNot(k Key, values ...string) Match { return Match{Key: k, Values: values, Not: true} }

// Set is the name of the set that m looks into, "" if it has values of its own.
func (m Match) Set() string {
	if len(m.Values) != 1 {
		return ""
	}
	name, _ := strings.CutPrefix(m.Values[0], "@")
	if name == m.Values[0] {
		return ""
	}
	return name
}

// String is the match in nft's syntax.
func (m Match) String() string {
	not := ""
	if m.Not {
		not = "!= "
	}
	switch {
	case len(m.Values) == 0 && m.Not:
		return string(m.Key) + " missing"
	case len(m.Values) == 0:
		return string(m.Key) + " exists"
	case (m.Key == KeyIif || m.Key == KeyOif) && m.Set() == "":
		return fmt.Sprintf("%s %s%q", m.Key, not, m.Values[0])
	case m.Key == KeyMark || m.Key == KeyCtMark:
		value, mask, masked := strings.Cut(m.Values[0], "/")
		switch {
		case masked && m.Not:
			return fmt.Sprintf("%s and %s != %s", m.Key, mask, value)
		case masked:
			return fmt.Sprintf("%s and %s == %s", m.Key, mask, value)
		}
	case len(m.Values) > 1:
		return fmt.Sprintf("%s %s{ %s }", m.Key, not, strings.Join(m.Values, ", "))
	}
	return fmt.Sprintf("%s %s%s", m.Key, not, m.Values[0])
}

// Verdict is what a rule does with a packet that it matches.
type Verdict string

// The verdicts. Return leaves the packet on the slow path.
const (
	Count  Verdict = "counter"
	Return Verdict = "return"
	Deny   Verdict = "drop"
	Add    Verdict = "flow add @" + FlowtableName
	// Accelerate goes on after the policies: in chain AccelerateChain, which
	// begins behind the first rule with this verdict that matches everything.
	Accelerate Verdict = "goto " + AccelerateChain
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

// When is the rule that does v with the packets that fit all matches.
func (v Verdict) When(m ...Match) Rule { return Rule{Matches: m, Verdict: v} }

// Rule is a verdict on the packets that fit all its matches.
type Rule struct {
	Matches []Match
	Verdict Verdict
	Policy  string // the policy that the rule is a part of; "": of none
	Counts  bool   // what it matches
	// Read is the identity of a rule that was read back from the kernel: all
	// that is known of it.
	Read string
}

// String is the rule in nft's syntax.
func (r Rule) String() string {
	if r.Read != "" {
		return r.Read
	}
	var words []string
	for _, m := range r.Matches {
		words = append(words, m.String())
	}
	if r.Counts {
		words = append(words, string(Count))
	}
	return strings.Join(append(words, string(r.Verdict)), " ")
}

// A comment of the kernel has 127 bytes, of which a word that says whose the rule
// is takes 10 and a generation 40.
const (
	identityMax   = 77
	policyNameMax = 32
)

// Identity is what the kernel keeps of a rule, in its comment: by it the rule is
// known again. It is the rule itself, or its beginning and a hash, or for a
// policy's the action, the policy's name and a hash. nft prints comments in
// double quotes and knows no escape in them, so that it has none.
func (r Rule) Identity() string {
	if r.Read != "" {
		return r.Read
	}
	text := quote.Replace(r.String())
	if r.Policy == "" && len(text) <= identityMax {
		return text
	}
	h := fnv.New64a()
	h.Write([]byte(r.Policy + "\n" + text))
	if r.Policy == "" {
		return fmt.Sprintf("%s..., %016x", text[:identityMax-21], h.Sum64())
	}
	name := quote.Replace(strconv.QuoteToASCII(r.Policy))
	if len(name) > policyNameMax {
		name = name[:policyNameMax] + "..."
	}
	return fmt.Sprintf("%spolicy %s, %016x", actionOf(r.Verdict), name, h.Sum64())
}

const accelerateBy = "accelerate by "

func actionOf(v Verdict) string {
	if v == Accelerate {
		return accelerateBy
	}
	return "bypass by "
}

// quote turns the quotes of strconv.Quote into single ones.
var quote = strings.NewReplacer(`\\`, `\\`, `\"`, `\x22`, `"`, `'`)

// Accelerates: the rule is a policy's that lets packets pass by the policies after it.
func (r Rule) Accelerates() bool { return strings.HasPrefix(r.Identity(), accelerateBy) }

// All says that the rule matches every packet.
func (r Rule) All() bool { return r.Read == "" && len(r.Matches) == 0 }

// SameRules: both are the same rules in the same order.
func SameRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool { return x.Identity() == y.Identity() })
}
