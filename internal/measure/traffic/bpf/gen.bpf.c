// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Packet generator: run by BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES,
 * once for each frame. One copy is loaded for each worker thread, so that the
 * state is plain memory with one writer: no lookup, no helper, no atomic.
 *
 * The kernel hands back recycled pages with whatever the last user wrote into
 * them (Documentation/bpf/bpf_prog_run.rst), so every header is rewritten.
 *
 * A program cannot end a run: when it has nothing more to send it drops, and
 * the process interrupts the call by a signal, which the kernel looks for after
 * each batch (net/bpf/test_run.c, bpf_test_timer_continue). */
#include "helpers.h"
#include "frame.h"

#define MAX_ORDER 64 /* powers of 2 */
#define MAX_SIZES 8

/* What differs with the size of a frame. */
struct size {
	__u64 head; /* bytes 16 to 23 of the frame: the length of the IPv4 packet is among them */
	__u64 udp;  /* as in config */
	__u32 ip_base, udp_base;
	__u32 cut;  /* bytes less than the largest */
	__u32 unused;
};

struct config {
	__u64 step_ns;   /* pacing: whole nanoseconds between bursts, with … */
	__u64 step_frac; /* … 2^-32 ns on top */
	__u64 catch_up_ns; /* how far behind the schedule may be caught up */
	__u32 burst;     /* frames sent when a burst is due */
	__u32 ip_base;   /* folded sum of the IPv4 header without the addresses */
	__u32 udp_base;  /* folded sum of what does not vary under the UDP checksum */
	__u32 src_first, src_count; /* host order */
	__u32 dst_first, dst_count;
	__u32 sport_first, sport_count;
	__u32 dport_first, dport_count;
	__u64 head[6];   /* the first 24 bytes as they are, of a single flow 48 */
	__u32 head_vlan; /* 4 more in front of the IPv4 checksum, with a tag */
	__u16 stream;    /* network order */
	__u8 paced, flows, vlan, stamp, udp_sum, drop;
	__u64 udp;       /* UDP length, no checksum, magic, as they are */
	__u32 shift_every; /* frames after which the order of sizes goes one further */
	__u32 order_count; /* 0: all frames are as large as what the run was given */
	__u8 order[MAX_ORDER]; /* indices into sizes, in turn */
	struct size sizes[MAX_SIZES];
};

const volatile struct config cfg = {};

/* The sequence number at which to stop, written from outside: 0 stops now. */
volatile __u64 limit = 0;

struct state {
	__u64 seq;     /* next sequence number = frames handed to the device */
	__u64 started; /* time of the first call, ns */
	__u64 ended;   /* time of the call that ended the run, ns */
	__u64 polls;   /* calls that sent nothing because no frame was due */
	__u64 slipped_ns; /* schedule given up, after being late beyond catch_up_ns */
	__u64 due;
	__u64 frac;
	__u64 tokens;
	__u64 gone;    /* the device was removed, which ended the run */
	__u32 src, dst, sport, dport; /* offsets into the ranges */
	__u32 at, since; /* position in the order of sizes, frames since it went one further */
};

struct state state = {};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u32)sum;
}

/* Step the odometer of flows: source port first, source address last. */
static __always_inline void next_flow(void)
{
	if (++state.sport < cfg.sport_count)
		return;
	state.sport = 0;
	if (++state.dport < cfg.dport_count)
		return;
	state.dport = 0;
	if (++state.dst < cfg.dst_count)
		return;
	state.dst = 0;
	if (++state.src < cfg.src_count)
		return;
	state.src = 0;
}

/* Step through the order of sizes: mix.go has the same. */
static __always_inline void next_size(void)
{
	state.at++;
	if (++state.since == cfg.shift_every) {
		state.since = 0;
		state.at++;
	}
	if (state.at >= cfg.order_count)
		state.at -= cfg.order_count;
}

