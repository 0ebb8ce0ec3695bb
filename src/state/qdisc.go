// SPDX-License-Identifier: Apache-2.0

package state

// Qdisc is what traffic control (tc) does with a link's packets, as far as a
// faster path could pass it by.
type Qdisc struct {
	Root string // the root qdisc's kind: noqueue, mq, fq_codel, cake, …; "": not told
	// Shaper is the kind of the qdisc that limits what the link sends because its
	// owner said so: the root or, below mq and its like, the first that does. "": none does.
	Shaper string
	// Direct: what the link sends passes an empty qdisc by unqueued
	// (TCQ_F_CAN_BYPASS, net/sched), so that early_ingress hands it whole bulks.
	Direct bool
	// Redirect is the index of the device, an ifb, by which packets go that the
	// link receives (tc ingress, action mirred); 0: none does.
	Redirect int
	// Police: tc ingress limits what the link receives (action police).
	Police bool
	// Classify: a BPF program at tc ingress sees what the link receives, and may
	// set its DSCP or priority.
	Classify bool
}
