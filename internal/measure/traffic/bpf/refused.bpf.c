// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Counts the frames that the generator's device did not take. The run goes on
 * as if nothing had happened, so that only two tracepoints tell:
 * xdp_redirect_err for a device that is down or cannot send XDP frames
 * (net/core/filter.c, __xdp_do_redirect_frame), xdp_devmap_xmit for a full ring
 * (kernel/bpf/devmap.c, bq_xmit_all: once for up to 16 frames).
 * Softirqs of other devices run on the generator's thread too, so the process
 * alone proves nothing: the program and the device must be the generator's. */
#include "helpers.h"

struct config {
	__u32 ifindex;
	__u32 netns; /* inode of its namespace: interface numbers repeat in others */
	__u32 tgid;  /* the generator's process */
};

const volatile struct config cfg = {};

struct count {
	__u64 frames;
	__s64 err; /* of the last, negative; 0 for a full ring */
};

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct bpf_prog_aux {
	__u32 id;
} __attribute__((preserve_access_index));

struct bpf_prog {
	struct bpf_prog_aux *aux;
} __attribute__((preserve_access_index));

/* The IDs of the generator's programs, one for each worker. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct count);
} refused SEC(".maps");

static __always_inline int add(int frames, int err)
{
	__u32 zero = 0;
	struct count *n;

	if (bpf_get_current_pid_tgid() >> 32 != cfg.tgid)
		return 0;
	n = bpf_map_lookup_elem(&refused, &zero);
	if (n) {
		n->frames += frames;
		n->err = err;
	}
	return 0;
}

/* xdp_devmap_xmit(const struct net_device *from_dev, const struct net_device *to_dev, int sent, int drops, int err) */
SEC("tp_btf/xdp_devmap_xmit")
int full(__u64 *args)
{
	const struct net_device *to = (void *)args[1];
	int drops = (int)args[3];

	if (likely(drops <= 0) || to->ifindex != (int)cfg.ifindex || to->nd_net.net->ns.inum != cfg.netns)
		return 0;
	return add(drops, (int)args[4]);
}

/* xdp_redirect_err(const struct net_device *dev, const struct bpf_prog *xdp, const void *tgt, int err, …) */
SEC("tp_btf/xdp_redirect_err")
int failed(__u64 *args)
{
	const struct bpf_prog *prog = (void *)args[1];
	__u32 id = prog->aux->id;

	return bpf_map_lookup_elem(&programs, &id) ? add(1, (int)args[3]) : 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
