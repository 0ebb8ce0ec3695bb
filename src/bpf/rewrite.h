/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rewriter: the same bytes as src/packet/rewrite.go. */
#pragma once

#include "parse.h"

/* RFC 1624, equation 3. The order of the bytes doesn't matter (RFC 1071). */
INLINE __u16 adjust(__u16 check, __u16 diff)
{
	__u32 sum = (__u16)~check + (__u32)diff;

	return ~(sum + (sum >> 16));
}

INLINE int rewrite_l4(void *l4, void *end, __u8 proto, const struct action *a)
{
	if (proto == TCP) {
		struct tcphdr *h = l4;

		if ((void *)(h + 1) > end)
			return -1;
		COPY(h->sport, a->sport, 2); /* and dport */
		h->check = adjust(h->check, a->l4diff);
	} else {
		struct udphdr *h = l4;

		if ((void *)(h + 1) > end)
			return -1;
		COPY(h->sport, a->sport, 2); /* and dport */
		if (h->check) { /* 0: the sender made none (RFC 768) */
			__u16 check = adjust(h->check, a->l4diff);

			h->check = check ? check : 0xffff;
		}
	}
	return 0;
}

INLINE int rewrite_l3(void *l3, void *end, __u8 family, __u8 proto, const struct action *a)
{
	if (family == 4) {
		struct ipv4hdr *h = l3;

		if ((void *)(h + 1) > end)
			return -1;
		h->ttl--;
		h->check = adjust(h->check, a->l3diff);
		COPY(h->src, a->src, 2);
		COPY(h->dst, a->dst, 2);
		return rewrite_l4(h + 1, end, proto, a);
	}

	struct ipv6hdr *h = l3;

	if ((void *)(h + 1) > end)
		return -1;
	h->hops--;
	COPY(h->src, a->src, 8);
	COPY(h->dst, a->dst, 8);
	return rewrite_l4(h + 1, end, proto, a);
}

/*
 * Cuts the padding off, fills up to the shortest frame (the kernel zeroes what it
 * adds), and moves the frame's first byte to where the new layer 2 header begins.
 * The tail goes first: if the rest then fails, only padding behind the packet (and
 * behind PPPoE, see parse()) was changed, and the kernel can still have the frame.
 */
INLINE int resize(struct xdp_md *ctx, const struct frame *f, int l2len)
{
	int have = f->end - f->data, used = f->l3 + f->len;
	int fill = MIN_FRAME - l2len - (int)f->len, delta = (int)f->l3 - l2len;

	if (used != have && bpf_xdp_adjust_tail(ctx, used - have))
		return -1;
	if (fill > 0 && bpf_xdp_adjust_tail(ctx, fill))
		return -1;
	return delta && bpf_xdp_adjust_head(ctx, delta) ? -1 : 0;
}

/* Executes an action. After NO_ROOM the frame is as good as before. */
INLINE enum reason rewrite(struct xdp_md *ctx, const struct frame *f, __u8 family, __u8 proto,
			   const struct action *a)
{
	/* 14, 18, 22, 26 or 30: so the verifier sees bounds and that l3 is even */
	__u32 l2len = (a->l2len & 0x1c) + 2, len = f->len;
	void *data, *end, *l3;

	if (l2len < sizeof(struct ethhdr) || resize(ctx, f, l2len))
		return NO_ROOM;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + MIN_FRAME > end)
		return NO_ROOM; /* can't be, but the verifier wants to see it; so below */
	COPY(data, a->l2, sizeof(struct ethhdr) / 2);
#pragma unroll
	for (__u32 at = sizeof(struct ethhdr); at < MAX_L2; at += 4) {
		if (at < l2len)
			COPY(data + at, a->l2 + at, 2);
		if (at + 4 == l2len && a->pppoe)
			*(__u16 *)(data + at) = be16((__u16)(len + 2)); /* the PPP protocol counts */
	}
	l3 = data + l2len;
	return rewrite_l3(l3, end, family, proto, a) ? NO_ROOM : FORWARD;
}
