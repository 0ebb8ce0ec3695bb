// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

/*
 * The XDP program of a port with an engine.
 *
 *   1. Is the port ours, and is the frame addressed to it?
 *   2. Parse. What is not plain TCP or UDP goes up.
 *   3. Find the flow. What has none, or doesn't fit its output, or whose output
 *      device is gone, goes up.
 *   4. Engine xdp: rewrite, redirect to the output's device.
 *      Engine afxdp: put the flow's name and the frame's layout in front of the
 *      frame, redirect to the socket of the receive queue.
 *
 * "Up" is XDP_PASS with the frame as it came: the slow path can have everything
 * at any time. It also gets what nobody would take care of: engine xdp stops
 * when the daemon's tick does, a queue when its worker doesn't answer.
 *
 * Counters are per CPU and the program runs in softirq, so nothing is atomic.
 */
#include "rewrite.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32); /* ifindex */
	__type(value, struct port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct key);
	__type(value, __u32); /* index in flows */
} flow_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32); /* slot */
	__type(value, __u32); /* ifindex */
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_PORTS * MAX_QUEUES);
	__type(key, __u32); /* slot * MAX_QUEUES + queue */
	__type(value, __u32); /* socket */
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_PORTS * MAX_QUEUES);
	__type(key, __u32); /* slot * MAX_QUEUES + queue */
	__type(value, struct queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32); /* the daemon counts it up each second while there are flows */
} tick SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tick);
} tick_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS * NUM_REASONS);
	__type(key, __u32); /* slot * NUM_REASONS + reason */
	__type(value, __u64); /* packets */
} counters SEC(".maps");

/* In jiffies; set by the loader, who knows HZ. */
const volatile __u32 tick_limit, queue_limit;

/*
 * find returns the flow of a key. An element of a hash map may be freed and
 * used for another flow while we look at it, so the flow's own key decides. The
 * entry in flows can't change under us: the loader uses it again only when all
 * programs that may have seen its index have ended.
 */
INLINE const struct flow *find(const struct key *k)
{
	const __u32 *i = bpf_map_lookup_elem(&flow_index, k), *x, *y;
	const struct flow *flow;

	if (!i)
		return 0;
	flow = bpf_map_lookup_elem(&flows, i);
	if (!flow)
		return 0;
	x = (const void *)k;
	y = (const void *)&flow->key;
#pragma unroll
	for (int n = 0; n < sizeof(*k) / 4; n++)
		if (x[n] != y[n])
			return 0;
	return flow;
}

/* Is the daemon alive? Each CPU sees for itself. */
INLINE int ticks(void)
{
	__u32 zero = 0, now = bpf_jiffies64();
	const volatile __u32 *count = bpf_map_lookup_elem(&tick, &zero);
	struct tick *t = bpf_map_lookup_elem(&tick_seen, &zero);
	__u32 n;

	if (!count || !t)
		return 0;
	n = *count;
	if (n != t->seen) {
		t->seen = n;
		t->since = now;
	}
	return now - t->since <= tick_limit;
}

/*
 * Does the queue's worker answer? It does if there is nothing to answer or its
 * answers moved within the limit. One receive queue is one CPU at a time, so
 * 32-bit counters that nobody else writes suffice. (In generic mode with RPS two
 * CPUs may lose a count: given then differs from taken by less than it should,
 * until the next packet.)
 */
INLINE int answers(struct queue *q)
{
	__u32 now = bpf_jiffies64(), taken = *(volatile __u32 *)&q->taken;

	if (taken != q->seen || (int)(q->given - taken) <= 0) {
		q->seen = taken;
		q->since = now;
	}
	return now - q->since <= queue_limit;
}

INLINE enum reason redirect(struct xdp_md *ctx, const struct frame *f, const struct key *k,
			    const struct action *a, int *verdict)
{
	enum reason r;

	if (!ticks())
		return STALE;
	r = rewrite(ctx, f, k->family, k->proto, a);
	if (r == FORWARD) /* a port that went this very moment: what is rewritten must not go up */
		*verdict = bpf_redirect_map(&devices, a->out, XDP_DROP);
	return r;
}

INLINE enum reason steer(struct xdp_md *ctx, const struct frame *f, const struct key *k,
			 const struct flow *flow, int *verdict)
{
	__u32 i = k->port * MAX_QUEUES + ctx->rx_queue_index;
	struct layout *l;
	struct queue *q;
	void *meta;
	int others;

	if (ctx->rx_queue_index >= MAX_QUEUES || !bpf_map_lookup_elem(&sockets, &i))
		return NO_OUTPUT;
	q = bpf_map_lookup_elem(&queues, &i);
	if (!q || !answers(q))
		return STALE;
	/* The worker looks right in front of the frame: what others left there makes way. */
	others = (void *)(long)ctx->data - (void *)(long)ctx->data_meta;
	if (bpf_xdp_adjust_meta(ctx, others - (int)sizeof(struct meta)))
		return NO_ROOM;
	meta = (void *)(long)ctx->data_meta;
	if (meta + sizeof(struct meta) > (void *)(long)ctx->data)
		return NO_ROOM;
	COPY(meta, &flow->index, 4); /* and gen */
	l = meta + __builtin_offsetof(struct meta, layout);
	l->l3 = f->l3;
	l->family = k->family;
	l->proto = k->proto;
	l->pad1 = 0;
	l->len = f->len;
	COPY(l->pad2, (__u8[2]){}, 1);
	q->given++;
	*verdict = bpf_redirect_map(&sockets, i, XDP_PASS);
	return FORWARD;
}

INLINE enum reason judge(struct xdp_md *ctx, const struct port *in, int *verdict)
{
	struct frame f = { .data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	struct key k __attribute__((aligned(8))) = {};
	enum reason r = parse(&f, in, &k);
	const struct flow *flow;
	__u32 out;

	if (r != FORWARD)
		return r;
	flow = find(&k);
	if (!flow)
		return NO_FLOW;
	if (f.len > flow->action.mtu)
		return TOO_BIG;
	out = flow->action.out;
	if (!bpf_map_lookup_elem(&devices, &out)) /* a worker could only drop it */
		return NO_OUTPUT;
	if (flow->engine == ENGINE_XDP)
		return redirect(ctx, &f, &k, &flow->action, verdict);
	return steer(ctx, &f, &k, flow, verdict);
}

SEC("xdp")
int fastpath(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex, slot;
	const struct port *in = bpf_map_lookup_elem(&ports, &ifindex);
	int verdict = XDP_PASS;
	__u64 *count;

	if (!in)
		return XDP_PASS;
	slot = in->slot * NUM_REASONS;
	slot += judge(ctx, in, &verdict);
	count = bpf_map_lookup_elem(&counters, &slot);
	if (count)
		*count += 1;
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
