// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	gen "fastpath/src/itest/topo/traffic"
	"fastpath/src/state"
)

func TestWanted(t *testing.T) {
	all := func(engine string) (p []state.PortReport) {
		for _, name := range ports {
			p = append(p, state.PortReport{Name: name, Engine: engine, EngineReason: "why"})
		}
		return p
	}
	for _, c := range []struct {
		name   string
		want   wanted
		report state.Report
		err    string // "": as wanted
	}{
		{"any hook", wanted{}, state.Report{Hook: state.HookIngress}, ""},
		{"no hook", wanted{}, state.Report{Hook: state.HookOff, HookReason: "because"}, "because"},
		{"the hook", wanted{hook: "early_ingress"}, state.Report{Hook: state.HookEarly}, ""},
		{"another hook", wanted{hook: "early_ingress"}, state.Report{Hook: state.HookIngress}, "ingress"},
		{"the engine", wanted{hook: "ingress", engine: "xdp"}, state.Report{Hook: state.HookOff, Ports: all("xdp")}, ""},
		{"another engine", wanted{engine: "afxdp"}, state.Report{Ports: all("flowtable")}, "why"},
		{"a port too few", wanted{engine: "xdp"}, state.Report{Ports: all("xdp")[:2]}, "no port wan"},
	} {
		err := c.want.check(c.report)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

func TestVerdict(t *testing.T) {
	all := gen.Result{Sent: rowBytes, Received: rowBytes, Elapsed: time.Second}
	for _, c := range []struct {
		name string
		row  row
		want string // "": passed
	}{
		{"all fast", row{result: all}, ""},
		{"some slow", row{result: all, slow: count{packets: 300, bytes: rowBytes/100 - 1}}, ""},
		{"one per cent slow", row{result: all, slow: count{packets: 300, bytes: rowBytes / 100}}, "slow path"},
		{"all slow", row{result: all, slow: count{packets: 36000, bytes: rowBytes + 1_000_000}}, "slow path"},
		{"too little arrived", row{result: gen.Result{Sent: rowBytes, Received: 49_000_000}}, "arrived"},
		{"tcpdump saw the slow path", row{result: all, slow: count{packets: 4, bytes: 208}, seen: 4}, ""},
		{"tcpdump saw more", row{result: all, slow: count{packets: 4, bytes: 208}, seen: 5}, "tcpdump"},
	} {
		c.row.transfer = gen.Transfer{Addr: netip.MustParseAddr("192.0.2.1"), UDP: true, Bytes: rowBytes}
		err := c.row.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
