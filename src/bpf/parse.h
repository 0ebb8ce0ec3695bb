/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parser: the same checks in the same order as src/packet/parse.go.
 *
 * Headers are accessed by 16-bit words: wherever a driver puts the frame's
 * first byte, IP addresses may be off a multiple of 4, and MIPS and old ARM trap
 * on that. Each offset is a constant on each of the program's paths, which is
 * all the verifier has to know.
 */
#pragma once

#include "shared.h"

#define WIRE __attribute__((packed, aligned(2)))

struct ethhdr {
	__u8 dst[6], src[6];
	__u16 type;
} WIRE;

struct vlanhdr {
	__u8 tci[2];
	__u16 type;
} WIRE;

struct pppoehdr {
	__u8 vertype, code;
	__u8 session[2];
	__u16 len;
	__u16 proto;
} WIRE;

struct ipv4hdr {
	__u8 verihl, tos;
	__u16 len, id, frag;
	__u8 ttl, proto;
	__u16 check;
	__u8 src[4], dst[4];
} WIRE;

struct ipv6hdr {
	__u8 ver, flow[3];
	__u16 len;
	__u8 next, hops;
	__u8 src[16], dst[16];
} WIRE;

struct udphdr {
	__u8 sport[2], dport[2];
	__u16 len;
	__u16 check;
} WIRE;

struct tcphdr {
	__u8 sport[2], dport[2];
	__u16 seq[2], ack[2];
	__u8 off, flags;
	__u16 window, check, urgent;
} WIRE;

enum { TCP = 6, UDP = 17 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, QINQ = 0x88a8, PPPOE = 0x8864 };
enum { PPP_IPV4 = 0x0021, PPP_IPV6 = 0x0057 };
enum { TAGGED = 0x10, TAGGED_QINQ = 0x20 };

/* What of a frame is known; kept in registers. */
struct frame {
	void *data, *end;
	__u32 l3;	/* offset of the IP header */
	__u32 limit;	/* offset of the end of what may hold the IP packet */
	__u32 len;	/* of the IP packet */
};

/* Copies 2n bytes. Both sides lie at even addresses. */
#define COPY(dst, src, n)                                                      \
	_Pragma("unroll") for (int i_ = 0; i_ < (n); i_++)                     \
		((__u16 *)(dst))[i_] = ((const __u16 *)(src))[i_]

INLINE int same_mac(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const void *)a, *y = (const void *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

INLINE enum reason parse_pppoe(struct frame *f, struct key *k)
{
	struct ethhdr *eth = f->data;
	struct pppoehdr *h = f->data + f->l3;
	__u32 total = f->end - f->data, limit;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	COPY(k->session, h->session, 1);
	COPY(k->peer, eth->src, 3);
	if (h->vertype != 0x11 || h->code != 0 || (k->session[0] | k->session[1]) == 0)
		return NOT_IP;
	if (h->proto == be16(PPP_IPV4))
		k->family = 4;
	else if (h->proto == be16(PPP_IPV6))
		k->family = 6;
	else
		return NOT_IP;
	limit = f->l3 + 6 + be16(h->len);
	if (limit > total)
		return LENGTH;
	f->limit = limit;
	f->l3 += sizeof(*h);
	return FORWARD;
}

INLINE enum reason parse_l2(struct frame *f, struct key *k)
{
	struct ethhdr *eth = f->data;
	__u16 type = eth->type;

	f->l3 = sizeof(*eth);
	f->limit = f->end - f->data;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		struct vlanhdr *h = f->data + f->l3;

		if (type != be16(VLAN) && type != be16(QINQ))
			break;
		if ((void *)(h + 1) > f->end)
			return TRUNCATED;
		k->tags[i][0] = (h->tci[0] & 0x0f) | TAGGED | (type == be16(QINQ) ? TAGGED_QINQ : 0);
		k->tags[i][1] = h->tci[1];
		type = h->type;
		f->l3 += sizeof(*h);
	}
	if (type == be16(IPV4))
		k->family = 4;
	else if (type == be16(IPV6))
		k->family = 6;
	else if (type == be16(PPPOE))
		return parse_pppoe(f, k);
	else
		return NOT_IP;
	return FORWARD;
}

