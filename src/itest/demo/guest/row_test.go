// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	gen "fastpath/src/itest/topo/traffic"
)

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
		{"too little arrived", row{result: gen.Result{Sent: rowBytes, Received: wantBytes - 1}}, "arrived"},
		{"tcpdump saw the slow path", row{result: all, slow: count{packets: 4, bytes: 208}, seen: 4}, ""},
		{"tcpdump saw more", row{result: all, slow: count{packets: 4, bytes: 208}, seen: 5}, "tcpdump"},
	} {
		c.row.transfer = gen.Transfer{Addr: netip.MustParseAddr("192.0.2.1"), UDP: true}
		err := c.row.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
