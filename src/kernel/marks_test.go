// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fastpath/src/state"
	"fastpath/src/testkit"
)

const testBit = 0x40000000

// engineTable hands what passes between lan and wan to an engine; the rest goes
// to a flowtable on these devices, if there are any.
func engineTable(devices ...string) state.Table {
	rules := slices.Clone(flowRules[:3])
	rules = append(rules, state.Mark(testBit).When(state.Is(state.KeyIif, "@"+state.EngineXDP), state.Is(state.KeyOif, "@"+state.EngineXDP)))
	t := state.Table{Generation: "0123456789abcdef", Rules: rules,
		Engines: map[string][]string{state.EngineXDP: {"lan", "wan"}}}
	if len(devices) > 0 {
		t.Flowtable = state.Flowtable{Devices: devices, Counter: true}
		t.Rules = append(t.Rules, state.Add.When())
	}
	return t
}

// TestTableWithoutFlowtable: only sets, a chain and its rules; what somebody
// does to a set is noticed.
func TestTableWithoutFlowtable(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	want := engineTable()
	for range 2 {
		apply(t, k, state.ReplaceTable{Table: want})
		same(t, k, &want)
	}
	listed := strings.Join(strings.Fields(run(t, "nft list table inet fastpath")), " ")
	for _, line := range []string{
		"type ifname", `elements = { "lan", "wan" }`,
		`iifname @xdp oifname @xdp ct mark set ct mark | 0x40000000 return comment "fastpath: iifname @xdp oifname @xdp ` +
			`ct mark set ct mark or 0x40000000 return (generation 0123456789abcdef)"`,
	} {
		if !strings.Contains(listed, line) {
			t.Errorf("no %q in\n%s", line, listed)
		}
	}
	if strings.Contains(listed, "flow") {
		t.Errorf("a flowtable in\n%s", listed)
	}
	for name, change := range map[string]string{
		"another device": `add element inet fastpath xdp { "opt" }`,
		"one less":       `delete element inet fastpath xdp { "wan" }`,
		"another set":    "add set inet fastpath s { type ipv4_addr; }",
		"no rule":        "flush chain inet fastpath forward",
	} {
		load(t, change)
		if got := observe(t, k).Table; got == nil || reflect.DeepEqual(got, readBack(&want)) {
			t.Errorf("%s: not noticed: %+v", name, got)
		}
		apply(t, k, state.ReplaceTable{Table: want})
		same(t, k, &want)
	}
	want.Rules = append(slices.Clone(want.Rules[:3]), state.Return.When(state.Is(state.KeyIif, "x")), want.Rules[3])
	apply(t, k, state.ReplaceRules{Table: want})
	same(t, k, &want)
	if o := observe(t, k); o.Hooks.Ingress.OK && !hasFlowtables(t) {
		t.Error("a table without a flowtable is taken for one at ingress")
	}
	apply(t, k, state.DeleteTable{})
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

func hasFlowtables(t *testing.T) bool {
	t.Helper()
	return observe(t, newKernel(t)).Hooks.Ingress.OK
}

// TestManyDevices: more than one netlink attribute holds.
func TestManyDevices(t *testing.T) {
	inNamespace(t)
	k := newKernel(t)
	want := engineTable()
	var devices []string
	for i := range 2 * elementsPerMessage {
		devices = append(devices, fmt.Sprintf("eth%012d", i))
	}
	want.Engines = map[string][]string{state.EngineXDP: devices}
	apply(t, k, state.ReplaceTable{Table: want})
	same(t, k, &want)
}

func TestMarks(t *testing.T) {
	inNamespace(t)
	testMarks(t, engineTable())
}

// TestVMMarks: what has no engine goes to the flowtable, and only that.
func TestVMMarks(t *testing.T) {
	if !needVM(t) {
		return
	}
	testMarks(t, engineTable("lan", "opt", "wan"))
}

// testMarks sends UDP from lan to wan, which an engine carries, and from lan to
// opt, which it doesn't, both ways, and looks at what conntrack has then.
func testMarks(t *testing.T, table state.Table) {
	testkit.Need(t, has("conntrack"), "needs conntrack")
	hosts := map[string]*testkit.Netns{}
	for i, device := range []string{"lan", "wan", "opt"} {
		n := testkit.NewNetns(t, device)
		hosts[device] = n
		run(t, fmt.Sprintf("ip link add %s type veth peer name h0 netns %s", device, n.Name))
		for _, line := range []string{
			fmt.Sprintf("ip addr add 192.0.%d.1/24 dev %s", i+2, device), "ip link set " + device + " up",
			fmt.Sprintf("ip -n %s addr add 192.0.%d.2/24 dev h0", n.Name, i+2), "ip -n " + n.Name + " link set h0 up",
			fmt.Sprintf("ip -n %s route add default via 192.0.%d.1", n.Name, i+2),
		} {
			run(t, line)
		}
	}
	sysctl(t, "net/ipv4/ip_forward")
	load(t, "table ip others { chain pre { type filter hook prerouting priority -100; ct state new ct mark set 1; }; }")
	k := newKernel(t)
	if o := observe(t, k); !o.Marks.OK {
		t.Fatalf("marks: %+v", o.Marks)
	}
	apply(t, k, state.ReplaceTable{Table: table})
	exchange(t, hosts["lan"], hosts["wan"], "192.0.3.2:7")
	exchange(t, hosts["lan"], hosts["opt"], "192.0.4.2:7")
	for dst, want := range map[string]struct{ mark, offloaded bool }{
		"192.0.3.2": {mark: true},
		"192.0.4.2": {offloaded: len(table.Flowtable.Devices) > 0},
	} {
		line := run(t, "conntrack -L -p udp --orig-dst "+dst)
		mark := "mark=1 "
		if want.mark {
			mark = fmt.Sprintf("mark=%d ", testBit|1) // the other bits stay
		}
		if !strings.Contains(line, mark) || strings.Contains(line, "[OFFLOAD]") != want.offloaded {
			t.Errorf("to %s: %s, want %s, offloaded: %v", dst, line, mark, want.offloaded)
		}
	}
}

// exchange sends a datagram from c to s and one back, five times.
func exchange(t *testing.T, c, s *testkit.Netns, server string) {
	t.Helper()
	var from, to *net.UDPConn
	addr, err := net.ResolveUDPAddr("udp4", server)
	must(t, err)
	must(t, s.Inside(func() (err error) { to, err = net.ListenUDP("udp4", addr); return err }))
	defer to.Close()
	must(t, c.Inside(func() (err error) { from, err = net.DialUDP("udp4", nil, addr); return err }))
	defer from.Close()
	deadline := time.Now().Add(time.Minute)
	must(t, to.SetDeadline(deadline))
	must(t, from.SetDeadline(deadline))
	b := make([]byte, 16)
	for range 5 {
		_, err := from.Write(b)
		must(t, err)
		_, peer, err := to.ReadFromUDP(b)
		must(t, err)
		_, err = to.WriteToUDP(b, peer)
		must(t, err)
		_, err = from.Read(b)
		must(t, err)
	}
}

// TestVMTableTransitions: a flowtable comes and goes around the same rules.
func TestVMTableTransitions(t *testing.T) {
	if !needVM(t) {
		return
	}
	veth(t, "lan", "wan")
	k := newKernel(t)
	for _, n := range hookNumbers() {
		with, without := engineTable("lan", "wan"), engineTable()
		with.Flowtable.Number = n
		for _, want := range []state.Table{without, with, without, with} {
			apply(t, k, state.ReplaceTable{Table: want})
			same(t, k, &want)
			if n != state.NumberIngress {
				continue // nft has no word for the hook
			}
			load(t, "delete table inet fastpath\n"+run(t, "nft list table inet fastpath"))
			same(t, k, &want)
		}
	}
}
