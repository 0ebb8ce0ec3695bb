// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// qdiscCase is what tc is told about wan, and what Observe tells then. A line of
// tc that this kernel hasn't got the module for says so.
type qdiscCase struct {
	name  string
	lines []string
	want  state.Qdisc
}

// qdiscs makes one case after the other on wan, beside ifb4wan and ifb-dns.
func qdiscs(t *testing.T, cases []qdiscCase) {
	t.Helper()
	veth(t, "wan")
	for _, name := range []string{"ifb4wan", "ifb-dns"} {
		run(t, "ip link add "+name+" type ifb")
		run(t, "ip link set "+name+" up")
	}
	k := newKernel(t)
	for _, c := range cases {
		if out, err := tcBatch(c.lines...); err != nil {
			t.Fatalf("%s: %v: %s", c.name, err, out)
		}
		o := observe(t, k)
		if c.want.Redirect != 0 {
			c.want.Redirect = link(t, o, "ifb4wan").Index
		}
		if got := link(t, o, "wan").Qdisc; got != c.want {
			t.Errorf("%s: wan has %+v, want %+v", c.name, got, c.want)
		}
		// What isn't there can't be deleted, and needn't.
		tcBatch("qdisc del dev wan root", "qdisc del dev ifb4wan root", "qdisc del dev wan ingress", "qdisc del dev wan clsact")
	}
}

// tcBatch hands lines to tc, all of them whatever becomes of one.
func tcBatch(lines ...string) (out []byte, err error) {
	tc := exec.Command("tc", "-force", "-batch", "-")
	tc.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	return tc.CombinedOutput()
}

const ifb = 1 // stands for the index of ifb4wan

func TestObserveQdiscs(t *testing.T) {
	inNamespace(t)
	redirect := func(to string) string {
		return "filter add dev wan parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev " + to
	}
	qdiscs(t, []qdiscCase{
		{"none", nil, state.Qdisc{Root: "noqueue", Direct: true}},
		{"htb", []string{"qdisc add dev wan root htb default 1"}, state.Qdisc{Root: "htb", Shaper: "htb"}},
		{"tbf", []string{"qdisc add dev wan root tbf rate 1mbit burst 10k latency 50ms"}, state.Qdisc{Root: "tbf", Shaper: "tbf"}},
		{"pfifo", []string{"qdisc add dev wan root pfifo"}, state.Qdisc{Root: "pfifo", Direct: true}},
		{"a queue below a shaper", []string{
			"qdisc add dev wan root handle 1: htb default 1", "class add dev wan parent 1: classid 1:1 htb rate 1mbit",
			"qdisc add dev wan parent 1:1 pfifo"}, state.Qdisc{Root: "htb", Shaper: "htb"}},
		{"ingress without filters", []string{"qdisc add dev wan ingress"}, state.Qdisc{Root: "noqueue", Direct: true}},
		{"redirected", []string{"qdisc add dev wan handle ffff: ingress", redirect("ifb4wan")},
			state.Qdisc{Root: "noqueue", Direct: true, Redirect: ifb}},
		{"redirected by clsact", []string{"qdisc add dev wan clsact",
			"filter add dev wan ingress protocol ip u32 match ip sport 53 0xffff action mirred egress redirect dev ifb4wan"},
			state.Qdisc{Root: "noqueue", Direct: true, Redirect: ifb}},
		{"mirrored", []string{"qdisc add dev wan clsact",
			"filter add dev wan ingress protocol all u32 match u32 0 0 action mirred egress mirror dev ifb4wan"},
			state.Qdisc{Root: "noqueue", Direct: true}},
		{"redirected at egress", []string{"qdisc add dev wan clsact",
			"filter add dev wan egress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb4wan"},
			state.Qdisc{Root: "noqueue", Direct: true}},
		{"the one to a shaper counts", []string{"qdisc add dev ifb4wan root tbf rate 1mbit burst 10k latency 50ms",
			"qdisc add dev wan handle ffff: ingress", redirect("ifb-dns"), redirect("ifb4wan"), redirect("ifb-dns")},
			state.Qdisc{Root: "noqueue", Direct: true, Redirect: ifb}},
	})
}

// TestObserveQueuesOfTheirOwn: mq is no queue; what stands below it is.
func TestObserveQueuesOfTheirOwn(t *testing.T) {
	inNamespace(t)
	run(t, "ip link add wan numtxqueues 2 type veth peer name far")
	run(t, "ip link set wan up")
	k := newKernel(t)
	for _, c := range []struct {
		tc   string
		want state.Qdisc
	}{
		{"qdisc replace dev wan root handle 1: mq", state.Qdisc{Root: "mq", Direct: true}},
		{"qdisc replace dev wan parent 1:2 htb default 1", state.Qdisc{Root: "mq", Shaper: "htb"}},
		{"qdisc replace dev wan parent 1:2 pfifo", state.Qdisc{Root: "mq", Direct: true}},
		{"qdisc del dev wan root", state.Qdisc{Root: "noqueue", Direct: true}},
	} {
		run(t, "tc "+c.tc)
		if got := link(t, observe(t, k), "wan").Qdisc; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.tc, got, c.want)
		}
	}
}

