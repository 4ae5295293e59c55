/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What the programs and their Go side share: stages, rows, and what is kept of
 * packets under way. */
#ifndef MPPS_TABLES_H
#define MPPS_TABLES_H

#include "kernel.h"

enum { RX, TX };
enum { OFF, JOINS, COUNTS };
enum { TERMINAL = 1, MANY_RX = 2, MANY_TX = 4, SKIP = 8, RECEIVES = 16, GIVES_BACK = 32 };
enum { XMIT, QDISC, BUSY, SEQ };

#define NONE 0xffff /* no queue, no CPU */
#define SHARED (~0U) /* a flow that turned out to be many */
#define E2BIG 7     /* a table is full */

struct config {
	__u32 netns; /* inode of the network namespace */
	__u32 stale; /* jiffies after which a socket buffer's address is taken for a new packet's */
	__u64 lltx;  /* of net_device.features, before Linux 6.12 */
};

const volatile struct config cfg = {};
volatile __u32 stage = OFF;

/* One hop, as the rows are counted. The CPU stands in it, so that a row is
 * written by one CPU only and needs neither atomics nor copies: packets are
 * handled with bottom halves off, so that nothing comes between on that CPU
 * (but see the limits in docs/queue-path.md for PREEMPT_RT). */
struct hop {
	__u32 origin, from, to; /* ifindex */
	__u16 origin_queue, from_queue, to_queue;
	__u16 from_cpu, cpu;
	__u8 origin_dir, from_dir; /* the direction of to is that of the program */
	__u8 to_dir, pad[3];
};

struct row {
	__u64 frames;
	__u64 packets;
	__u64 bytes;
	__u64 moves;
	__u32 thread;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct hop);
	__type(value, struct row);
} rows SEC(".maps");

/* A packet that is on its way through the host. */
struct way {
	__u32 origin, last; /* ifindex */
	__u16 origin_queue, last_queue, cpu;
	__u8 origin_dir, last_dir;
	__u32 iif;  /* ifindex of the last device that handed it to the stack */
	__u32 len;  /* with the Ethernet header */
	__u32 left; /* by a device behind which nothing follows */
	__u64 head; /* address of the data */
	__u64 flow;
	__u64 network; /* that the flow's addresses are of */
	__u64 at;      /* jiffies */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64); /* address of the socket buffer */
	__type(value, struct way);
} ways SEC(".maps");

/* The ways of frames that may be cut into several, by flow. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct way);
} splits SEC(".maps");

struct place {
	__u64 flow;
	__u32 ifindex;
	__u32 dir;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place);
	__type(value, __u32); /* queue, or SHARED */
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); /* ifindex */
	__type(value, __u32);
} devices SEC(".maps");

/* What the kernel's own structure tells of a device that packets were seen on. */
struct told {
	__u32 tx_queues, rx_queues;
	__u32 lockless;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); /* ifindex */
	__type(value, struct told);
} tellings SEC(".maps");

struct tally {
	__u64 seen;    /* runs of the two programs that see packets */
	__u64 waits;   /* and of the two that see waits */
	__u64 rows;    /* frames without room for their row */
	__u64 joins;   /* frames whose way so far is not known */
	__u64 unknown; /* frames on devices that are not in the table */
	__u64 locks;   /* locks without room */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

static __always_inline struct tally *my_tally(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tallies, &zero);
}

#endif
