// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fastpath/src/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

var began = time.Date(2026, 10, 1, 7, 30, 0, 0, time.UTC)

// router is a document of a PPPoE router at work.
func router() Document {
	percent, last := 98.73, 99.4
	return Document{
		Version: "1.2.3", PID: 1234, Since: began, Kernel: "6.12.95",
		Report: state.Report{
			Enabled: true, Hook: state.HookIngress, HookReason: "early_ingress: the kernel doesn't have it (EOPNOTSUPP, errno 95)",
			Ports: []state.PortReport{
				{Name: "eth0", Networks: "wan", Path: "pppoe-wan / eth0.35 / eth0", Hook: state.HookIngress,
					Receive: "keep", ReceiveReason: "nothing to gain by bulks without early_ingress", Engine: "flowtable", EngineReason: "the default"},
				{Name: "lan1", Networks: "lan", Path: "br-lan / lan1", Hook: state.HookIngress,
					HookReason: "early_ingress: the kernel doesn't have it (EOPNOTSUPP, errno 95)", // told above
					Receive:    "fraglist", ReceiveReason: "option receive 'fraglist'", Engine: "flowtable", EngineReason: "the default"},
				{Name: "lan2", Networks: "lan", Path: "br-lan / lan2", Hook: state.HookOff, HookReason: "the device is down",
					Receive: "keep", Engine: "none", EngineReason: "option engine 'none'"},
			},
			Notices: []string{"waiting for device wlan0 (network lan)"},
		},
		Early: EarlyCheck{Verdict: Unknown},
		Traffic: Traffic{
			Flows: 42, Counted: true,
			SinceStart: Share{Seconds: 3600, Slow: Volume{1271, 98_000}, Flows: Volume{100_000, 91_000_000}, Flowtable: Volume{98_729, 90_902_000},
				Accelerated: Volume{98_729, 90_902_000}, Percent: &percent},
			Interval: Share{Seconds: 60, Slow: Volume{6, 500}, Flows: Volume{1000, 900_000}, Flowtable: Volume{994, 899_500}, Accelerated: Volume{994, 899_500}, Percent: &last},
			Ports:    []PortTraffic{{Name: "eth0", Rx: Volume{60_000, 80_000_000}, Tx: Volume{40_000, 11_000_000}}},
		},
		Policies: []Policy{
			{Name: "fw4 rule voice", Action: "bypass", Packets: 311}, {Name: "web", Action: "accelerate", Packets: 1}, {Name: "games", Action: "bypass"}},
		Look: Look{Time: began.Add(time.Hour), Count: 61, Problems: []string{}},
		Plan: Plan{Time: began, Steps: []Step{
			{Text: "install table inet fastpath: flowtable at ingress on eth0, lan1, 9 rules"},
			{Text: "set lan1: rx-gro on, rx-gro-list on, rx-gro-hw off, rx-lro off"}}},
		Config: Config{InForce: AsWritten, Problems: []string{}},
	}
}

