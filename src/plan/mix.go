// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"fastpath/src/config"
	"fastpath/src/state"
)

// wantsGRO is why p is better off with GRO than with early_ingress, "" if it
// isn't, or that isn't known. What the user wrote about the port counts more.
func (s *survey) wantsGRO(p *port) string {
	if why := steeredWide(p.link); why != "" && p.receive != config.ReceiveBulk {
		return why
	}
	if p.receive != config.ReceiveAuto || !s.own(p.link).GRO {
		return ""
	}
	switch m := s.o.Mix[p.link.Name]; {
	case m.Kind == state.MixLocal:
		return mixWords(m)
	case m.Kind == state.MixFew && p.denied == "": // plain GRO would not join UDP
		return mixWords(m)
	}
	return ""
}

// steeredWide: a hook before packet steering would leave all work to the CPUs
// that the receive queues interrupt.
func steeredWide(l *state.Link) string {
	if l.Steered <= max(l.Queues, 1) {
		return ""
	}
	return fmt.Sprintf("packet steering (RPS) spreads its %s over %d CPUs, and early_ingress comes before that",
		count(max(l.Queues, 1), "receive queue"), l.Steered)
}

// mixWords says in a sentence what came in by a port.
func mixWords(m state.Mix) string {
	words := ""
	switch m.Kind {
	case state.MixLocal:
		words = fmt.Sprintf("%d %% of what it receives is for the router itself", 100*m.Local/max(m.Received, 1))
	case state.MixFew:
		words = fmt.Sprintf("it forwards few flows at a time (about %d), whose packets GRO joins", m.Flows)
	case state.MixMany:
		words = fmt.Sprintf("it forwards many flows at a time (about %d), of which GRO would join little", m.Flows)
	}
	switch {
	case m.Compared == "":
	case words == "":
		words = m.Compared
	default:
		words += "; " + m.Compared
	}
	return words
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
