// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// generation changes when every flow has to be judged again, since the kernel
// can't drop single ones:
//
//	FW4-WAYS+MOVES
//
// FW4 is that of fw4's rules, WAYS a fingerprint of what ways depend on, if
// there is any, and MOVES counts the hosts' moves that were answered.
//
// A flow whose device goes down, and one whose route is outdated when the next
// packet comes, is taken down by the kernel itself. But it never looks again at
// the way of a flow to a bridge, be it LAN's or WAN's (seen on 6.1 and 6.12).
func (s *survey) generation() string {
	gen := s.o.FW4.Generation
	if ways := append(s.sessions(), s.routes()...); len(ways) > 0 {
		gen = fmt.Sprintf("%s-%08x", gen, crc32.ChecksumIEEE([]byte(strings.Join(ways, "\n"))))
	}
	if n := s.moves(); n > 0 {
		gen = fmt.Sprintf("%s%s%d", gen, movesMark, n)
	}
	return gen
}

// sessions are the PPPoE sessions that came up. Kernels that write the PPPoE
// header themselves (6.19 and later) keep the session's number in the flow and
// never look whether it is still alive. A dial that fails brings no device up, and
// disturbs nobody.
func (s *survey) sessions() (lines []string) {
	below := map[string]bool{} // links below a PPP device that is up and accelerated
	for _, st := range s.stacks {
		for _, e := range st.ends {
			carries := false
			for _, name := range e.path {
				below[name] = below[name] || carries
				l := s.t.byName[name]
				carries = carries || s.accelerated(st) && l != nil && l.Kind == "ppp" && l.Up
			}
		}
	}
	for _, session := range s.o.Sessions {
		if below[session.Device] {
			lines = append(lines, fmt.Sprint(session.ID, session.Peer, session.Device))
		}
	}
	slices.Sort(lines)
	return lines
}

// routes are the default routes, the rules of policy routing, and the addresses
// of accelerated devices.
func (s *survey) routes() (lines []string) {
	for _, r := range s.o.Routing.Defaults {
		lines = append(lines, r.String())
	}
	for _, r := range s.o.Routing.Rules {
		lines = append(lines, r.Text)
	}
	for _, a := range s.o.Routing.Addresses {
		if i := slices.IndexFunc(s.stacks, func(st *stack) bool { return st.name == a.Device }); i >= 0 && s.accelerated(s.stacks[i]) {
			lines = append(lines, a.String())
		}
	}
	return lines
}

func (s *survey) accelerated(st *stack) bool { return st.slow == "" || s.engines[st.engine] != nil }

// movesMark stands before the number of moves. The number goes on from the
// one in the kernel, so that a restart moves nobody.
const movesMark = "+"

func (s *survey) moves() int {
	n := 0
	if t := s.o.Table; t != nil {
		_, after, _ := strings.Cut(t.Generation, movesMark)
		n, _ = strconv.Atoi(after) // none: 0
	}
	if len(s.o.Routing.Moved) > 0 {
		n = n%999 + 1
	}
	return n
}
