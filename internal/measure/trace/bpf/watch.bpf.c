// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Counts from which queue of which device to which queue of which device
 * packets go. Each packet is seen where a device hands it to the stack
 * (netif_receive_skb) and where the stack hands it to a device
 * (net_dev_start_xmit); the address of its socket buffer joins the two. */
#include "locks.h"
#include "ways.h"

static __always_inline int lockless(const struct net_device *dev)
{
	if (!field_exists(struct net_device, lltx))
		return (dev->features & cfg.lltx) != 0;
	return bit_field(dev, lltx) != 0;
}

/* first_row is what is done once for each row: the rest of the cost of a hop is
 * that of every packet. */
static __always_inline struct row *first_row(const struct hop *h, const struct net_device *dev)
{
	struct row empty = {};
	struct told t = {.tx_queues = dev->real_num_tx_queues, .rx_queues = dev->real_num_rx_queues, .lockless = lockless(dev)};
	__u32 ifindex = h->to;

	if (bpf_map_update_elem(&rows, h, &empty, BPF_NOEXIST))
		return 0;
	bpf_map_update_elem(&tellings, &ifindex, &t, BPF_ANY);
	if (h->to_dir == TX)
		learn_locks(dev, ifindex, h->to_queue);
	return bpf_map_lookup_elem(&rows, h);
}

/* segments is how many packets a frame is on the wire; gso tells whether it is
 * one of those that are cut. What a guest sends has a size and no number, which
 * the kernel works out later (include/linux/virtio_net.h). */
static __always_inline __u32 segments(const struct sk_buff *skb, int *gso)
{
	const unsigned char *shared = skb->head + skb->end;
	__u32 header, type = 0;
	__u16 size = 0, n = 0;
	__u8 words = 8 / 4 << 4;

	bpf_probe_read_kernel(&size, sizeof(size), shared + field_offset(struct skb_shared_info, gso_size));
	*gso = size != 0;
	if (likely(!size))
		return 1;
	bpf_probe_read_kernel(&n, sizeof(n), shared + field_offset(struct skb_shared_info, gso_segs));
	if (n)
		return n;
	header = bit_field(skb, encapsulation) ? skb->inner_transport_header : skb->transport_header;
	bpf_probe_read_kernel(&type, sizeof(type), shared + field_offset(struct skb_shared_info, gso_type));
	if (!(type & (SKB_GSO_UDP | SKB_GSO_UDP_L4))) /* TCP has its length behind 12 bytes, in words of four */
		bpf_probe_read_kernel(&words, 1, skb->head + header + 12);
	header += (words >> 4) * 4;
	header -= skb->data - skb->head;
	return skb->len <= header ? 1 : (skb->len - header + size - 1) / size;
}

static __always_inline int moved(const struct sk_buff *skb, __u64 flow, __u32 ifindex, __u32 dir, __u32 queue)
{
	struct place p = {.flow = flow, .ifindex = ifindex, .dir = dir};
	__u32 *last = bpf_map_lookup_elem(&flows, &p);

	if (likely(last != 0)) {
		struct inner inner = {};

		if (likely(*last == queue || *last == SHARED))
			return 0;
		if ((dir == TX ? sent_flow(skb, &inner) : received_flow(skb, &inner)) & ONE_FLOW &&
		    (out_of_reach(inner.at, inner.have, inner.protocol) || hides_flows(&inner))) {
			*last = SHARED;
			return 0;
		}
		*last = queue;
		return 1;
	}
	bpf_map_update_elem(&flows, &p, &queue, BPF_ANY);
	return 0;
}

/* count counts a hop. Two guests may have the same addresses: whose flow it is
 * that changes its queue, the origin tells. */
static __always_inline void count(struct hop *h, const struct sk_buff *skb, const struct net_device *dev,
				  __u64 flow, __u64 network, __u32 flags, __u32 bytes, __u32 packets, struct tally *t)
{
	int moves = 0;
	struct row *r;

	if (flow & ONE_FLOW && flags & (h->to_dir == TX ? MANY_TX : MANY_RX))
		moves = moved(skb, mix(mix(flow, network), h->origin), h->to, h->to_dir, h->to_queue);
	if (stage != COUNTS)
		return;
	r = bpf_map_lookup_elem(&rows, h);
	if (unlikely(!r)) {
		r = first_row(h, dev);
		if (!r) {
			t->rows++;
			return;
		}
	}
	r->frames++;
	r->packets += packets;
	r->bytes += bytes;
	r->moves += moves;
	if (h->from_cpu == NONE)
		r->thread = (__u32)bpf_get_current_pid_tgid();
}

