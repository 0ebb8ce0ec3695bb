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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TUNNELS);
	__type(key, struct endpoints);
	__type(value, __u32); /* id */
} tunnels SEC(".maps");

#define WIRE __attribute__((packed, aligned(2)))

struct ethhdr {
	__u8 dst[6], src[6];
	__u16 type;
} WIRE;

struct vlanhdr {
	__u16 tci, type;
} WIRE;

struct pppoehdr {
	__u8 vertype, code;
	__u16 session, len;
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
	__u8 ver, class, flow[2];
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

enum { IPV4_IN_IPV6 = 4, TCP = 6, UDP = 17 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, QINQ = 0x88a8, PPPOE = 0x8864 };
enum { PPP_IPV4 = 0x0021, PPP_IPV6 = 0x0057 };
enum { TAGGED = 0x1000, TAGGED_QINQ = 0x2000 };
enum { ECN_MASK = 3, ECN_ECT0 = 2, ECN_CE = 3 };

/* What of a frame is known. */
struct frame {
	void *data, *end;
	__u32 l3;	/* offset of the IP header, of a tunnel the inner one */
	__u32 limit;	/* offset of the end of what may hold the IP packet */
	__u32 len;	/* of the IP packet */
	__u8 family, proto;
	__u16 tunnel;	/* id; 0: none */
	__u8 exact;	/* the IP packet must end at limit */
};

/*
 * A key under construction, as the words of struct key. They are put together in
 * registers: 16-bit stores that are read as 32 bits make the CPU wait.
 */
struct words {
	__u32 w[sizeof(struct key) / 4];
};

#define WORD(field) (__builtin_offsetof(struct key, field) / 4)

/* The word whose first two bytes in memory are a, whose last two are b; the same of single bytes. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PAIR(a, b) ((__u32)(a) | (__u32)(b) << 16)
#define BYTES(a, b) ((__u32)(a) | (__u32)(b) << 8)
#else
#define PAIR(a, b) ((__u32)(a) << 16 | (__u32)(b))
#define BYTES(a, b) ((__u32)(a) << 24 | (__u32)(b) << 16)
#endif

INLINE __u32 word(const void *at)
{
	const __u16 *half = at;

	return PAIR(half[0], half[1]);
}

/* Copies 2n bytes. Both sides lie at even addresses. */
#define COPY(dst, src, n)                                                      \
	_Pragma("unroll") for (int i_ = 0; i_ < (n); i_++)                     \
		((__u16 *)(dst))[i_] = ((const __u16 *)(src))[i_]

INLINE int same_mac(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const void *)a, *y = (const void *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

INLINE enum reason parse_pppoe(struct frame *f, struct words *k)
{
	struct ethhdr *eth = f->data;
	struct pppoehdr *h = f->data + f->l3;
	__u32 total = f->end - f->data, limit;
	const __u16 *peer = (void *)eth->src;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	if (h->vertype != 0x11 || h->code != 0 || h->session == 0)
		return NOT_IP;
	k->w[WORD(session)] = PAIR(h->session, peer[0]);
	k->w[WORD(session) + 1] = PAIR(peer[1], peer[2]);
	if (h->proto == be16(PPP_IPV4))
		f->family = 4;
	else if (h->proto == be16(PPP_IPV6))
		f->family = 6;
	else
		return NOT_IP;
	limit = f->l3 + 6 + be16(h->len);
	f->l3 += sizeof(*h);
	if (limit > total)
		return LENGTH;
	f->limit = limit;
	f->exact = 1;
	return FORWARD;
}

/* Reads a tag, if there is one; type is what comes next. */
INLINE enum reason parse_tag(struct frame *f, __u16 *type, __u16 *tag)
{
	struct vlanhdr *h = f->data + f->l3;

	if (*type != be16(VLAN) && *type != be16(QINQ))
		return FORWARD;
	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	*tag = (h->tci & be16(0x0fff)) | be16(TAGGED) | (*type == be16(QINQ) ? be16(TAGGED_QINQ) : 0);
	*type = h->type;
	f->l3 += sizeof(*h);
	return FORWARD;
}

INLINE enum reason parse_l2(struct frame *f, struct words *k)
{
	struct ethhdr *eth = f->data;
	__u16 type = eth->type, outer = 0, inner = 0;

	f->l3 = sizeof(*eth);
	f->limit = f->end - f->data;
	if (type != be16(IPV4) && type != be16(IPV6)) {
		if (parse_tag(f, &type, &outer) != FORWARD || parse_tag(f, &type, &inner) != FORWARD)
			return TRUNCATED;
		k->w[WORD(tags)] = PAIR(outer, inner);
	}
	if (type == be16(IPV4))
		f->family = 4;
	else if (type == be16(IPV6))
		f->family = 6;
	else if (type == be16(PPPOE))
		return parse_pppoe(f, k);
	else
		return NOT_IP;
	return FORWARD;
}

/* The outer header of a tunnel; see parseTunnel in src/packet/parse.go. */
INLINE enum reason parse_tunnel(struct frame *f, const struct ipv6hdr *h)
{
	__u32 end = f->l3 + sizeof(*h) + be16(h->len);
	struct endpoints ends;
	const __u32 *id;

	if (h->ver >> 4 != 6)
		return NOT_IP;
	if (end > f->limit || (f->exact && end != f->limit))
		return LENGTH;
	COPY(&ends, h->src, sizeof(ends) / 2); /* and dst */
	id = bpf_map_lookup_elem(&tunnels, &ends);
	if (!id)
		return OTHER_L4;
	if ((h->class >> 4 & ECN_MASK) == ECN_CE)
		return OPTIONS;
	f->tunnel = *id;
	f->family = 4;
	f->l3 += sizeof(*h);
	f->limit = end;
	f->exact = 1;
	return FORWARD;
}

INLINE enum reason parse_ipv4(struct frame *f, struct words *k)
{
	struct ipv4hdr *h = f->data + f->l3;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	f->len = be16(h->len);
	if (h->verihl != 0x45) {
		if (h->verihl >> 4 != 4)
			return NOT_IP;
		if ((h->verihl & 0x0f) < 5 || f->l3 + f->len > f->limit)
			return LENGTH;
		return OPTIONS;
	}
	if (f->l3 + f->len > f->limit)
		return LENGTH;
	if (h->frag & be16(0x3fff)) /* MF and the offset */
		return FRAGMENT;
	if (h->ttl <= 1)
		return TTL;
	f->proto = h->proto;
	if (f->proto != TCP && f->proto != UDP)
		return OTHER_L4;
	if (f->len < sizeof(*h))
		return LENGTH;
	k->w[WORD(src)] = word(h->src);
	k->w[WORD(dst)] = word(h->dst);
	return FORWARD;
}

INLINE enum reason parse_ipv6(struct frame *f, struct words *k)
{
	struct ipv6hdr *h = f->data + f->l3;

	if ((void *)(h + 1) > f->end)
		return TRUNCATED;
	f->len = sizeof(*h) + be16(h->len);
	if (h->ver >> 4 != 6)
		return NOT_IP;
	if (f->l3 + f->len > f->limit || f->len > 0xffff)
		return LENGTH;
	f->proto = h->next;
	if (f->proto == 44)
		return FRAGMENT;
	if (f->proto == 0 || f->proto == 43 || f->proto == 60) /* hop-by-hop, routing, destination options */
		return OPTIONS;
	if (h->hops <= 1)
		return TTL;
	if (f->proto != TCP && f->proto != UDP)
		return OTHER_L4;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		k->w[WORD(src) + i] = word(h->src + 4 * i);
		k->w[WORD(dst) + i] = word(h->dst + 4 * i);
	}
	return FORWARD;
}

INLINE enum reason parse_tcp(struct frame *f, struct words *k, void *l4, __u32 left)
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
	k->w[WORD(sport)] = word(h->sport); /* and dport */
	return FORWARD;
}

