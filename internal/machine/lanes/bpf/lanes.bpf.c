// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Carries the number of the queue that a guest has chosen from its tap to the
 * NIC: the tap's program writes the lane into skb->tc_index, which no bridge
 * and no tunnel touches, and the NIC's program turns it into the transmit
 * queue. A frame without a lane is left as it is: the kernel chooses.
 *
 * Both answer "next" (TCX_NEXT, TC_ACT_UNSPEC): all else runs too. "pass" makes
 * the class tc_index (net/core/dev.c, tcx_action_code): the class is set to the
 * lane too, and survives the "pass" of a tcx program; not that of a classifier
 * of clsact or ingress, which sets its own class, or none (tc_run). */
#include "helpers.h"

#define LANE_MAGIC 0xa500
#define LANE_MASK 0x00ff
#define NEXT (-1)

struct window {
	__u16 base, count;
	/* The device keeps the sender's transmit queue instead of recording a
	 * receive queue (veth): it counts from 0, not from 1. */
	__u32 unrecorded;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* taps; without BPF_F_NO_PREALLOC: an update takes no memory */
	__type(key, __u32);        /* ifindex */
	__type(value, struct window);
} windows SEC(".maps");

static __u32 (*bpf_get_hash_recalc)(struct __sk_buff *skb) = (void *)BPF_FUNC_get_hash_recalc;

SEC("tc")
int mpps_lane_tap(struct __sk_buff *skb)
{
	__u32 key = skb->ifindex, queue = skb->queue_mapping, lane;
	struct window *w = bpf_map_lookup_elem(&windows, &key);

	if (!w || !w->count)
		return NEXT;
	if (!w->unrecorded) {
		if (queue)
			queue--; /* skb_record_rx_queue adds 1 */
		else /* no queue was recorded: a flow keeps to one all the same */
			queue = bpf_get_hash_recalc(skb);
	}
	lane = LANE_MAGIC | ((w->base + queue % w->count) & LANE_MASK);
	skb->tc_index = lane;
	skb->tc_classid = lane;
	return NEXT;
}

SEC("tc")
int mpps_lane_nic(struct __sk_buff *skb)
{
	__u32 lane = skb->tc_index;

	if ((lane & ~LANE_MASK) != LANE_MAGIC)
		return NEXT;
	skb->tc_index = 0;
	skb->queue_mapping = (lane & LANE_MASK) + 1; /* as skb_record_rx_queue: 0 would be none */
	return NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
