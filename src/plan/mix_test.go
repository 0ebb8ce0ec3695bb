// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fastpath/src/config"
	"fastpath/src/state"
)

// receiveEvent is about offloads, and what speaks for a receive mode or against one; see event.
func (r *router) receiveEvent(word string, args []string) bool {
	switch word {
	case "ethtool":
		l := r.link(args[0])
		for _, word := range args[1:] {
			feature(&l.Feature, word)
		}
		if _, saved := r.o.Saved[l.Name]; !saved {
			r.original[l.Name] = l.Feature.Offloads()
		}
	case "saved":
		f := state.Features{}
		for _, word := range args[1:] {
			feature(&f, word)
		}
		r.o.Saved[args[0]], r.original[args[0]] = f.Offloads(), f.Offloads()
	case "mix":
		r.o.Mix[args[0]] = mixOf(args[1:])
	case "nomix":
		delete(r.o.Mix, args[0])
	case "steered":
		r.link(args[0]).Steered, _ = strconv.Atoi(args[1])
	case "driver":
		r.link(args[0]).Driver = args[1]
	case "udpforward":
		r.link(args[0]).Feature.UDPForward.On = true
	case "multicast":
		r.o.Multicast[args[0]] = strings.Join(args[1:], " ")
	case "nomulticast":
		delete(r.o.Multicast, args[0])
	case "translator":
		r.o.Translators = args
	default:
		return false
	}
	return true
}

// mixOf reads KIND FORWARDED LOCAL FLOWS [what was compared…], with numbers of bytes.
func mixOf(args []string) state.Mix {
	m := state.Mix{Kind: state.MixKind(strings.Trim(args[0], "-")), Compared: strings.Join(args[4:], " ")}
	for i, to := range []*uint64{&m.Forwarded, &m.Local} {
		*to, _ = strconv.ParseUint(args[1+i], 10, 64)
	}
	m.Received = m.Forwarded + m.Local
	m.Flows, _ = strconv.Atoi(args[3])
	return m
}

// mixEvent is traffic of a random kind on a port, or what speaks against
// joining its packets.
func (w *stroll) mixEvent(port string) string {
	return pick(w, fmt.Sprint("mix ", port, pick(w, " many 90 10 50", " few 90 10 2", " local 1 99 2", " - 0 0 0 it was worse")),
		"nomix "+port, fmt.Sprint("steered ", port, " ", w.IntN(3)), "udpforward "+port,
		"driver "+port+pick(w, " r8152", " virtio_net"), "multicast "+port+" group 232.1.1.1 is joined", "nomulticast "+port, "translator jool")
}

// listsHold holds whenever a plan has been carried out: a port that has
// fraglist GRO by our doing, not by its owner's word, may have it.
func listsHold(t *testing.T, c config.Config, r *router) {
	t.Helper()
	if slices.ContainsFunc(c.Ports, func(p config.Port) bool { return p.Receive == config.ReceiveFraglist }) {
		return
	}
	for port := range r.o.Saved {
		l := r.link(port)
		if l == nil || !l.Feature.GROList.On || l.Feature.GROList.Fixed || r.original[port].GROList {
			continue
		}
		if why := r.o.Multicast[port]; why != "" {
			t.Fatalf("%s got fraglist GRO in spite of multicast TV (%s)", port, why)
		}
	}
}

func TestDenyList(t *testing.T) {
	list, err := readDenyList(denyText)
	if err != nil || len(list) < 5 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for _, d := range list {
		if slices.Compare(d.first, d.last) > 0 || !strings.HasPrefix(d.issue, "https://") || d.reason == "" {
			t.Errorf("%+v", d)
		}
	}
	for _, bad := range []string{
		"always * 6.1..6.2 https://x",
		"never * 6.1..6.2 https://x reason",
		"always * 6.1 https://x reason",
		"always * ..6.2 https://x reason",
		"always * 6.1..x https://x reason",
	} {
		if list, err := readDenyList("# fine\n" + bad + "\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %+v, %v", bad, list, err)
		}
	}
}

func TestDenialCovers(t *testing.T) {
	list, err := readDenyList("always iwlwifi,r8152 6.6..6.12 https://x it crashes\nalways * 6.6..6.6.46 https://x segments wrongly\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		release, driver string
		want            [2]bool
	}{
		{"6.6.30", "r8152", [2]bool{true, true}},
		{"6.6.46", "igb", [2]bool{false, true}},
		{"6.6.47-rc1", "igb", [2]bool{}},
		{"6.12.94-amd64", "iwlwifi", [2]bool{true, false}},
		{"6.6", "r8152", [2]bool{true, true}},
		{"6.5.99", "r8152", [2]bool{}},
		{"6.13", "r8152", [2]bool{}},
		{"7.0", "r8152", [2]bool{}},
		{"10.6.7", "r8152", [2]bool{}},
		{"", "r8152", [2]bool{}},
		{"custom", "r8152", [2]bool{}},
	} {
		for i, d := range list {
			if got := d.covers(readVersion(tt.release), tt.driver); got != tt.want[i] {
				t.Errorf("%s on %s by entry %d: %v", tt.driver, tt.release, i, got)
			}
		}
	}
}
