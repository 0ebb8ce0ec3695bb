// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

/*
 * The XDP program of a port with an engine.
 *
 *   1. Is the port ours, and is the frame addressed to it?
 *   2. Parse. What is not plain TCP or UDP goes up.
 *   3. Find the flow. What has none, or doesn't fit its output, or whose output
 *      device is gone, goes up.
 *   4. Engine xdp: redirect to the output's device, rewrite.
 *      Engine afxdp: redirect to the socket of the receive queue, put the flow's
 *      name and the frame's layout in front of the frame.
 *
 * What would go up after 2, or without a flow, and comes from a source that the
 * drop list has, is dropped.
 *
 * "Up" is XDP_PASS with the frame as it came: the slow path can have everything
 * at any time. It also gets what nobody would take care of: engine xdp stops
 * when the daemon's tick does, a queue when its worker doesn't answer. A redirect
 * is only a note until the program ends with XDP_REDIRECT, so it comes first: it
 * tells whether the output is there before the frame is changed.
 *
 * What is read or written at every packet lies in memory that the daemon shares,
 * and the flow index is our own: neither needs a helper call, the daemon needs no
 * system call for a flow, and few cache lines are touched: one of the index, two
 * of the flow, one of each counter. Counters are per CPU and the program runs in softirq, so
 * nothing is atomic.
 */
#include "drop.h"
#include "rewrite.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader: bucket_mask + 1 */
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader: max_counts for each CPU */
	__type(key, __u32); /* CPU * max_counts + counter */
	__type(value, struct count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader: MAX_PORTS for each CPU */
	__type(key, __u32); /* CPU * MAX_PORTS + slot */
	__type(value, struct port_count);
} port_counts SEC(".maps");

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

/* Set by the loader: in jiffies, who knows HZ; the hash's secret; map sizes. */
const volatile __u32 tick_limit, queue_limit;
const volatile __u32 secret[sizeof(struct key) / 4];
const volatile __u32 bucket_mask, max_counts;

/*
 * hash is NH (UMAC, RFC 4418 section 5.2.2) with a secret of our own, so that
 * nobody can choose keys that meet in a bucket, and a multiplication that mixes
 * its bits. The same as in index.go.
 */
INLINE __u64 hash(const struct words *k, __u8 family)
{
#define NH(i, j) ((__u64)(__u32)(k->w[i] + secret[i]) * (__u32)(k->w[j] + secret[j]))
	__u64 h = NH(0, 1) + NH(2, 3) + NH(4, 5) + NH(6, 10);

	if (family == 6)
		h += NH(7, 11) + NH(8, 12) + NH(9, 13);
	return (h ^ h >> 32) * 0x9e3779b97f4a7c15ull;
}

INLINE const struct flow *look(const struct words *k, __u8 family, __u32 at, __u32 tag)
{
	const struct bucket *b = bpf_map_lookup_elem(&buckets, &at);
	const struct flow *flow;
	const __u32 *have;
	__u32 i = 0;

	if (!b)
		return 0;
#pragma unroll
	for (int way = 0; way < WAYS; way++) {
		if (b->way[way].tag == tag) {
			i = *(volatile __u32 *)&b->way[way].flow;
			break;
		}
	}
	if (!i--)
		return 0;
	flow = bpf_map_lookup_elem(&flows, &i);
	if (!flow)
		return 0;
	have = (const void *)&flow->key;
#pragma unroll
	for (int n = 0; n < sizeof(*k) / 4; n++)
		if ((n < 7 || n == 10 || family == 6) && k->w[n] != have[n])
			return 0;
	return flow;
}

/*
 * find returns the flow of a key, which is in one of two buckets. They may
 * change while we look, so the flow's own key decides. The flow itself can't: the
 * daemon uses its entry again only when all programs that may have seen its index
 * have ended.
 */
INLINE const struct flow *find(const struct words *k, __u8 family)
{
	__u64 h = hash(k, family);
	__u32 tag = (__u32)h | 1;
	const struct flow *flow = look(k, family, h >> 40 & bucket_mask, tag);

	return flow ? flow : look(k, family, h >> 16 & bucket_mask, tag);
}

/* Is the daemon alive? A CPU that sees its tick move notes it for all. */
INLINE int ticks(void)
{
	volatile struct control *c = &control;
	__u32 now = bpf_jiffies64(), n = c->tick;

	if (n != c->seen) {
		c->since = now;
		c->seen = n;
	}
	return n && now - c->since <= tick_limit;
}

