// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Sink: counts test frames by stream and, from their sequence numbers, loss,
 * duplicates and reordering; optionally a histogram of one-way delay. What is
 * not a test frame passes on to the stack: ARP and the control connection
 * share the interface.
 *
 * State is per CPU and per stream. The memory of which sequence numbers have
 * arrived is a ring of words, each {epoch : 32, bits : 32}: a word of an older
 * epoch counts as empty, so that a gap of any size costs nothing to cross. */
#include "helpers.h"
#include "frame.h"

#define WORDS 1024 /* ring of 32 bit sets: a memory of 32768 sequence numbers */
#define WORD_BITS 15 /* log2(WORDS * 32) */
#define WINDOW (WORDS * 32 - 32)
#define CLOCK_EVERY 32 /* frames for one reading of the clock, a power of 2 */

/* Histogram: as HdrHistogram with 256 sub-buckets, unit 1 ns, up to 2^32 ns. */
#define SUB_BITS 8
#define HIST_BUCKETS (256 + 24 * 128)

/* A stamp of another CPU's clock may be ahead of ours by a little: delay 0. */
#define CLOCK_SLACK 1000000

struct config {
	__u32 stream_first, stream_count;
	__u8 latency;    /* keep the histogram */
	__u8 pass_match; /* let test frames continue to the stack */
	__u8 drop_other; /* drop what is not a test frame but for ARP, TCP and ICMP */
	__u8 pktgen;     /* count pktgen's frames too … */
	__u8 unnumbered; /* … whose numbers repeat */
};

const volatile struct config cfg = {};

struct stream {
	__u64 received, bytes; /* bytes with FCS */
	__u64 duplicated, reordered, too_late, stamped;
	__u64 first, next; /* first sequence number to arrive, highest + 1 */
	__u64 first_ns, last_ns, spanned; /* spanned frames came in between */
};

/* Apart from the counters, so that reading those copies 88 bytes a CPU. */
struct window {
	__u64 words[WORDS];
};

struct other {
	__u64 other;   /* frames that are not test frames */
	__u64 foreign; /* test frames of streams that are not counted here */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16); /* set to stream_count before loading */
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16); /* as streams */
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct other);
} others SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set to HIST_BUCKETS when latency is kept */
	__type(key, __u32);
	__type(value, __u64);
} histogram SEC(".maps");




static __always_inline int pass_other(int foreign, __u16 type, __u8 proto)
{
	__u32 zero = 0;
	struct other *o = bpf_map_lookup_elem(&others, &zero);

	if (o) {
		if (foreign)
			o->foreign++;
		else
			o->other++;
	}
	if (!cfg.drop_other || type == htons(ETHERTYPE_ARP) ||
	    (type == htons(ETHERTYPE_IPV4) && (proto == 6 || proto == 1)))
		return XDP_PASS;
	return XDP_DROP;
}

static __always_inline void record_delay(__u32 stamp)
{
	__u32 v = (__u32)bpf_ktime_get_ns() - stamp;
	__u32 e = 0, x, index;
	__u64 *n;

	if (v > 0xffffffff - CLOCK_SLACK)
		v = 0;
	x = v >> SUB_BITS;
	/* e = position of the highest set bit above the sub-bucket bits */
	if (x >= 1u << 16) { x >>= 16; e += 16; }
	if (x >= 1u << 8) { x >>= 8; e += 8; }
	if (x >= 1u << 4) { x >>= 4; e += 4; }
	if (x >= 1u << 2) { x >>= 2; e += 2; }
	if (x >= 1u << 1) { x >>= 1; e += 1; }
	e += x;
	index = (e << (SUB_BITS - 1)) + (v >> (e & 31));
	n = bpf_map_lookup_elem(&histogram, &index);
	if (n)
		(*n)++;
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	void *p = data + ETHERTYPE_AT;
	struct window *w;
	struct stream *s;
	__u32 index, stamp, epoch, slot, bit;
	__u64 seq, word;
	__u16 type;
	__u8 proto, theirs = 0;

	if (p + AT_SADDR > data_end)
		return XDP_PASS;
	type = *(__u16 *)p;
	if (unlikely(type == htons(ETHERTYPE_VLAN) || type == htons(ETHERTYPE_QINQ))) {
		p += VLAN_BYTES;
		if (p + AT_SADDR > data_end)
			return XDP_PASS;
		type = *(__u16 *)p;
	}
	proto = *(__u8 *)(p + AT_PROTO);
	if (p + L3_BYTES > data_end || type != htons(ETHERTYPE_IPV4) || *(__u8 *)(p + AT_IPV4) != 0x45 ||
	    proto != 17)
		return pass_other(0, type, proto);
	if (likely(*(__u32 *)(p + AT_MAGIC) == htonl(MAGIC))) {
		index = htons(*(__u16 *)(p + AT_STREAM)) - cfg.stream_first;
	} else {
		if (!cfg.pktgen || *(__u32 *)(p + AT_MAGIC) != htonl(PKTGEN_MAGIC))
			return pass_other(0, type, proto);
		theirs = 1;
		index = htons(*(__u16 *)(p + AT_DPORT)) - PKTGEN_PORT;
	}
	if (index >= cfg.stream_count)
		return pass_other(1, type, proto);
	s = bpf_map_lookup_elem(&streams, &index);
	w = bpf_map_lookup_elem(&windows, &index);
	if (!s || !w)
		return pass_other(1, type, proto);

	if (likely(!theirs))
		seq = htonll(*(__u64 *)(p + AT_SEQ));
	else if (cfg.unnumbered)
		seq = s->next;
	else /* from 1 on; 0 would be pktgen's own mistake */
		seq = (__u32)(htonl(*(__u32 *)(p + AT_PKTGEN_SEQ)) - 1);
	slot = (seq >> 5) & (WORDS - 1);
	epoch = (__u32)(seq >> WORD_BITS);
	bit = 1u << (seq & 31);
	word = w->words[slot];
	if ((__u32)(word >> 32) != epoch)
		word = (__u64)epoch << 32;
	if (likely(seq >= s->next)) {
		if (unlikely(!s->received))
			s->first = seq;
		s->next = seq + 1;
		w->words[slot] = word | bit;
	} else if (s->next - seq > WINDOW) {
		s->too_late++;
	} else if (word & bit) {
		s->duplicated++;
	} else {
		s->reordered++;
		w->words[slot] = word | bit;
	}
	if (unlikely(!(s->received & (CLOCK_EVERY - 1)))) {
		__u64 now = bpf_ktime_get_ns();

		if (s->received) {
			s->last_ns = now;
			s->spanned = s->received;
		} else {
			s->first_ns = now;
		}
	}
	s->received++;
	s->bytes += data_end - data + FCS_BYTES;

	if (cfg.latency && !theirs) {
		stamp = htonl(*(__u32 *)(p + AT_STAMP));
		if (stamp) {
			s->stamped++;
			record_delay(stamp);
		}
	}
	return cfg.pass_match ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
