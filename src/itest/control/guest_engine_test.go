// SPDX-License-Identifier: Apache-2.0

//go:build guest

package control

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fastpath/src/itest/topo"
)

// engines are tried in each test. Force: on an emulated CPU their trial would
// say little.
var engines = []topo.Engine{{Kind: "xdp", Force: true}, {Kind: "afxdp", Force: true}}

// configure writes the router's files with the engine on each port.
func (r *router) configure(t *testing.T, e topo.Engine) {
	t.Helper()
	if err := r.Variant.WriteConfig(r.config(), e); err != nil {
		t.Fatal(err)
	}
}

// portStatus is a port in the document.
type portStatus struct {
	Name         string `json:"name"`
	HookReason   string `json:"hook_reason"`
	Engine       string `json:"engine"`
	EngineReason string `json:"engine_reason"`
}

func (r *router) portStatus(t *testing.T) (ports []portStatus) {
	t.Helper()
	out, err := r.command("status", "--json").Output()
	if err != nil {
		t.Fatalf("status --json: %v", err)
	}
	var doc struct {
		Report struct {
			Ports []portStatus `json:"ports"`
		} `json:"report"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("status --json: %v in %s", err, out)
	}
	return doc.Report.Ports
}

// on waits until the engine runs on each port and nothing is left to do.
func (r *router) on(t *testing.T, kind string) {
	t.Helper()
	var last []portStatus
	defer func() {
		if t.Failed() {
			t.Logf("ports: %+v", last)
		}
	}()
	r.eventually(t, "engine "+kind+" on each port", func() bool {
		last = r.portStatus(t)
		for _, name := range lowest(r.Variant) {
			if !slices.ContainsFunc(last, func(p portStatus) bool { return p.Name == name && p.Engine == kind }) {
				return false
			}
		}
		return true
	})
	r.settled(t)
}

// flows counts the flows of the engine that have this port at one end.
func (r *router) flows(t *testing.T, kind string, port uint16) (n int) {
	t.Helper()
	out, err := r.command("flows", "--json").Output()
	if err != nil {
		t.Fatalf("flows --json: %v", err)
	}
	var list struct {
		Flows []struct {
			Engine string `json:"engine"`
			Orig   struct {
				DstPort uint16 `json:"dport"`
			} `json:"orig"`
		} `json:"flows"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("flows --json: %v in %s", err, out)
	}
	for _, f := range list.Flows {
		if f.Engine == kind && f.Orig.DstPort == port {
			n++
		}
	}
	return n
}

// Each engine carries TCP and UDP, both ways, in both families, over each kind
// of WAN; a tunnel, too, which no flowtable carries for us.
func TestEngineCarries(t *testing.T) {
	for _, v := range []topo.Variant{topo.Plain, topo.PPPoEVLAN, topo.DSLite} {
		t.Run(v.Name, func(t *testing.T) {
			r := build(t, v)
			before := r.settings(t)
			for _, e := range engines {
				t.Run(e.Kind, func(t *testing.T) { r.carries(t, e) })
			}
			if after := r.settings(t); after != before {
				t.Errorf("after the end:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// carries runs the daemon with the engine and each kind of transfer.
func (r *router) carries(t *testing.T, e topo.Engine) {
	t.Helper()
	r.configure(t, e)
	r.start(t)
	r.on(t, e.Kind)
	port := uint16(5000)
	for _, addr := range []string{topo.Serverv4, topo.Serverv6} {
		for _, udp := range []bool{false, true} {
			for _, up := range []bool{true, false} {
				port++
				r.engineCarries(t, e, r.transferTo(port, addr, udp, up, 2_000_000))
			}
		}
	}
	r.settled(t)
	r.on(t, e.Kind)
	r.stop(t, syscall.SIGTERM)
}

// transferTo is transfer to a port of its own, so that no flow is an older one's.
func (r *router) transferTo(port uint16, addr string, udp, up bool, size int64) transfer {
	c := r.transfer(addr, udp, up, size)
	c.Port = port
	return c
}

// engineCarries is accelerated, and the engine has the flow before it is measured.
func (r *router) engineCarries(t *testing.T, e topo.Engine, c transfer) {
	t.Helper()
	r.acceleratedAfter(t, c, func() {
		r.eventually(t, fmt.Sprintf("engine %s has the flow of %s", e.Kind, c), func() bool { return r.flows(t, e.Kind, c.Port) == 1 })
	})
}

// Zero copy where virtio-net can do it (since Linux 6.16 or so); elsewhere one
// readable reason, and the port does without.
func TestEngineZeroCopy(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	e := topo.Engine{Kind: "afxdp", ZeroCopy: true, Force: true}
	if early() {
		r.carries(t, e)
		return
	}
	r.configure(t, e)
	r.start(t)
	var ports []portStatus
	r.eventually(t, "each port says why not", func() bool {
		ports = r.portStatus(t)
		return !slices.ContainsFunc(ports, func(p portStatus) bool {
			return p.Engine == "afxdp" || !strings.Contains(p.EngineReason, "zero copy")
		})
	})
	t.Logf("%+v", ports)
	for _, p := range ports {
		if strings.Contains(p.EngineReason, "\n") {
			t.Errorf("%s: the reason is not one line: %q", p.Name, p.EngineReason)
		}
	}
	r.settled(t)
	r.accelerated(t, r.transfer(topo.Serverv4, false, true, 2_000_000))
}

// TCP goes on over the kernel when the engines end, orderly or not, in the
// middle of a transfer.
func TestEngineEndsMidTransfer(t *testing.T) {
	r := build(t, topo.PPPoEVLAN)
	for _, e := range engines {
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			for j, addr := range []string{topo.Serverv4, topo.Serverv6} {
				t.Run(fmt.Sprintf("%s/%s/%s", e.Kind, sig, netip.MustParseAddr(addr)), func(t *testing.T) {
					r.endsMidTransfer(t, e, sig, r.transferTo(uint16(5100+2*i+j), addr, false, i == j, 20_000_000))
				})
			}
		}
	}
}

func (r *router) endsMidTransfer(t *testing.T, e topo.Engine, sig syscall.Signal, c transfer) {
	r.configure(t, e)
	r.start(t)
	r.on(t, e.Kind)
	var ended time.Time
	done := make(chan struct{})
	c.Steady = func() error {
		r.eventually(t, "the engine has the flow", func() bool { return r.flows(t, e.Kind, c.Port) == 1 })
		time.AfterFunc(100*time.Millisecond, func() {
			defer close(done)
			r.stop(t, sig)
			ended = time.Now()
		})
		return nil
	}
	before := r.slowBytes(t)
	result, err := c.Run(t.Context())
	finished := time.Now()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes in %v, gap %v, by the slow path %d", c, result.Received, result.Elapsed, result.Gap, r.slowBytes(t)-before)
	if ended.After(finished) {
		t.Errorf("the transfer was over before the daemon ended: this test proves nothing")
	}
	if out, err := r.command("cleanup").CombinedOutput(); err != nil {
		t.Errorf("cleanup: %v: %s", err, out)
	}
}
