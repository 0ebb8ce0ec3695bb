// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// From include/uapi/linux/pkt_sched.h, pkt_cls.h and rtnetlink.h, as far as
// x/sys/unix lacks them.
const (
	tcmsgLen = 20 // struct tcmsg: family, ifindex, handle, parent, info

	tcRoot          = 0xffffffff // TC_H_ROOT
	tcIngress       = 0xfffffff1 // TC_H_INGRESS and TC_H_CLSACT: parent of the qdiscs ingress and clsact
	tcIngressFilter = 0xfffffff2 // TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS): parent of their ingress filters

	tcaKind, tcaOptions       = 1, 2
	tcaCakeBaseRate           = 2 // TCA_CAKE_BASE_RATE64: bytes a second, 0 is unlimited
	tcaCakeAutorate           = 9
	tcaFQMaxRate              = 7 // TCA_FQ_FLOW_MAX_RATE: bytes a second, all bits set is unlimited
	tcaActKind, tcaActOptions = 1, 2
	tcaMirredParms            = 2 // TCA_MIRRED_PARMS: struct tc_mirred
	mirredEgressRedirect      = 1 // TCA_EGRESS_REDIR
)

// addQdiscs fills in what tc has on the links: one dump of all qdiscs, and one
// of the filters of each link that has some at ingress. A kernel without
// traffic control has nothing to tell.
func (k *Kernel) addQdiscs(links []state.Link) error {
	c, err := dial(unix.NETLINK_ROUTE, k.inject)
	if err != nil {
		return err
	}
	defer c.close()
	byIndex := make(map[int]*state.Link, len(links))
	for i := range links {
		byIndex[links[i].Index] = &links[i]
	}
	var filtered []*state.Link
	err = steady(func() error {
		filtered = nil
		for i := range links {
			links[i].Qdisc = state.Qdisc{}
		}
		return c.ask(request{call: "read the qdiscs", typ: unix.RTM_GETQDISC, dump: true, header: make([]byte, tcmsgLen)},
			func(body []byte) {
				q := readQdisc(body)
				l := byIndex[q.index]
				switch {
				case l == nil:
				case q.parent == tcIngress:
					filtered = append(filtered, l)
				default:
					q.join(&l.Qdisc)
				}
			})
	})
	if err != nil {
		return withoutTC(err)
	}
	for _, l := range filtered {
		if err := c.addFilters(l, byIndex); err != nil {
			return withoutTC(err)
		}
	}
	return nil
}

