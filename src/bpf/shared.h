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

#define MAX_L2 30
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
	TOO_BIG,
	STALE,
	NO_OUTPUT,
	NO_ROOM,
	NUM_REASONS,
};

enum engine { ENGINE_XDP = 1, ENGINE_AFXDP = 2 };

struct key {
	__u8 src[16], dst[16];
	__u8 sport[2], dport[2];
	__u8 tags[2][2];
	__u8 session[2];
	__u8 peer[6];
	__u16 port;
	__u8 proto;
	__u8 family;
};

struct action {
	__u16 out;
	__u16 mtu;
	__u16 l3diff, l4diff; /* in wire order, as the checksums they are added to */
	__u8 l2len;
	__u8 pppoe;
	__u8 l2[MAX_L2];
	__u8 sport[2], dport[2];
	__u8 src[16], dst[16];
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

/* A flow. The key stands here again: see find(). */
struct flow {
	struct key key;
	__u32 index, gen; /* for the worker, untouched */
	__u32 engine;
	struct action action;
};

/*
 * How far a receive queue's worker is. The first line is the program's, the
 * second one the worker's, who answers by copying given to taken.
 */
struct queue {
	__u32 given;	/* packets handed to the socket */
	__u32 seen;	/* taken, when it last moved */
	__u32 since;	/* jiffies: when it last moved, or when there was nothing to answer */
	__u8 pad1[52];
	__u32 taken;
	__u8 pad2[60];
};

/* When this CPU saw the daemon's tick move. */
struct tick {
	__u32 seen;
	__u32 since; /* jiffies */
};

_Static_assert(sizeof(struct key) == 52, "packet.Key");
_Static_assert(sizeof(struct action) == 76, "packet.Action");
_Static_assert(sizeof(struct meta) == 16, "packet.MetaLen");
_Static_assert(sizeof(struct port) == 16, "packet.Port");
_Static_assert(sizeof(struct flow) == 140, "PutFlow");
_Static_assert(sizeof(struct queue) == 128 && __builtin_offsetof(struct queue, taken) == 64, "Queue");
