/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Waits for the locks of transmit queues and their queue disciplines. */
#ifndef MPPS_LOCKS_H
#define MPPS_LOCKS_H

#include "tables.h"

struct lock {
	__u32 ifindex;
	__u16 queue; /* NONE: of the root queue discipline */
	__u16 kind;
	__u64 waits;
	__u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64); /* address */
	__type(value, struct lock);
} locks SEC(".maps");

struct wait {
	__u64 lock;
	__u64 since;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

static __always_inline void learn(__u64 address, __u32 ifindex, __u16 queue, __u16 kind)
{
	struct lock l = {.ifindex = ifindex, .queue = queue, .kind = kind};
	struct tally *t;

	if (bpf_map_update_elem(&locks, &address, &l, BPF_NOEXIST) != -E2BIG)
		return;
	t = my_tally();
	if (t)
		t->locks++;
}

/* The locks that a packet to this queue may wait for: netdev_queue._xmit_lock,
 * and of its queue discipline q.lock, busylock and seqlock. */
static __always_inline void learn_locks(const struct net_device *dev, __u32 ifindex, __u16 queue)
{
	__u64 tx = 0, qdisc = 0, root = 0;

	bpf_probe_read_kernel(&tx, sizeof(tx), &dev->_tx);
	bpf_probe_read_kernel(&root, sizeof(root), &dev->qdisc);
	if (!tx)
		return;
	tx += (__u64)queue * type_size(struct netdev_queue);
	learn(tx + field_offset(struct netdev_queue, _xmit_lock), ifindex, queue, XMIT);
	bpf_probe_read_kernel(&qdisc, sizeof(qdisc), (void *)(tx + field_offset(struct netdev_queue, qdisc)));
	if (!qdisc)
		return;
	if (qdisc == root)
		queue = NONE;
	learn(qdisc + field_offset(struct Qdisc, q.lock), ifindex, queue, QDISC);
	if (field_exists(struct Qdisc, busylock))
		learn(qdisc + field_offset(struct Qdisc, busylock), ifindex, queue, BUSY);
	if (field_exists(struct Qdisc, seqlock))
		learn(qdisc + field_offset(struct Qdisc, seqlock), ifindex, queue, SEQ);
}

/* contention_begin(void *lock, unsigned int flags): somebody begins to wait
 * (Linux 5.19). Of the locks here only one is waited for at a time on a CPU.
 * They run for every lock of the kernel, so their runs count as part of what
 * watching costs. */
SEC("tp_btf/contention_begin")
int waiting(__u64 *args)
{
	__u64 address = args[0];
	__u32 zero = 0;
	struct wait *w;
	struct tally *t = my_tally();

	if (t)
		t->waits++;
	if (stage != COUNTS || !bpf_map_lookup_elem(&locks, &address))
		return 0;
	w = bpf_map_lookup_elem(&waits, &zero);
	if (w) {
		w->lock = address;
		w->since = bpf_ktime_get_ns();
	}
	return 0;
}

/* contention_end(void *lock, int ret) */
SEC("tp_btf/contention_end")
int waited(__u64 *args)
{
	__u64 address = args[0];
	__u32 zero = 0;
	struct wait *w;
	struct lock *l;
	struct tally *t = my_tally();

	if (t)
		t->waits++;
	w = bpf_map_lookup_elem(&waits, &zero);
	if (!w || w->lock != address)
		return 0;
	w->lock = 0;
	l = bpf_map_lookup_elem(&locks, &address);
	if (l) {
		__sync_fetch_and_add(&l->waits, 1);
		__sync_fetch_and_add(&l->ns, bpf_ktime_get_ns() - w->since);
	}
	return 0;
}

#endif