/* netif_receive_skb(struct sk_buff *skb) */
SEC("tp_btf/netif_receive_skb")
int received(__u64 *args)
{
	const struct sk_buff *skb = (void *)args[0];
	const struct net_device *dev;
	struct tally *t;
	struct hop h = {};
	struct way *w;
	__u64 address = (__u64)skb, now, flow, network;
	struct inner inner;
	__u32 *flags, ifindex, packets, len;
	int gso;

	if (stage == OFF)
		return 0;
	t = my_tally();
	if (!t)
		return 0;
	t->seen++;
	dev = skb->dev;
	if (dev->nd_net.net->ns.inum != cfg.netns) {
		forget(skb);
		return 0;
	}
	ifindex = dev->ifindex;
	flags = bpf_map_lookup_elem(&devices, &ifindex);
	if (unlikely(!flags)) {
		t->unknown++;
		forget(skb);
		return 0;
	}
	if (*flags & SKIP) {
		forget(skb);
		return 0;
	}

	h.to = ifindex;
	h.to_queue = skb->queue_mapping - 1; /* 0 is "none recorded": NONE */
	h.to_dir = RX;
	h.cpu = bpf_get_smp_processor_id();
	now = bpf_jiffies64();
	/* Anew at each device: behind a tunnel it is another flow. */
	flow = received_flow(skb, &inner);
	network = inner.network;
	packets = segments(skb, &gso);

	w = bpf_map_lookup_elem(&ways, &address);
	if (given_back(w, skb, ifindex))
		return 0;
	/* What a device with a wire or a guest behind it hands over is new
	 * here, whatever its address was before. */
	if (*flags & TERMINAL || !w || w->left || now - w->at > cfg.stale || (w->head != (__u64)skb->head && (!flow || w->flow != flow)))
		first_sight(&h);
	else
		from_way(&h, w);
	len = skb->len + (skb->data - skb->head) - skb->mac_header;
	count(&h, skb, dev, flow, network, *flags, len, packets, t);
	remember(w, skb, &h, ifindex, len, 0, flow, network, now, gso);
	return 0;
}

/* net_dev_start_xmit(const struct sk_buff *skb, const struct net_device *dev) */
SEC("tp_btf/net_dev_start_xmit")
int transmitted(__u64 *args)
{
	const struct sk_buff *skb = (void *)args[0];
	const struct net_device *dev = (void *)args[1];
	struct tally *t;
	struct hop h = {};
	struct way *w, *split = 0;
	__u64 address = (__u64)skb, now, flow, network;
	struct inner inner;
	__u32 *flags, ifindex, packets;
	int iif, gso, same;

	if (stage == OFF)
		return 0;
	t = my_tally();
	if (!t)
		return 0;
	t->seen++;
	if (dev->nd_net.net->ns.inum != cfg.netns) {
		forget(skb);
		return 0;
	}
	ifindex = dev->ifindex;
	flags = bpf_map_lookup_elem(&devices, &ifindex);
	if (unlikely(!flags)) {
		t->unknown++;
		forget(skb);
		return 0;
	}
	if (*flags & SKIP) {
		forget(skb);
		return 0;
	}

	h.to = ifindex;
	h.to_queue = skb->queue_mapping;
	h.to_dir = TX;
	h.cpu = bpf_get_smp_processor_id();
	now = bpf_jiffies64();
	iif = skb->skb_iif;
	packets = segments(skb, &gso);

	w = bpf_map_lookup_elem(&ways, &address);
	same = known(w, skb, iif, now);
	if (likely(same)) {
		from_way(&h, w);
		flow = w->flow;
		network = w->network;
	} else {
		if (again(w, skb, iif, ifindex, now))
			return 0;
		flow = sent_flow(skb, &inner);
		network = inner.network;
		/* Cut on the way, where the device below cannot: the pieces
		 * have the flow of the whole, and addresses of their own. */
		if (flow)
			split = bpf_map_lookup_elem(&splits, &flow);
		if (split && now - split->at <= cfg.stale && !(split->last == ifindex && split->last_dir == TX)) {
			from_way(&h, split);
		} else if (iif) { /* came in before it was watched, or is a copy */
			if (stage == COUNTS)
				t->joins++;
			first_sight(&h);
			h.origin = h.from = iif;
			h.origin_queue = h.from_queue = NONE;
			h.origin_dir = h.from_dir = RX;
		} else {
			first_sight(&h);
		}
	}
	count(&h, skb, dev, flow, network, *flags, skb->len, packets, t);
	if (*flags & GIVES_BACK) /* its way goes on where it was */
		return 0;
	if (!same && *flags & TERMINAL) { /* whose way was kept is gone, and so is this one */
		if (w) {
			w->left = 1;
			w->head = 0;
		}
		return 0;
	}
	remember(w, skb, &h, iif, skb->len, *flags & TERMINAL, flow, network, now, gso);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
