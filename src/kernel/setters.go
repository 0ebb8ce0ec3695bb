// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// fw4Comment is how fw4's own rules are commented. What they set, its
// configuration says.
const fw4Comment = "!fw4: "

// setters are the tables of others whose rules set a DSCP, a mark or a
// priority, as of one generation of the ruleset: the kernel counts all commits.
type setters struct {
	generation uint32
	known      bool
	tables     []state.Setter
}

// look reads all tables' rules if there was a commit since the last look.
func (s *setters) look(c *conn) ([]state.Setter, error) {
	var generation uint32
	err := c.ask(request{call: "read the ruleset's generation", typ: nftType(unix.NFT_MSG_GETGEN), header: nfHeader(unix.AF_UNSPEC, 0)},
		func(body []byte) {
			for typ, b := range attrsOf(body) {
				if typ == unix.NFTA_GEN_ID {
					generation = be32(b)
				}
			}
		})
	if err != nil || s.known && generation == s.generation {
		return s.tables, err
	}
	found := map[string]state.Setter{}
	err = steady(func() error {
		clear(found)
		return c.ask(request{call: "read all rules", typ: nftType(unix.NFT_MSG_GETRULE), dump: true, header: nfHeader(unix.AF_UNSPEC, 0)},
			func(body []byte) { readSetter(body, found) })
	})
	if err != nil {
		return nil, err
	}
	*s = setters{generation: generation, known: true}
	for _, f := range found {
		s.tables = append(s.tables, f)
	}
	sort.Slice(s.tables, func(i, j int) bool { return s.tables[i].Table < s.tables[j].Table })
	return s.tables, nil
}

// readSetter adds what a rule sets to its table's.
func readSetter(body []byte, found map[string]state.Setter) {
	var table, comment string
	var exprs []byte
	for typ, b := range attrsOf(body) {
		switch typ {
		case unix.NFTA_RULE_TABLE:
			table = text(b)
		case unix.NFTA_RULE_USERDATA:
			comment = readUserData(b)
		case unix.NFTA_RULE_EXPRESSIONS:
			exprs = b
		}
	}
	if table == "" || table == state.TableName || table == fw4Name && strings.HasPrefix(comment, fw4Comment) {
		return
	}
	name := familyNames[body[0]] + " " + table
	is := found[name]
	for _, e := range attrs(exprs) {
		readSetting(e, &is)
	}
	if is != (state.Setter{}) {
		is.Table = name
		found[name] = is
	}
}

// readSetting looks at one expression of a rule.
func readSetting(e []byte, to *state.Setter) {
	kind, data := text(attrIn(e, unix.NFTA_EXPR_NAME)), attrIn(e, unix.NFTA_EXPR_DATA)
	switch kind {
	case "payload": // the second byte of IPv4's header, or the first two of IPv6's
		to.DSCP = to.DSCP || attrIn(data, unix.NFTA_PAYLOAD_SREG) != nil && be32(attrIn(data, unix.NFTA_PAYLOAD_OFFSET)) <= 1 &&
			be32(attrIn(data, unix.NFTA_PAYLOAD_BASE)) == unix.NFT_PAYLOAD_NETWORK_HEADER
	case "meta":
		sets, key := attrIn(data, unix.NFTA_META_SREG) != nil, be32(attrIn(data, unix.NFTA_META_KEY))
		to.Mark = to.Mark || sets && key == unix.NFT_META_MARK
		to.Priority = to.Priority || sets && key == unix.NFT_META_PRIORITY
	case "ct":
		to.Mark = to.Mark || attrIn(data, unix.NFTA_CT_SREG) != nil && be32(attrIn(data, unix.NFTA_CT_KEY)) == unix.NFT_CT_MARK
	case "target": // of iptables-nft
		switch text(attrIn(data, unix.NFTA_TARGET_NAME)) {
		case "DSCP", "TOS":
			to.DSCP = true
		case "MARK", "CONNMARK":
			to.Mark = true
		case "CLASSIFY":
			to.Priority = true
		}
	}
}

// attrIn is the first attribute of a type, nil without one.
func attrIn(b []byte, typ uint16) []byte {
	for t, data := range attrs(b) {
		if t == typ {
			return data
		}
	}
	return nil
}
