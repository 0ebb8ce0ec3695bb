// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPrompt measures, on a router of 16 ports, the time from an event, somebody
// switches a feature of a port back, until the kernel is as it should be again.
// The median of a quiet machine is what counts: see the log of
//
//	go test ./src/cmd/fastpath -run TestPrompt -v
func TestPrompt(t *testing.T) {
	p := newProc(t)
	const n = 16
	var text strings.Builder
	for i := range n {
		if i >= 2 {
			p.ns.Run(t, fmt.Sprintf("ip link add p%d type veth peer name q%[1]d\nip link set p%[1]d up", i))
		}
		fmt.Fprintf(&text, "config port\n\toption device 'p%d'\n\toption receive 'fraglist'\n", i)
	}
	if err := os.WriteFile(filepath.Join(p.config, "fastpath"), []byte(good+text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	p.start()
	set := func(port int) bool {
		return strings.Contains(p.ns.Run(t, fmt.Sprintf("ethtool -k p%d", port)), "rx-gro-list: on")
	}
	var took []time.Duration
	for i := range n {
		if !set(i) {
			t.Fatalf("p%d has no fraglist GRO; log:\n%s", i, p.log.String())
		}
		p.ns.Run(t, fmt.Sprintf("ethtool -K p%d rx-gro-list off", i))
		start := time.Now()
		for !set(i) {
			if time.Since(start) > patience {
				t.Fatalf("p%d isn't set again; log:\n%s", i, p.log.String())
			}
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("from the event to the kernel's state: median %v, from %v to %v", took[n/2], took[0], took[n-1])
}