/*
 * Does the queue's worker answer? It does if there is nothing to answer or its
 * answers moved within the limit. One receive queue is one CPU at a time, so
 * 32-bit counters that nobody else writes suffice. (In generic mode with RPS two
 * CPUs may lose a count: given then differs from taken by less than it should,
 * until the next packet.)
 */
INLINE int answers(struct queue *q, __u32 taken)
{
	__u32 now = bpf_jiffies64();

	if (taken != q->seen || (int)(q->given - taken) <= 0) {
		q->seen = taken;
		q->since = now;
	}
	return now - q->since <= queue_limit;
}

INLINE void count_flow(const struct flow *flow, __u32 bytes)
{
	__u32 i = bpf_get_smp_processor_id() * max_counts + flow->counter;
	struct count *c = bpf_map_lookup_elem(&counts, &i);

	if (c) {
		c->packets++;
		c->bytes += bytes;
	}
}

INLINE enum reason forward(struct xdp_md *ctx, const struct frame *f, const struct flow *flow, int *verdict)
{
	enum reason r;

	if (!ticks())
		return STALE;
	r = rewrite(ctx, f, &flow->action);
	if (r == FORWARD)
		*verdict = XDP_REDIRECT;
	return r;
}

/*
 * A worker that is a whole ring behind leaves no room: what is given to the
 * socket now is lost, after more work. It is lost at once instead, and doesn't go
 * up: the slow path would cost the CPU that the worker is waiting for.
 */
INLINE enum reason steer(struct xdp_md *ctx, const struct frame *f, __u32 slot, const struct flow *flow, int *verdict)
{
	__u32 i = slot * MAX_QUEUES + ctx->rx_queue_index, taken;
	struct layout *l;
	struct queue *q;
	void *meta;
	int others;

	if (ctx->rx_queue_index >= MAX_QUEUES || bpf_redirect_map(&sockets, i, XDP_PASS) != XDP_REDIRECT)
		return NO_OUTPUT;
	q = bpf_map_lookup_elem(&queues, &i);
	if (!q)
		return STALE;
	taken = *(volatile __u32 *)&q->taken;
	if (!answers(q, taken))
		return STALE;
	if (q->given - taken >= q->ring) {
		*verdict = XDP_DROP;
		return SHED;
	}
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
	l->family = f->family;
	l->proto = f->proto;
	l->pad1 = 0;
	l->len = f->len;
	COPY(l->pad2, (__u8[2]){}, 1);
	q->given++;
	*verdict = XDP_REDIRECT;
	return FORWARD;
}

INLINE enum reason judge(struct xdp_md *ctx, const struct port *in, struct frame *f, int *verdict)
{
	struct words k = {};
	enum reason r = parse(f, in, &k);
	const struct flow *flow = r == FORWARD ? find(&k, f->family) : 0;

	if (!flow) {
		if (r == FORWARD)
			r = NO_FLOW;
		/* The verifier would walk through the search once for each reason: it forgets which. */
		asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(r) : "r"((__u64)in->slot));
		if (!listed(f))
			return r;
		*verdict = XDP_DROP;
		return DROP_LIST;
	}
	if (f->len > flow->action.mtu)
		return TOO_BIG;
	if (bpf_redirect_map(&devices, flow->action.out, XDP_PASS) != XDP_REDIRECT)
		return NO_OUTPUT; /* a worker, too, could only drop it */
	if (flow->gen)
		r = steer(ctx, f, in->slot, flow, verdict);
	else
		r = forward(ctx, f, flow, verdict);
	if (r == FORWARD)
		count_flow(flow, f->len);
	return r;
}

/* find_port returns the slot of a device, or MAX_PORTS. */
INLINE __u32 find_port(__u32 ifindex)
{
#pragma unroll
	for (int i = 0; i < MAX_PORTS; i++)
		if (*(volatile __u32 *)&control.ports[i].ifindex == ifindex)
			return *(volatile __u16 *)&control.ports[i].port.slot; /* i, but the verifier forgets it */
	return MAX_PORTS;
}

SEC("xdp")
int fastpath(struct xdp_md *ctx)
{
	struct frame f = { .data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end };
	__u32 slot = find_port(ctx->ingress_ifindex), i;
	struct port_count *count;
	int verdict = XDP_PASS;
	enum reason r;

	if (slot >= MAX_PORTS)
		return XDP_PASS;
	r = judge(ctx, &control.ports[slot].port, &f, &verdict);
	i = bpf_get_smp_processor_id() * MAX_PORTS + slot;
	count = bpf_map_lookup_elem(&port_counts, &i);
	if (count && r < NUM_REASONS) {
		count->packets[r]++;
		if (r == FORWARD)
			count->bytes += f.len;
	}
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