/* Is a frame due? now is read only when the last burst is used up. */
static __always_inline int due(__u64 now)
{
	__u64 frac;

	if (!state.due)
		state.due = now;
	if (now < state.due) {
		state.polls++;
		return 0;
	}
	if (now - state.due > cfg.catch_up_ns) {
		state.slipped_ns += now - state.due;
		state.due = now;
	}
	frac = state.frac + cfg.step_frac;
	state.due += cfg.step_ns + (frac >> 32);
	state.frac = frac & 0xffffffff;
	state.tokens = cfg.burst;
	return 1;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 src, dst, sport, dport, stamp = 0;
	__u64 seq = state.seq, now = 0;
	__u64 head = cfg.head[2], udp = cfg.udp;
	__u32 ip_base = cfg.ip_base, udp_base = cfg.udp_base;
	void *p = data + ETHERTYPE_AT;

	if (data + ETHERTYPE_AT + L3_BYTES + (cfg.vlan ? VLAN_BYTES : 0) > data_end)
		return XDP_ABORTED;
	if (unlikely(seq >= limit)) {
		if (!state.ended) {
			now = bpf_ktime_get_ns();
			if (cfg.paced && state.due && now > state.due + cfg.catch_up_ns)
				state.slipped_ns += now - state.due;
			state.ended = now;
		}
		return XDP_DROP;
	}
	if (unlikely(!seq) && !state.started)
		state.started = bpf_ktime_get_ns();

	if (cfg.paced) {
		if (!state.tokens) {
			now = bpf_ktime_get_ns();
			if (!due(now))
				return XDP_DROP;
		}
		state.tokens--;
	}

	if (cfg.stamp) {
		if (!now)
			now = bpf_ktime_get_ns();
		stamp = (__u32)now;
		if (!stamp)
			stamp = 1;
	}
	if (cfg.order_count) {
		const volatile struct size *size = &cfg.sizes[cfg.order[state.at & (MAX_ORDER - 1)] & (MAX_SIZES - 1)];

		head = size->head;
		udp = size->udp;
		ip_base = size->ip_base;
		udp_base = size->udp_base;
		if (size->cut && bpf_xdp_adjust_tail(ctx, -(int)size->cut))
			return XDP_ABORTED;
		data = (void *)(long)ctx->data;
		data_end = (void *)(long)ctx->data_end;
		p = data + ETHERTYPE_AT;
		if (data + ETHERTYPE_AT + L3_BYTES + (cfg.vlan ? VLAN_BYTES : 0) > data_end)
			return XDP_ABORTED;
		next_size();
	}
	state.seq = seq + 1;

	((__u64 *)data)[0] = cfg.head[0];
	((__u64 *)data)[1] = cfg.head[1];
	((__u64 *)data)[2] = head;
	src = cfg.src_first;
	dst = cfg.dst_first;
	sport = cfg.sport_first;
	dport = cfg.dport_first;
	if (!cfg.flows && !cfg.vlan) {
		((__u64 *)data)[3] = cfg.head[3];
		((__u64 *)data)[4] = cfg.head[4];
		((__u64 *)data)[5] = cfg.head[5];
	} else {
		if (cfg.vlan) {
			p += VLAN_BYTES;
			*(__u32 *)(p + 8) = cfg.head_vlan;
		}
		src += state.src;
		dst += state.dst;
		sport += state.sport;
		dport += state.dport;
		next_flow();
		*(__u16 *)(p + AT_IPSUM) = ~htons((__u16)fold((__u64)ip_base + src + dst));
		*(__u32 *)(p + AT_SADDR) = htonl(src);
		*(__u32 *)(p + AT_DADDR) = htonl(dst);
		*(__u32 *)(p + AT_PORTS) = htonl(sport << 16 | dport);
		*(__u64 *)(p + AT_UDPLEN) = udp;
		*(__u16 *)(p + AT_STREAM) = cfg.stream;
	}
	if (cfg.udp_sum) {
		__u32 sum = fold((__u64)udp_base + src + dst + sport + dport +
				 (seq >> 32) + (seq & 0xffffffff) + stamp);

		/* RFC 768: a sum of zero is sent as all ones */
		*(__u16 *)(p + AT_UDPSUM) = sum == 0xffff ? 0xffff : ~htons((__u16)sum);
	}
	*(__u64 *)(p + AT_SEQ) = htonll(seq);
	*(__u32 *)(p + AT_STAMP) = htonl(stamp);

	if (cfg.drop)
		return XDP_DROP;
	if (unlikely(bpf_redirect_map(&out, 0, 0) != XDP_REDIRECT)) {
		state.seq = seq;
		state.gone = 1;
		limit = 0;
		return XDP_DROP;
	}
	return XDP_REDIRECT;
}

/* The same for the simplest of cases: a single flow of frames of one size, no
 * tag, no checksum, no time stamp, as fast as possible. What generate spends on
 * the choice between cases, in registers and on the stack, was a tenth of the
 * whole. */
SEC("xdp")
int plain(struct xdp_md *ctx)
{
	__u64 *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u64 seq = state.seq;

	if ((void *)data + ETHERTYPE_AT + L3_BYTES > data_end)
		return XDP_ABORTED;
	if (unlikely(seq >= limit)) {
		if (!state.ended)
			state.ended = bpf_ktime_get_ns();
		return XDP_DROP;
	}
	if (unlikely(!seq) && !state.started)
		state.started = bpf_ktime_get_ns();
	state.seq = seq + 1;
	data[0] = cfg.head[0];
	data[1] = cfg.head[1];
	data[2] = cfg.head[2];
	data[3] = cfg.head[3];
	data[4] = cfg.head[4];
	data[5] = cfg.head[5];
	*(__u64 *)((void *)data + ETHERTYPE_AT + AT_SEQ) = htonll(seq);
	*(__u32 *)((void *)data + ETHERTYPE_AT + AT_STAMP) = 0;
	if (cfg.drop)
		return XDP_DROP;
	if (likely(bpf_redirect_map(&out, 0, 0) == XDP_REDIRECT))
		return XDP_REDIRECT;
	state.seq = seq;
	state.gone = 1;
	limit = 0;
	return XDP_DROP;
}

/* For the far end of a veth pair, which drops every redirected frame unless
 * its receive path runs NAPI, which a program or GRO brings about
 * (drivers/net/veth.c, veth_xdp_xmit). */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