// TestObserveWithoutTC: a kernel without traffic control has nothing to tell.
func TestObserveWithoutTC(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	run(t, "tc qdisc add dev wan clsact")
	k := newKernel(t)
	for _, call := range []string{"read the qdiscs", "read the filters at tc ingress"} {
		met := 0
		k.fault = func(c string) error {
			if c != call {
				return nil
			}
			met++
			return unix.EOPNOTSUPP
		}
		if q := link(t, observe(t, k), "wan").Qdisc; met != 1 || q.Redirect != 0 || q.Shaper != "" {
			t.Errorf("%s fails %d times: %+v", call, met, q)
		}
		k.fault = func(c string) error {
			if c == call {
				return unix.EIO
			}
			return nil
		}
		if _, err := k.Observe(state.Query{HookNumber: 2}); !errors.Is(err, unix.EIO) {
			t.Errorf("%s fails: %v", call, err)
		}
	}
}

// TestVMObserveQdiscs: what the machine's own kernel may lack.
func TestVMObserveQdiscs(t *testing.T) {
	if !needVM(t) {
		return
	}
	qdiscs(t, []qdiscCase{
		{"cake with a bandwidth", []string{"qdisc add dev wan root cake bandwidth 100mbit"}, state.Qdisc{Root: "cake", Shaper: "cake"}},
		{"cake that finds it out", []string{"qdisc add dev wan root cake autorate-ingress"}, state.Qdisc{Root: "cake", Shaper: "cake"}},
		{"cake without one", []string{"qdisc add dev wan root cake"}, state.Qdisc{Root: "cake"}},
		{"fq_codel", []string{"qdisc add dev wan root fq_codel"}, state.Qdisc{Root: "fq_codel", Direct: true}},
		{"fq", []string{"qdisc add dev wan root fq"}, state.Qdisc{Root: "fq"}},
		{"fq with a maximum", []string{"qdisc add dev wan root fq maxrate 10mbit"}, state.Qdisc{Root: "fq", Shaper: "fq"}},
		{"an inner shaper", []string{"qdisc add dev wan root handle 1: prio", "qdisc add dev wan parent 1:1 cake bandwidth 1mbit"},
			state.Qdisc{Root: "prio", Shaper: "cake"}},
		{"matchall", []string{"qdisc add dev wan handle ffff: ingress",
			"filter add dev wan parent ffff: protocol all matchall action ctinfo dscp 63 128 mirred egress redirect dev ifb4wan"},
			state.Qdisc{Root: "noqueue", Direct: true, Redirect: ifb}},
	})
}

// TestFilterOfTheHardware: a filter that is the NIC's alone holds no packet that
// we forward. No virtual device takes one, so it is made by hand.
func TestFilterOfTheHardware(t *testing.T) {
	for flags, want := range map[uint32]state.Qdisc{0: {Police: true}, 1: {Police: true}, skipSW: {}, skipSW | 8: {}} {
		w := writer{b: make([]byte, tcmsgLen)}
		w.str(tcaKind, "flower")
		w.nest(tcaOptions, func() {
			w.nest(actionsOf["flower"], func() {
				w.nest(1, func() { w.str(tcaActKind, "police") })
			})
			w.u32(flagsOf["flower"], flags)
		})
		var got state.Qdisc
		if readFilter(w.b, &got, nil); got != want {
			t.Errorf("flags %d: %+v, want %+v", flags, got, want)
		}
	}
}

// TestWatchQdiscs: what a look sees is an event; a rate that changes isn't.
func TestWatchQdiscs(t *testing.T) {
	inNamespace(t)
	veth(t, "wan")
	run(t, "ip link add ifb4wan type ifb")
	events := watch(t, newKernel(t))
	for _, c := range []struct {
		tc    string
		event bool
	}{
		{"qdisc add dev wan root handle 1: htb default 1", true},
		{"class add dev wan parent 1: classid 1:1 htb rate 1mbit", false},
		{"class change dev wan parent 1: classid 1:1 htb rate 2mbit", false},
		{"qdisc replace dev wan root handle 2: tbf rate 1mbit burst 10k latency 50ms", true},
		{"qdisc change dev wan root handle 2: tbf rate 2mbit burst 10k latency 50ms", false},
		{"qdisc add dev wan clsact", true},
		{"filter add dev wan ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb4wan", true},
		{"filter del dev wan ingress", true},
		{"qdisc del dev wan root", true},
	} {
		run(t, "tc "+c.tc)
		if c.event {
			comes(t, events, c.tc)
		} else if err := quiet(events); err != nil {
			t.Errorf("%s: %v", c.tc, err)
		}
	}
}
