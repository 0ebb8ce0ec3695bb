// SPDX-License-Identifier: Apache-2.0

/*
 * The least that a forwarder over AF_XDP can do, as the limit to compare with:
 * copy mode, queue 0 of two devices, one UMEM, one thread. What comes in by
 * either device leaves by the other one with the MAC addresses given; nothing
 * else is looked at. Only system calls: no libbpf, no libxdp.
 *
 *   l2fwd DEVICE0 SRC0 DST0 DEVICE1 SRC1 DST1
 *
 * SRCn and DSTn are the MAC addresses of frames that leave by DEVICEn. It says
 * "ready" when it forwards, and ends when its standard input does. It needs a
 * real-time priority (chrt -f 1), as our workers have, or NAPI starves it.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAME 2048
#define RING 2048
#define BURST 64
#define FRAMES (4 * RING) /* two devices, each with its rx and tx ring full */

struct ring {
	uint32_t *producer, *consumer, *flags;
	void *slots;
};

struct port {
	int fd;
	unsigned int ifindex;
	uint8_t mac[12]; /* destination, source */
	struct ring fill, rx, tx, done;
};

static uint8_t *umem;
static struct port ports[2];
static uint64_t spare[FRAMES];
static unsigned int spares;

static void die(const char *what)
{
	fprintf(stderr, "l2fwd: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct ring map_ring(int fd, off_t at, const struct xdp_ring_offset *off, size_t slot)
{
	uint8_t *m = mmap(NULL, off->desc + RING * slot, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, at);

	if (m == MAP_FAILED)
		die("map a ring");
	return (struct ring){ (uint32_t *)(m + off->producer), (uint32_t *)(m + off->consumer),
			      (uint32_t *)(m + off->flags), m + off->desc };
}

static void open_port(struct port *p, const struct port *first)
{
	struct xdp_umem_reg reg = { .addr = (uintptr_t)umem, .len = (uint64_t)FRAMES * FRAME, .chunk_size = FRAME };
	struct sockaddr_xdp to = { .sxdp_family = AF_XDP, .sxdp_ifindex = p->ifindex,
				   .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP };
	static const int rings[] = { XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING };
	struct xdp_mmap_offsets off;
	socklen_t size = sizeof(off);
	int slots = RING;

	p->fd = socket(AF_XDP, SOCK_RAW, 0);
	if (p->fd < 0)
		die("socket");
	if (!first && setsockopt(p->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)))
		die("register the UMEM");
	for (int i = 0; i < 4; i++)
		if (setsockopt(p->fd, SOL_XDP, rings[i], &slots, sizeof(slots)))
			die("size of a ring");
	if (getsockopt(p->fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &size))
		die("offsets of the rings");
	p->fill = map_ring(p->fd, XDP_UMEM_PGOFF_FILL_RING, &off.fr, sizeof(uint64_t));
	p->done = map_ring(p->fd, XDP_UMEM_PGOFF_COMPLETION_RING, &off.cr, sizeof(uint64_t));
	p->rx = map_ring(p->fd, XDP_PGOFF_RX_RING, &off.rx, sizeof(struct xdp_desc));
	p->tx = map_ring(p->fd, XDP_PGOFF_TX_RING, &off.tx, sizeof(struct xdp_desc));
	if (first) {
		to.sxdp_flags = XDP_SHARED_UMEM;
		to.sxdp_shared_umem_fd = first->fd;
	}
	if (bind(p->fd, (struct sockaddr *)&to, sizeof(to)))
		die("bind");
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* steer attaches a program that hands all of queue 0 to the port's socket. */
static void steer(const struct port *p)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1 };
	int fd = bpf(BPF_MAP_CREATE, &map);
	uint32_t zero = 0;
	union bpf_attr put = { .map_fd = fd, .key = (uintptr_t)&zero, .value = (uintptr_t)&p->fd };
	struct bpf_insn program[] = {
		/* r1 = the map; r2 = rx_queue_index; r3 = XDP_PASS; bpf_redirect_map */
		{ .code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index) },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = fd },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)program,
				.insn_cnt = sizeof(program) / sizeof(*program), .license = (uintptr_t) "Apache-2.0",
				.expected_attach_type = BPF_XDP };
	union bpf_attr link = { .link_create = { .target_ifindex = p->ifindex, .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE } };
	int prog;

	if (fd < 0 || bpf(BPF_MAP_UPDATE_ELEM, &put))
		die("put the socket into the map");
	prog = bpf(BPF_PROG_LOAD, &load);
	if (prog < 0)
		die("load the program");
	link.link_create.prog_fd = prog;
	if (bpf(BPF_LINK_CREATE, &link) < 0)
		die("attach the program");
}

