/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The drop list: whose packets are dropped that would go up. (No flow has a source
 * that is listed, so what is forwarded isn't looked up.) The list are ranges of
 * addresses, sorted, with a gap between any two, in an array for each family that
 * the daemon exchanges as a whole. Unlike a trie it needs no memory but theirs.
 */
#pragma once

#include "parse.h"

/* A map of one map of ranges. (clang leaves the types that a map in a map has out of BTF.) */
#define DROP_LIST_OF(range)                                                    \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                      \
		__uint(max_entries, 1);                                        \
		__type(key, __u32);                                            \
		__type(value, __u32);                                          \
		__array(values, struct {                                       \
			__uint(type, BPF_MAP_TYPE_ARRAY);                      \
			__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);   \
			__uint(max_entries, 1); /* set by the daemon */        \
			__uint(key_size, 4);                                   \
			__uint(value_size, sizeof(range));                     \
		});                                                            \
	}

DROP_LIST_OF(struct range4) drop4 SEC(".maps");
DROP_LIST_OF(struct range6) drop6 SEC(".maps");

struct control control;

/* The 64 bits at an address as a number. */
INLINE __u64 wide(const void *at)
{
	return (__u64)be32(word(at)) << 32 | be32(word(at + 4));
}

INLINE int not_above(const __u64 *a, const __u64 *b)
{
	return a[0] < b[0] || (a[0] == b[0] && a[1] <= b[1]);
}

/*
 * The search: n ranges are known to begin at or below the address, of which the last
 * one is best. half is at first the highest power of two that isn't above the number
 * of ranges. One that is too high, while the list is exchanged, only takes more
 * steps: behind the end there is no entry.
 */
INLINE int listed4(__u32 addr, __u64 half)
{
	const struct range4 *r, *best = 0;
	__u64 n = 0;
	__u32 i = 0;
	void *list = bpf_map_lookup_elem(&drop4, &i);

	if (!list)
		return 0;
	for (; half; half >>= 1) {
		i = n + half - 1;
		r = bpf_map_lookup_elem(list, &i);
		if (r && r->first <= addr) {
			n += half;
			best = r;
		}
	}
	return best && addr <= best->last;
}

INLINE int listed6(const __u64 *addr, __u64 half)
{
	const struct range6 *r, *best = 0;
	__u64 n = 0;
	__u32 i = 0;
	void *list = bpf_map_lookup_elem(&drop6, &i);

	if (!list)
		return 0;
	for (; half; half >>= 1) {
		i = n + half - 1;
		r = bpf_map_lookup_elem(list, &i);
		if (r && not_above(r->first, addr)) {
			n += half;
			best = r;
		}
	}
	return best && not_above(addr, best->last);
}

/* Is the source in the list of the header that the parser has come to, if to any? */
INLINE int listed(const struct frame *f)
{
	volatile struct control *c = &control;

	if (f->family == 4) {
		struct ipv4hdr *h = f->data + f->l3;
		__u32 half = c->half4 & MAX_RANGES;

		return half && (void *)(h + 1) <= f->end && listed4(be32(word(h->src)), half);
	}
	if (f->family == 6) {
		struct ipv6hdr *h = f->data + f->l3;
		__u32 half = c->half6 & MAX_RANGES;

		return half && (void *)(h + 1) <= f->end && listed6((__u64[2]){wide(h->src), wide(h->src + 8)}, half);
	}
	return 0;
}