// engineRouter is the same router with an engine on the WAN and one LAN port.
func engineRouter() Document {
	d := router()
	xdp := state.Engine{Kind: state.EngineXDP, Mark: 0x40000000}
	d.Engines = map[string]state.Engine{"eth0": xdp, "lan1": xdp}
	d.Refused = map[string]state.Refusal{"lan2": {Want: xdp, Reason: "the driver has no native XDP (EOPNOTSUPP, errno 95)"}}
	for i, reason := range []string{"option engine 'xdp': for flows between pppoe-wan and other networks that have it",
		"option engine 'xdp': for flows between br-lan and other networks that have it",
		"engine xdp: " + d.Refused["lan2"].Reason + "; the flowtable carries the port"} {
		d.Report.Ports[i].Engine, d.Report.Ports[i].EngineReason = state.EngineXDP, reason
	}
	d.Report.Ports[2].Engine = state.EngineFlowtable
	t := &d.Traffic
	t.EngineFlows, t.EngineFull, t.Flows = 1000, 7, 3
	s := &t.SinceStart
	s.Engines, s.Flows = Volume{1_200_000, 1_100_000_000}, Volume{3000, 900_000}
	s.Flowtable = Volume{1729, 802_000}
	s.Accelerated = s.Engines.plus(s.Flowtable)
	*s = s.withPercent(true)
	softirq := 62.5
	t.Softirq = &softirq
	t.Ports = []PortTraffic{
		{Name: "eth0", Rx: Volume{602_500, 560_000_000}, Tx: Volume{601_000, 550_000_000}, Engine: Volume{600_000, 540_000_000}, Kernel: 2490,
			Passed:  map[string]uint64{"no-flow": 1500, "tcp-flags": 900, "not-ip": 90, "fragment": 0},
			Dropped: map[string]uint64{"shed": 9, "tx-ring-full": 1}},
		{Name: "lan1", Rx: Volume{601_000, 570_000_000}, Tx: Volume{602_000, 560_000_000}, Engine: Volume{600_000, 560_000_000}, Kernel: 1000,
			Passed: map[string]uint64{"no-flow": 999, "brand-new": 1}, Dropped: map[string]uint64{}},
		{Name: "lan2", Rx: Volume{10, 1000}, Tx: Volume{20, 2000}, Kernel: 10, Passed: map[string]uint64{}, Dropped: map[string]uint64{}},
	}
	return d
}

var textCases = map[string]func(*Document){
	"router.txt":   func(*Document) {},
	"starting.txt": func(d *Document) { *d = Document{Version: "1.2.3", PID: 1234, Since: began, Kernel: "6.12.95"} },
	"disabled.txt": func(d *Document) {
		d.Report = state.Report{HookReason: "not enabled (option enabled '0')"}
		d.Report.Notices = nil
	},
	"withheld.txt": func(d *Document) {
		d.Report.Hook, d.Report.HookReason = state.HookOff, "fw4's own flow_offloading is on"
		d.Report.Ports = d.Report.Ports[2:]
	},
	"idle.txt": func(d *Document) {
		d.Traffic = Traffic{Counted: true}
		d.Report.Ports, d.Report.Notices = d.Report.Ports[:1], nil
	},
	"uncounted.txt": func(d *Document) {
		d.Traffic = Traffic{Flows: 1}
		d.Report.Ports, d.Report.Notices = d.Report.Ports[:1], nil
	},
	"early.txt": func(d *Document) {
		d.Report.Hook, d.Report.HookReason = state.HookEarly, "every port delivers NAPI lists"
		d.Early = EarlyCheck{Verdict: Confirmed, Reason: "9100 packets were accelerated, and only 80 of 9180 received packets were seen at netdev ingress"}
		d.Report.Ports, d.Report.Notices = d.Report.Ports[:1], nil
	},
	"engines.txt": func(d *Document) { *d = engineRouter() },
	"engines-only.txt": func(d *Document) {
		*d = engineRouter()
		d.Report.Hook, d.Report.HookReason = state.HookOff, "fw4's own flow_offloading is on"
		for i := range d.Report.Ports {
			d.Report.Ports[i].Hook, d.Report.Ports[i].HookReason = state.HookOff, d.Report.HookReason
		}
		d.Traffic.Flows, d.Traffic.EngineFull, d.Traffic.SinceStart.Flowtable = 0, 0, Volume{}
		d.Engines["lan1"] = state.Engine{Kind: state.EngineAFXDP}
		d.Report.Ports = d.Report.Ports[:2]
	},
	"recommended.txt": func(d *Document) {
		d.Report.Ports = d.Report.Ports[:1]
		d.Recommendations = []string{newBusy().recommend()}
	},
	"problems.txt": func(d *Document) {
		d.Config = Config{InForce: LastGood,
			Problems: []string{"/etc/config/fastpath:3: hook 'soon' is not one of auto, early_ingress, ingress, off"}}
		d.Look.Problems, d.Look.RetrySeconds = []string{"add to the flowtable: lan3: still in use (EBUSY, errno 16)"}, 8
		d.Report.Ports = d.Report.Ports[:1]
	},
}