#define LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

static void reap(struct port *p)
{
	uint32_t from = *p->done.consumer, to = LOAD(p->done.producer);

	for (; from != to; from++)
		spare[spares++] = ((uint64_t *)p->done.slots)[from % RING] & ~(uint64_t)(FRAME - 1);
	STORE(p->done.consumer, to);
}

static void refill(struct port *p)
{
	uint32_t at = *p->fill.producer, room = RING - (at - LOAD(p->fill.consumer));

	for (; room && spares; room--)
		((uint64_t *)p->fill.slots)[at++ % RING] = spare[--spares];
	STORE(p->fill.producer, at);
}

/* forward moves a burst, and drops what the tx ring has no room for. */
static unsigned int forward(struct port *in, struct port *out)
{
	uint32_t from = *in->rx.consumer, n = LOAD(in->rx.producer) - from;
	uint32_t at = *out->tx.producer, room = RING - (at - LOAD(out->tx.consumer));

	if (n > BURST)
		n = BURST;
	for (uint32_t i = 0; i < n; i++) {
		struct xdp_desc d = ((struct xdp_desc *)in->rx.slots)[(from + i) % RING];

		if (!room) {
			spare[spares++] = d.addr & ~(uint64_t)(FRAME - 1);
			continue;
		}
		memcpy(umem + d.addr, out->mac, sizeof(out->mac));
		d.options = 0;
		((struct xdp_desc *)out->tx.slots)[at++ % RING] = d;
		room--;
	}
	STORE(in->rx.consumer, from + n);
	STORE(out->tx.producer, at);
	/* The kernel sends a few tens for each call. */
	while (n && LOAD(out->tx.consumer) != at) {
		uint32_t before = LOAD(out->tx.consumer);

		sendto(out->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
		reap(out);
		if (LOAD(out->tx.consumer) == before)
			break;
	}
	refill(in);
	return n;
}

static void parse_mac(uint8_t *mac, const char *s)
{
	if (sscanf(s, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) {
		errno = EINVAL;
		die(s);
	}
}

int main(int argc, char **argv)
{
	struct pollfd wait[3];

	if (argc != 7) {
		fprintf(stderr, "usage: l2fwd DEVICE0 SRC0 DST0 DEVICE1 SRC1 DST1\n");
		return 1;
	}
	umem = mmap(NULL, (size_t)FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (umem == MAP_FAILED)
		die("map the UMEM");
	while (spares < FRAMES) {
		spare[spares] = (uint64_t)spares * FRAME;
		spares++;
	}
	for (int i = 0; i < 2; i++) {
		ports[i].ifindex = if_nametoindex(argv[1 + 3 * i]);
		if (!ports[i].ifindex)
			die(argv[1 + 3 * i]);
		parse_mac(ports[i].mac + 6, argv[2 + 3 * i]);
		parse_mac(ports[i].mac, argv[3 + 3 * i]);
		open_port(&ports[i], i ? &ports[0] : NULL);
		refill(&ports[i]);
		steer(&ports[i]);
		wait[i] = (struct pollfd){ .fd = ports[i].fd, .events = POLLIN };
	}
	wait[2] = (struct pollfd){ .fd = STDIN_FILENO } /* POLLHUP */;
	if (puts("ready") < 0 || fflush(stdout))
		die("standard output");
	while (!wait[2].revents)
		if (forward(&ports[0], &ports[1]) + forward(&ports[1], &ports[0]) == 0)
			poll(wait, 3, 1000);
	return 0;
}