// withoutTC turns "this kernel has no traffic control" into nothing to tell.
func withoutTC(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// qdiscInfo is one qdisc as the kernel tells it.
type qdiscInfo struct {
	index   int
	parent  uint32
	kind    string
	options []byte
}

func readQdisc(body []byte) (q qdiscInfo) {
	if len(body) < tcmsgLen {
		return q
	}
	q.index, q.parent = int(int32(u32(body[4:]))), u32(body[12:])
	for typ, b := range attrs(body[tcmsgLen:]) {
		switch typ {
		case tcaKind:
			q.kind = text(b)
		case tcaOptions:
			q.options = b
		}
	}
	return q
}

// join adds q to what is known of its link. The root comes first in a dump. One
// below it queues packets by itself only below mq and mqprio, which pass them
// straight on; it shapes them wherever it stands.
func (q qdiscInfo) join(to *state.Qdisc) {
	switch {
	case q.parent == tcRoot:
		to.Root = q.kind
		to.Direct = direct[q.kind] || fans(q.kind)
	case fans(to.Root):
		to.Direct = to.Direct && direct[q.kind]
	}
	if to.Shaper == "" && q.shapes() {
		to.Shaper = q.kind
	}
}

// fans: it is no queue, but one qdisc for each of the device's queues.
func fans(kind string) bool { return kind == "mq" || kind == "mqprio" || kind == "cake_mq" }

// direct are the qdiscs that set TCQ_F_CAN_BYPASS (net/sched/sch_*.c).
var direct = map[string]bool{
	"noqueue": true, "pfifo_fast": true, "pfifo": true, "bfifo": true, "fq_codel": true, "codel": true, "sfq": true,
}

// shapes: the qdisc holds packets back because its owner set it so. The
// defaults don't, nor does an unlimited cake: what passes them by exceeds nothing
// that anybody set.
func (q qdiscInfo) shapes() bool {
	switch q.kind {
	case "htb", "hfsc", "tbf", "cbq", "cbs", "netem", "taprio", "etf":
		return true
	case "cake", "cake_mq":
		for typ, b := range attrs(q.options) {
			if typ == tcaCakeBaseRate && u64(b) != 0 || typ == tcaCakeAutorate && u32(b) != 0 {
				return true
			}
		}
	case "fq":
		for typ, b := range attrs(q.options) {
			if typ == tcaFQMaxRate {
				return u32(b) != 1<<32-1
			}
		}
	}
	return false
}

// addFilters reads what tc does with the packets that l receives.
func (c *conn) addFilters(l *state.Link, byIndex map[int]*state.Link) error {
	header := make([]byte, tcmsgLen)
	binary.NativeEndian.PutUint32(header[4:], uint32(l.Index))
	binary.NativeEndian.PutUint32(header[12:], tcIngressFilter)
	return steady(func() error {
		l.Qdisc.Redirect, l.Qdisc.Police, l.Qdisc.Classify = 0, false, false
		return c.ask(request{call: "read the filters at tc ingress", typ: unix.RTM_GETTFILTER, dump: true, header: header},
			func(body []byte) { readFilter(body, &l.Qdisc, byIndex) })
	})
}

// Of a classifier's options: its actions, and its flags if it may be the
// hardware's alone (TCA_U32_ACT, TCA_U32_FLAGS, … in pkt_cls.h).
var (
	actionsOf = map[string]uint16{
		"basic": 3, "bpf": 1, "cgroup": 1, "flow": 9, "flower": 3, "fw": 4, "matchall": 2, "route": 6, "u32": 7,
	}
	flagsOf = map[string]uint16{"bpf": 9, "flower": 22, "matchall": 3, "u32": 11}
)

// skipSW is TCA_CLS_FLAGS_SKIP_SW: no packet that the CPU receives meets the filter.
const skipSW = 1 << 1

// tcaU32Police is where u32 has the police action of tc's old syntax.
const tcaU32Police = 6

func readFilter(body []byte, to *state.Qdisc, byIndex map[int]*state.Link) {
	f := readQdisc(body)
	for typ, b := range attrs(f.options) {
		if typ == flagsOf[f.kind] && u32(b)&skipSW != 0 {
			return
		}
	}
	to.Classify = to.Classify || f.kind == "bpf"
	for typ, b := range attrs(f.options) {
		switch {
		case typ == actionsOf[f.kind]:
			for _, action := range attrs(b) {
				readAction(action, to, byIndex)
			}
		case f.kind == "u32" && typ == tcaU32Police:
			to.Police = true
		}
	}
}

// readAction takes what limits packets. Of several redirections the first one
// counts that goes to a shaper: qosify has one more for DNS answers.
func readAction(action []byte, to *state.Qdisc, byIndex map[int]*state.Link) {
	var kind string
	var options []byte
	for typ, b := range attrs(action) {
		switch typ {
		case tcaActKind:
			kind = text(b)
		case tcaActOptions:
			options = b
		}
	}
	switch kind {
	case "police":
		to.Police = true
	case "mirred":
		target := redirectsTo(options)
		now := byIndex[to.Redirect]
		if target != 0 && (now == nil || now.Qdisc.Shaper == "") {
			to.Redirect = target
		}
	}
}

// redirectsTo is the device of a mirred action that redirects, 0 of another one.
// struct tc_mirred: five words that all actions have, then what it does and the device.
func redirectsTo(options []byte) int {
	for typ, b := range attrs(options) {
		if typ == tcaMirredParms && len(b) >= 28 && u32(b[20:]) == mirredEgressRedirect {
			return int(u32(b[24:]))
		}
	}
	return 0
}