func TestText(t *testing.T) {
	for name, change := range textCases {
		t.Run(name, func(t *testing.T) {
			d := router()
			change(&d)
			var b bytes.Buffer
			if err := d.WriteText(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}

// LuCI and scripts read these names: a change here breaks them.
func TestJSON(t *testing.T) {
	d := engineRouter()
	d.Recommendations = []string{}
	d.Mix = map[string]state.Mix{"lan2": {Kind: state.MixMany, Received: 9_300_000, Forwarded: 9_000_000, Local: 100_000, Packets: 12_000, Flows: 17}}
	d.Multicast = map[string]string{"eth0": "group 232.0.0.1 is joined"}
	got, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "router.json", append(got, '\n'))
	var back Document
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(back, "", "  ")
	if err != nil || !bytes.Equal(got, again) {
		t.Errorf("what the client prints differs from what the daemon said: %s", again)
	}
}

func TestFlowsText(t *testing.T) {
	engine := filterFlow
	engine.Engine, engine.Counted, engine.In, engine.Out, engine.Encap, engine.Idle = "xdp", true, "lan1", "eth0", "pppoe session 7 over vlan 35", 12.4
	engine.Orig.Packets, engine.Orig.Bytes, engine.Reply.Packets, engine.Reply.Bytes = 7, 700, 9, 12_000
	nat := filterFlow
	nat.Counted, nat.In, nat.Out, nat.Encap = true, "lan1", "eth0", "vlan 35, pppoe 7"
	nat.Orig.Packets, nat.Orig.Bytes, nat.Reply.Packets, nat.Reply.Bytes = 1200, 90_000, 2400, 3_200_000
	six := state.Flow{Engine: "flowtable", Family: "ipv6", Proto: "udp",
		Orig:  state.Tuple{Src: "2001:db8::2", Dst: "2001:db8:1::1", SrcPort: 5000, DstPort: 443},
		Reply: state.Tuple{Src: "2001:db8:1::1", Dst: "2001:db8::2", SrcPort: 443, DstPort: 5000}}
	forward := state.Flow{Engine: "flowtable", Family: "ipv4", Proto: "tcp", Counted: true, In: "eth0", Out: "lan1",
		Orig:  state.Tuple{Src: "203.0.113.9", Dst: "198.51.100.7", SrcPort: 6000, DstPort: 80},
		Reply: state.Tuple{Src: "192.168.1.5", Dst: "203.0.113.9", SrcPort: 8080, DstPort: 6000}}
	for name, flows := range map[string][]state.Flow{
		"flows.txt": {nat, engine, six, forward}, "flows-one.txt": {engine}, "flows-none.txt": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteFlows(&b, flows); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}

func TestVolume(t *testing.T) {
	for v, want := range map[Volume]string{
		{}:                     "0 packets, 0 B",
		{1, 999}:               "1 packet, 999 B",
		{2, 1000}:              "2 packets, 1.0 kB",
		{3, 12_345_678}:        "3 packets, 12.3 MB",
		{4, 1 << 63}:           "4 packets, 9223.4 PB",
		{5, 1_500_000_000_000}: "5 packets, 1.5 TB",
	} {
		if got := v.String(); got != want {
			t.Errorf("%d bytes: %q, want %q", v.Bytes, got, want)
		}
	}
}

func TestOverride(t *testing.T) {
	trial := state.Hooks{Early: state.Ability{OK: true}, Ingress: state.Ability{OK: true}}
	if h := (EarlyCheck{Verdict: Unknown}).Override(trial); h != trial {
		t.Errorf("unknown changed %+v", h)
	}
	if h := (EarlyCheck{Verdict: Confirmed}).Override(trial); !h.Confirmed || !h.Early.OK {
		t.Errorf("confirmed: %+v", h)
	}
	if h := (EarlyCheck{Verdict: Refuted, Reason: "why"}).Override(trial); h.Early.OK || h.Early.Reason != "why" || !h.Ingress.OK {
		t.Errorf("refuted: %+v", h)
	}
}