INLINE enum reason parse_udp(struct frame *f, struct words *k, void *l4, __u32 left)
{
	struct udphdr *h = l4;

	if (left < sizeof(*h) || (void *)(h + 1) > f->end)
		return LENGTH;
	if (be16(h->len) < sizeof(*h) || be16(h->len) > left)
		return LENGTH;
	k->w[WORD(sport)] = word(h->sport); /* and dport */
	return FORWARD;
}

/* What lies behind layer 2, and behind a tunnel's outer header. */
INLINE enum reason parse_ip(struct frame *f, struct words *k)
{
	enum reason r;

	if (f->family == 6) {
		struct ipv6hdr *h = f->data + f->l3;

		if ((void *)(h + 1) <= f->end && h->next == IPV4_IN_IPV6) {
			r = parse_tunnel(f, h);
			if (r != FORWARD)
				return r;
		}
	}
	r = f->family == 4 ? parse_ipv4(f, k) : parse_ipv6(f, k);
	if (r != FORWARD)
		return r;
	if (f->exact && f->l3 + f->len != f->limit)
		return LENGTH; /* padding inside: resize() could not undo its cut, and the kernel drops what is short */
	return FORWARD;
}

INLINE enum reason parse(struct frame *f, const struct port *in, struct words *k)
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
	r = parse_l2(f, k);
	if (r == FORWARD)
		r = parse_ip(f, k);
	if (r != FORWARD)
		return r;
	k->w[WORD(port)] = PAIR(in->slot, f->tunnel);
	k->w[WORD(proto)] = BYTES(f->proto, f->family);
	hdr = f->family == 4 ? sizeof(struct ipv4hdr) : sizeof(struct ipv6hdr);
	l4 = f->data + f->l3 + hdr;
	if (f->proto == TCP)
		return parse_tcp(f, k, l4, f->len - hdr);
	return parse_udp(f, k, l4, f->len - hdr);
}