INLINE enum reason parse_ipv4(struct frame *f, struct key *k)
{
	struct ipv4hdr *h = f->data + f->l3;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	f->len = be16(h->len);
	if (h->verihl >> 4 != 4)
		return NOT_IP;
	if ((h->verihl & 0x0f) < 5 || f->l3 + f->len > f->limit)
		return LENGTH;
	if ((h->verihl & 0x0f) > 5)
		return OPTIONS;
	if (h->frag & be16(0x3fff)) /* MF and the offset */
		return FRAGMENT;
	if (h->ttl <= 1)
		return TTL;
	if (h->proto != TCP && h->proto != UDP)
		return OTHER_L4;
	if (f->len < sizeof(*h))
		return LENGTH;
	COPY(k->src, h->src, 2);
	COPY(k->dst, h->dst, 2);
	k->proto = h->proto;
	return FORWARD;
}

INLINE enum reason parse_ipv6(struct frame *f, struct key *k)
{
	struct ipv6hdr *h = f->data + f->l3;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	f->len = sizeof(*h) + be16(h->len);
	if (h->ver >> 4 != 6)
		return NOT_IP;
	if (f->l3 + f->len > f->limit || f->len > 0xffff)
		return LENGTH;
	if (h->next == 44)
		return FRAGMENT;
	if (h->next == 0 || h->next == 43 || h->next == 60) /* hop-by-hop, routing, destination options */
		return OPTIONS;
	if (h->hops <= 1)
		return TTL;
	if (h->next != TCP && h->next != UDP)
		return OTHER_L4;
	COPY(k->src, h->src, 8);
	COPY(k->dst, h->dst, 8);
	k->proto = h->next;
	return FORWARD;
}

INLINE enum reason parse_tcp(struct frame *f, struct key *k, void *l4, __u32 left)
{
	struct tcphdr *h = l4;
	__u32 len;

	if (left < sizeof(*h) || (void *)(h + 1) > f->end)
		return LENGTH;
	len = (h->off >> 4) * 4;
	if (len < sizeof(*h) || len > left)
		return LENGTH;
	if (h->flags & 0x07) /* FIN, SYN, RST */
		return FLAGS;
	COPY(k->sport, h->sport, 2); /* and dport */
	return FORWARD;
}

INLINE enum reason parse_udp(struct frame *f, struct key *k, void *l4, __u32 left)
{
	struct udphdr *h = l4;

	if (left < sizeof(*h) || (void *)(h + 1) > f->end)
		return LENGTH;
	if (be16(h->len) < sizeof(*h) || be16(h->len) > left)
		return LENGTH;
	COPY(k->sport, h->sport, 2); /* and dport */
	return FORWARD;
}

INLINE enum reason parse(struct frame *f, const struct port *in, struct key *k)
{
	struct ethhdr *eth = f->data;
	enum reason r;
	__u32 hdr;
	void *l4;

	if ((void *)(eth + 1) > f->end)
		return TRUNCATED;
	if (eth->dst[0] & 1)
		return MULTICAST;
	if (!same_mac(eth->dst, in->mac[0]) && !same_mac(eth->dst, in->mac[1]))
		return NOT_OURS;
	k->port = in->slot;
	r = parse_l2(f, k);
	if (r != FORWARD)
		return r;
	r = k->family == 4 ? parse_ipv4(f, k) : parse_ipv6(f, k);
	if (r != FORWARD)
		return r;
	if ((k->session[0] | k->session[1]) && f->l3 + f->len != f->limit)
		return LENGTH; /* padding inside PPPoE: resize() could not undo its cut, and the kernel drops what is short */
	hdr = k->family == 4 ? sizeof(struct ipv4hdr) : sizeof(struct ipv6hdr);
	l4 = f->data + f->l3 + hdr;
	if (k->proto == TCP)
		return parse_tcp(f, k, l4, f->len - hdr);
	return parse_udp(f, k, l4, f->len - hdr);
}
