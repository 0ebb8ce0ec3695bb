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

/*
 * The header in front of a packet of len bytes whose TOS is tos: bare bytes of
 * layer 2, and a tunnel's outer header. 14 bytes and the shortest frame are known
 * to be there.
 */
INLINE int write_l2(void *data, void *end, __u32 bare, __u32 len, const struct action *a)
{
	__u32 more = bare - sizeof(struct ethhdr);
	void *tail;

	/* The header's end is at tail + 14. The verifier wants one pointer with constant, positive offsets. */
	asm volatile("" : "+r"(more));
	tail = data + (more & 0x1c);
	asm volatile("" : "+r"(tail));
	COPY(data, a->l2, sizeof(struct ethhdr) / 2);
	if (bare > sizeof(struct ethhdr)) {
#pragma unroll
		for (__u32 at = sizeof(struct ethhdr); at < MAX_BARE; at += 4)
			if (at < bare)
				COPY(data + at, a->l2 + at, 2);
	}
	if (a->encap & ENCAP_TUNNEL) {
		struct ipv6hdr *outer = tail + sizeof(struct ethhdr);
		struct ipv4hdr *inner = (void *)(outer + 1);
		__u8 ecn;

		if ((void *)(inner + 1) > end)
			return -1;
		COPY(outer, a->l2 + bare, sizeof(*outer) / 2);
		ecn = inner->tos & ECN_MASK; /* RFC 6040 section 4.1, as the kernel does it */
		outer->class |= (ecn == ECN_CE ? ECN_ECT0 : ecn) << 4;
		outer->len = be16((__u16)len);
		len += sizeof(*outer);
	}
	if (a->encap & ENCAP_PPPOE) {
		if (tail + sizeof(struct ethhdr) > end)
			return -1;
		*(__u16 *)(tail + sizeof(struct ethhdr) - 4) = be16((__u16)(len + 2)); /* the PPP protocol counts */
	}
	return 0;
}

/* Executes an action. After NO_ROOM the frame is as good as before. */
INLINE enum reason rewrite(struct xdp_md *ctx, const struct frame *f, const struct action *a)
{
	__u32 outer = a->encap & ENCAP_TUNNEL ? sizeof(struct ipv6hdr) : 0, len = f->len;
	/* 14, 18, 22, 26 or 30: so the verifier sees bounds and that l3 is even */
	__u32 bare = ((a->l2len - outer) & 0x1c) + 2;
	void *data, *end;

	if (bare < sizeof(struct ethhdr) || resize(ctx, f, bare + outer))
		return NO_ROOM;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + MIN_FRAME > end)
		return NO_ROOM; /* can't be, but the verifier wants to see it; so below */
	if (write_l2(data, end, bare, len, a))
		return NO_ROOM;
	return rewrite_l3(data + bare + outer, end, f->family, f->proto, a) ? NO_ROOM : FORWARD;
}
