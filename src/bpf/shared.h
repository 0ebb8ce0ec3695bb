/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the program shares with user space. The Go side of key, action, layout,
 * meta, port and reason is src/packet, where they are explained; of flow, queue
 * and the limits it is this package. What is on the wire is kept as bytes in
 * wire order. Tests compare sizes and offsets.
 */
#pragma once

#include "bpf.h"

#define MAX_PORTS 32
#define MAX_QUEUES 16 /* receive queues of a port */
#define MAX_TUNNELS 16
#define MAX_RANGES 0x1ffff /* of a family in the drop list; the verifier walks through each step of a search */
#define WAYS 8 /* flows of a bucket */

#define MAX_BARE 30 /* Ethernet, two VLAN tags, PPPoE */
#define MAX_L2 70   /* and a tunnel's outer header */
#define MIN_FRAME 60

enum reason {
	FORWARD,
	TRUNCATED,
	MULTICAST,
	NOT_OURS,
	NOT_IP,
	LENGTH,
	FRAGMENT,
	OPTIONS,
	TTL,
	OTHER_L4,
	FLAGS,
	NO_FLOW,
	DROP_LIST,
	TOO_BIG,
	STALE,
	NO_OUTPUT,
	NO_ROOM,
	SHED,
	NUM_REASONS,
};

struct key {
	__u8 sport[2], dport[2];
	__u8 tags[2][2];
	__u8 session[2];
	__u8 peer[6];
	__u16 port;
	__u16 tunnel;
	__u8 proto;
	__u8 family;
	__u8 pad[2];
	__u8 src[16], dst[16];
};

/* What is in front of a packet that leaves, behind Ethernet and VLANs. */
enum encap { ENCAP_PPPOE = 1, ENCAP_TUNNEL = 2 };

struct action {
	__u16 out;
	__u16 mtu;
	__u16 l3diff, l4diff; /* in wire order, as the checksums they are added to */
	__u8 l2len;
	__u8 encap;
	__u8 sport[2], dport[2];
	__u8 src[16], dst[16];
	__u8 l2[MAX_L2];
};

struct layout {
	__u8 l3;
	__u8 family;
	__u8 proto;
	__u8 pad1;
	__u16 len;
	__u8 pad2[2];
};

struct meta {
	__u32 index, gen;
	struct layout layout;
};

struct port {
	__u8 mac[2][6];
	__u16 slot;
	__u8 pad[2];
};

/*
 * A flow. The key stands here again: see find(). IPv4 behind plain Ethernet needs the
 * first two cache lines.
 */
struct flow {
	struct key key;
	__u32 index, gen; /* for the worker, untouched; gen 0: engine xdp */
	__u32 counter;	  /* in counts */
	struct action action;
	__u8 pad[8];
};

/* A bucket of the flow index: a cache line. */
struct bucket {
	struct {
		__u32 tag;  /* of the key's hash; 0: none */
		__u32 flow; /* index in flows + 1; 0: none */
	} way[WAYS];
};

struct count {
	__u64 packets, bytes;
};

/* What a port's packets became; bytes of those that were forwarded or steered. */
struct port_count {
	__u64 packets[NUM_REASONS];
	__u64 bytes;
	__u64 pad[5]; /* no cache line belongs to two CPUs */
};

/* Source addresses, both ends included, as numbers; of IPv6 the upper half first. */
struct range4 {
	__u32 first, last;
};

struct range6 {
	__u64 first[2], last[2];
};

struct endpoints {
	__u8 remote[16], local[16];
};

/*
 * How far a receive queue's worker is. The first line is the program's, the
 * second one the worker's, who answers by copying given to taken.
 */
struct queue {
	__u32 given;	/* packets handed to the socket */
	__u32 seen;	/* taken, when it last moved */
	__u32 since;	/* jiffies: when it last moved, or when there was nothing to answer */
	__u32 ring;	/* slots of the socket's receive ring; the daemon's */
	__u8 pad1[48];
	__u32 taken;
	__u8 pad2[60];
};

/* The daemon's page: what it writes and the program reads at every packet. */
struct control {
	__u32 tick;	   /* counted up each second while there are flows */
	__u32 seen, since; /* the program's: tick, and the jiffies when it last moved */
	__u32 half4, half6; /* of the drop list: see drop.h; 0: empty */
	struct {
		__u32 ifindex; /* 0: none */
		struct port port;
	} ports[MAX_PORTS]; /* by slot */
};

_Static_assert(sizeof(struct key) == 56, "packet.Key");
_Static_assert(sizeof(struct action) == 116, "packet.Action");
_Static_assert(sizeof(struct meta) == 16, "packet.MetaLen");
_Static_assert(sizeof(struct port) == 16, "packet.Port");
_Static_assert(sizeof(struct flow) == 192, "PutFlow");
_Static_assert(sizeof(struct port_count) == 192, "Counters");
_Static_assert(sizeof(struct range4) == 8 && sizeof(struct range6) == 32, "SetDrop");
_Static_assert(sizeof(struct queue) == 128 && __builtin_offsetof(struct queue, taken) == 64, "Queue");
