/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The ways of packets: what of them is kept from hop to hop. */
#ifndef MPPS_WAYS_H
#define MPPS_WAYS_H

#include "flow.h"
#include "tables.h"

/* from_way makes a packet's next hop begin where its way so far ended. */
static __always_inline void from_way(struct hop *h, const struct way *w)
{
	h->origin = w->origin;
	h->origin_queue = w->origin_queue;
	h->origin_dir = w->origin_dir;
	h->from = w->last;
	h->from_queue = w->last_queue;
	h->from_dir = w->last_dir;
	h->from_cpu = w->cpu;
}

/* first_sight makes a hop the first of its packet. */
static __always_inline void first_sight(struct hop *h)
{
	h->origin = h->from = h->to;
	h->origin_queue = h->from_queue = h->to_queue;
	h->origin_dir = h->from_dir = h->to_dir;
	h->from_cpu = NONE;
}

/* go_on keeps a hop as the last of its packet's way. */
static __always_inline void go_on(struct way *w, const struct hop *h, __u32 iif, __u32 len, __u64 head, __u32 left, __u64 flow, __u64 network,
				   __u64 now)
{
	w->origin = h->origin;
	w->origin_queue = h->origin_queue;
	w->origin_dir = h->origin_dir;
	w->last = h->to;
	w->last_queue = h->to_queue;
	w->last_dir = h->to_dir;
	w->cpu = h->cpu;
	w->iif = iif;
	w->len = len;
	w->head = head;
	w->left = left;
	w->flow = flow;
	w->network = network;
	w->at = now;
}

static __always_inline void remember(struct way *w, const struct sk_buff *skb, const struct hop *h, __u32 iif, __u32 len,
				     __u32 left, __u64 flow, __u64 network, __u64 now, int gso)
{
	__u64 address = (__u64)skb, head = (__u64)skb->head;
	struct way fresh = {};

	if (likely(w != 0)) {
		go_on(w, h, iif, len, head, left, flow, network, now);
	} else if (!left) {
		w = &fresh;
		go_on(w, h, iif, len, head, left, flow, network, now);
		bpf_map_update_elem(&ways, &address, w, BPF_ANY);
	}
	if (unlikely(gso && flow && !left))
		bpf_map_update_elem(&splits, &flow, w, BPF_ANY);
}

/* forget ends the way that was kept under a socket buffer's address: it is now a
 * packet that is not watched. */
static __always_inline void forget(const struct sk_buff *skb)
{
	__u64 address = (__u64)skb;
	struct way *w = bpf_map_lookup_elem(&ways, &address);

	if (w) {
		w->left = 1;
		w->head = 0;
	}
}

/* tag_of is the VLAN that stands beside a packet and not in it; 0 is none. */
static __always_inline __u64 tag_of(const struct sk_buff *skb)
{
	return skb->vlan_proto ? vlan(skb->vlan_tci) : 0;
}

/* sent_flow is the flow of a packet that is transmitted: within a tunnel that
 * of the packet inside, also where its headers are not known. */
static __always_inline __u64 sent_flow(const struct sk_buff *skb, struct inner *inner)
{
	const unsigned char *at = skb->head + skb->network_header;
	__u64 flow;

	inner->network = tag_of(skb);
	flow = flow_of(at, skb->len - skb->data_len - (at - skb->data), skb->protocol, inner);
	if (likely(!bit_field(skb, encapsulation)))
		return flow;
	at = skb->head + skb->inner_network_header;
	return flow_of(at, skb->len - skb->data_len - (at - skb->data), 0, inner) ?: flow & ~ONE_FLOW;
}

/* received_flow is the flow of a packet that a device hands to the stack. */
static __always_inline __u64 received_flow(const struct sk_buff *skb, struct inner *inner)
{
	inner->network = tag_of(skb);
	return flow_of(skb->data, skb->len - skb->data_len, skb->protocol, inner);
}

/* How many times longer a way is good for a packet that came in, or has got a
 * tunnel's headers: it may have waited in a full queue discipline. */
#define QUEUED 20

/* came_by tells whether a packet's skb_iif agrees with the last reception of a
 * way. A bond, a VLAN, a VRF and the like put their own number there without a
 * reception that can be seen (net/core/dev.c, __netif_receive_skb_core,
 * another_round); devices that hand packets to the stack themselves do not. */
static __always_inline int came_by(const struct way *w, __u32 iif)
{
	__u32 *flags;

	if (likely(w->iif == iif))
		return 1;
	flags = bpf_map_lookup_elem(&devices, &iif);
	return flags && !(*flags & RECEIVES);
}

/* known tells whether a packet that is transmitted is the one that a way was
 * kept for. A packet that came in has skb_iif set, and its reception was seen,
 * on that device; only a tunnel clears it (net/core/skbuff.c, skb_scrub_packet), and then the
 * last that was seen is the tunnel's own transmission. All else without skb_iif
 * is the host's own packet. Either may have got an old one's address: the data
 * must be where it was, or if it had to be moved the flow must be the same, and
 * the length may change by headers only. */
static __always_inline int known(const struct way *w, const struct sk_buff *skb, int iif, __u64 now)
{
	struct inner inner;
	__u32 grown;

	if (!w || w->left || !(iif ? came_by(w, iif) : w->last_dir == TX))
		return 0;
	if (now - w->at > (iif || skb->len > w->len ? QUEUED * cfg.stale : cfg.stale))
		return 0;
	grown = skb->len - w->len + 64;
	if (grown > 64 + 256)
		return 0;
	return likely(w->head == (__u64)skb->head) || (w->flow && w->flow == sent_flow(skb, &inner));
}

/* given_back tells whether a packet that a device hands to the stack did so before, and was sent through an ifb since
 * (drivers/net/ifb.c, ifb_ri_tasklet). Filters would send it there once more, but for a bit that nothing else sets. */
static __always_inline int given_back(const struct way *w, const struct sk_buff *skb, __u32 ifindex)
{
	if (likely(w && (w->left || w->last != ifindex || w->last_dir == TX)))
		return 0;
	return field_exists(struct sk_buff, tc_skip_classify) && bit_field(skb, tc_skip_classify);
}

/* again tells whether a packet that had left comes once more: the device had no
 * room for it (NETDEV_TX_BUSY). The host's own packets, which are often alike
 * down to their address, are not looked at. */
static __always_inline int again(const struct way *w, const struct sk_buff *skb, int iif, __u32 ifindex, __u64 now)
{
	return w && w->left && (iif || w->origin_dir == RX) && w->last == ifindex && w->head == (__u64)skb->head && w->len == skb->len &&
	       w->last_queue == skb->queue_mapping && now - w->at <= QUEUED * cfg.stale;
}

#endif
