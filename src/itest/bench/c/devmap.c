// SPDX-License-Identifier: Apache-2.0

/*
 * The least that a forwarder in XDP can do, as the limit to compare with: every
 * frame gets the MAC addresses of mac[0] (destination, source) and leaves by the
 * device in slot 0; nothing else is looked at.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*bpf_redirect_map)(void *map, __u32 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;

struct mac {
	__u16 half[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32); /* ifindex */
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mac);
} mac SEC(".maps");

SEC("xdp")
int devmap(struct xdp_md *ctx)
{
	struct mac *to = (void *)(long)ctx->data, *from;
	__u32 zero = 0;

	from = bpf_map_lookup_elem(&mac, &zero);
	if (!from || (void *)(to + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	*to = *from;
	return bpf_redirect_map(&devices, 0, XDP_PASS);
}
