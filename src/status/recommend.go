// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	"fastpath/src/state"
)

// Bits of state.Link.XDPFeatures, enum netdev_xdp_act.
const (
	xdpRedirect = 1 << 1
	xdpTransmit = 1 << 2 // some drivers show it only once a program is attached
)

const (
	// busyCPU is the share of softirqs on the busiest CPU, in percent, from
	// which an engine is worth a thought: below, the router isn't at its limit.
	busyCPU = 25
	// muchFlow is the share of accelerated packets, in percent: the CPU's time
	// goes into forwarding what an engine could take.
	muchFlow = 50
)

// Recommend says in one sentence by which option an engine would help, "" when
// there is nothing to gain: it must be the forwarding of flows that keeps a
// CPU busy, and every port below at least two IP devices must be able to
// have an engine, or have it, since a flow needs one at both of its ends.
func Recommend(r state.Report, t Traffic, links []state.Link, refused map[string]state.Refusal) string {
	if t.Softirq == nil || *t.Softirq <= busyCPU || t.Interval.Percent == nil || *t.Interval.Percent < muchFlow {
		return ""
	}
	fit := map[string]state.Link{}
	for _, l := range links {
		if _, no := refused[l.Name]; !no && fitsXDP(l) {
			fit[l.Name] = l
		}
	}
	whole := wholeDevices(r.Ports, fit)
	var ports []string
	would := "would"
	for _, p := range r.Ports {
		l, ok := fit[p.Name]
		if !ok || p.Engine != state.EngineFlowtable || !slices.ContainsFunc(devicesOf(p), func(d string) bool { return whole[d] }) {
			continue
		}
		ports = append(ports, p.Name)
		if l.XDPFeatures&xdpTransmit == 0 {
			would = "may"
		}
	}
	if len(ports) == 0 || len(whole) < 2 {
		return ""
	}
	return fmt.Sprintf("softirqs take %.0f %% of the busiest CPU: an XDP engine %s forward for less; "+
		"try option engine 'xdp' in sections config port with option device %s (one that doesn't pay steps aside by itself)",
		*t.Softirq, would, strings.Join(ports, ", "))
}

// fitsXDP: a NIC without a program of somebody's, whose driver can redirect as
// far as is known.
func fitsXDP(l state.Link) bool {
	nic := l.Bus && l.Kind == "" && l.DevType == ""
	return nic && l.XDP == 0 && (l.XDPFeatures == 0 || l.XDPFeatures&xdpRedirect != 0)
}

// wholeDevices are the IP devices all of whose ports have an XDP engine or
// could have one instead of the flowtable.
func wholeDevices(ports []state.PortReport, fit map[string]state.Link) map[string]bool {
	whole := map[string]bool{}
	for _, p := range ports {
		for _, d := range devicesOf(p) {
			whole[d] = true
		}
	}
	for _, p := range ports {
		_, could := fit[p.Name]
		if p.Engine == state.EngineXDP || could && p.Engine == state.EngineFlowtable {
			continue
		}
		for _, d := range devicesOf(p) {
			delete(whole, d)
		}
	}
	return whole
}

// devicesOf are the IP devices above a port: its paths begin with them.
func devicesOf(p state.PortReport) (devices []string) {
	for _, path := range strings.Split(p.Path, ", ") {
		top, _, _ := strings.Cut(path, " / ")
		devices = append(devices, top)
	}
	return devices
}
