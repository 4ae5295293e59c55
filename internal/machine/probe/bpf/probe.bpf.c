// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Counts why and where the kernel drops packets, and how long some threads that
 * were ready to run had no CPU. */
#include "../../../measure/trace/bpf/kernel.h"

static __u32 (*bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static long (*bpf_get_current_comm)(void *buf, __u32 size) = (void *)BPF_FUNC_get_current_comm;

struct sock_common {
	possible_net_t skc_net;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
} RELOCATED;

/* sk_buff has more than kernel.h names: whose socket it is of. */
struct sk_buff___owned {
	struct sock *sk;
} RELOCATED;

struct task_struct {
	int pid;
	unsigned int __state; /* 5.14 */
} RELOCATED;

struct task_struct___old {
	long state;
} RELOCATED;


volatile const __u32 reasons = 0;
volatile __u32 counting = 0; /* turn: each time that the programs are attached has another number; 0: not yet */
/* Of how many drops one is counted, for all: a power of two, less one. */
volatile __u32 sparse = 0;

char _license[] SEC("license") = "Dual BSD/GPL";

/* How often the programs ran on a CPU, for what watching costs. */
struct ran {
	__u64 drops;
	__u64 switches;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ran);
} runs SEC(".maps");

static __always_inline struct ran *my_runs(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&runs, &zero);
}

struct drop {
	__u64 where;
	__u32 reason;
	__u32 netns;
	__u32 ifindex;
	__u32 leaves; /* the device is not the one that the packet came by */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct drop);
	__type(value, __u64);
} drops SEC(".maps");

/* Namespaces that are watched, by inode. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} spaces SEC(".maps");

static __always_inline __u32 inode_of(const struct net *net)
{
	__u32 inode = 0;

	if (net)
		bpf_probe_read_kernel(&inode, sizeof(inode), &net->ns.inum);
	return inode;
}

static __always_inline void count(struct drop *d, __u64 packets)
{
	__u64 *n;

	if (!bpf_map_lookup_elem(&spaces, &d->netns))
		return;
	n = bpf_map_lookup_elem(&drops, d);
	if (n)
		*n += packets;
	else
		bpf_map_update_elem(&drops, d, &packets, BPF_NOEXIST);
}

/* kfree_skb(struct sk_buff *skb, void *location, enum skb_drop_reason reason).
 * The namespace of its device decides, not that of the socket that sent it. The
 * device of a packet in a socket's queue is none (dev_scratch), and no address
 * of the kernel, which has its highest bit set. */
SEC("tp_btf/kfree_skb")
int dropped(__u64 *args)
{
	const struct sk_buff *skb = (const struct sk_buff *)args[0];
	const struct sk_buff___owned *owned = (const struct sk_buff___owned *)args[0];
	struct drop d = {.where = args[1]};
	struct ran *r = my_runs();
	struct net_device *dev = 0;
	struct sock *sk = 0;
	struct net *net = 0;
	__u32 mask = sparse, iif = 0;

	if (r)
		r->drops++;
	if (!counting || (mask && (bpf_get_prandom_u32() & mask)))
		return 0;
	if (reasons)
		d.reason = args[2];
	bpf_probe_read_kernel(&dev, sizeof(dev), &skb->dev);
	bpf_probe_read_kernel(&sk, sizeof(sk), &owned->sk);
	if ((__s64)dev < 0) {
		bpf_probe_read_kernel(&net, sizeof(net), &dev->nd_net.net);
		d.netns = inode_of(net);
		bpf_probe_read_kernel(&d.ifindex, sizeof(d.ifindex), &dev->ifindex);
		bpf_probe_read_kernel(&iif, sizeof(iif), &skb->skb_iif);
		d.leaves = iif != d.ifindex;
	} else if (sk) {
		bpf_probe_read_kernel(&net, sizeof(net), &sk->__sk_common.skc_net.net);
		d.netns = inode_of(net);
	}
	count(&d, (__u64)mask + 1);
	return 0;
}

#define REFUSED 0xffffffff /* no reason of the kernel's: a redirect of XDP failed */

/* Packets that an XDP program redirected in vain; they came by a device. */
static __always_inline int refuse(const struct net_device *dev, __u32 packets)
{
	struct drop d = {.reason = REFUSED};
	struct ran *r = my_runs();
	struct net *net = 0;
	__u32 mask = sparse;

	if (r)
		r->drops++;
	if (!packets || !counting || (mask && (bpf_get_prandom_u32() & mask)))
		return 0;
	bpf_probe_read_kernel(&net, sizeof(net), &dev->nd_net.net);
	d.netns = inode_of(net);
	bpf_probe_read_kernel(&d.ifindex, sizeof(d.ifindex), &dev->ifindex);
	count(&d, packets * ((__u64)mask + 1));
	return 0;
}

/* xdp_redirect_err(const struct net_device *dev, …), since Linux 5.13 for redirects through maps too */
SEC("tp_btf/xdp_redirect_err")
int refused(__u64 *args)
{
	return refuse((const struct net_device *)args[0], 1);
}

/* xdp_devmap_xmit(const struct net_device *from, const struct net_device *to, int sent, int drops, int err), since
 * Linux 5.6 */
SEC("tp_btf/xdp_devmap_xmit")
int refused_xmit(__u64 *args)
{
	return refuse((const struct net_device *)args[0], args[3]);
}

/* Waits of a thread for a CPU, in nanoseconds, four steps to each doubling. */
#define STEPS 116

struct waits {
	__u64 since; /* ready from then on; 0: it runs, or sleeps */
	__u64 turn;  /* in which that was told: an older one is forgotten */
	__u64 waits;
	__u64 longest;
	__u32 steps[STEPS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct waits);
} threads SEC(".maps");

struct behind {
	__u32 tid;
	__u32 other;
};

struct ahead {
	__u64 ns;
	char comm[16];
};

/* Which thread gave its CPU to one that had waited. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct behind);
	__type(value, struct ahead);
} others SEC(".maps");

/* step is four to each doubling: the place of the highest bit and the two
 * behind it. */
static __always_inline __u32 step(__u64 ns)
{
	__u32 log = 0;
	__u64 n = ns;

	if (n < 4)
		return n;
	if (n >> 32) {
		log += 32;
		n >>= 32;
	}
	if (n >> 16) {
		log += 16;
		n >>= 16;
	}
	if (n >> 8) {
		log += 8;
		n >>= 8;
	}
	if (n >> 4) {
		log += 4;
		n >>= 4;
	}
	if (n >> 2) {
		log += 2;
		n >>= 2;
	}
	if (n >> 1)
		log += 1;
	return 4 * (log - 1) + ((ns >> (log - 2)) & 3);
}

static __always_inline int ready(const struct task_struct *p)
{
	struct ran *r = my_runs();
	struct waits *w;
	__u32 tid = p->pid;

	if (r)
		r->switches++;
	if (!counting)
		return 0;
	w = bpf_map_lookup_elem(&threads, &tid);
	if (w && (!w->since || w->turn != counting)) {
		w->since = bpf_ktime_get_ns();
		w->turn = counting;
	}
	return 0;
}

/* sched_wakeup(struct task_struct *p) */
SEC("tp_btf/sched_wakeup")
int woken(__u64 *args)
{
	return ready((const struct task_struct *)args[0]);
}

/* sched_wakeup_new(struct task_struct *p) */
SEC("tp_btf/sched_wakeup_new")
int made(__u64 *args)
{
	return ready((const struct task_struct *)args[0]);
}

static __always_inline int runnable(const struct task_struct *p, int preempted)
{
	if (preempted)
		return 1;
	if (field_exists(struct task_struct, __state))
		return !p->__state;
	return !((const struct task_struct___old *)p)->state;
}

/* sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …) */
SEC("tp_btf/sched_switch")
int switched(__u64 *args)
{
	const struct task_struct *prev = (const struct task_struct *)args[1];
	const struct task_struct *next = (const struct task_struct *)args[2];
	struct behind b = {.tid = next->pid, .other = prev->pid};
	struct ran *r = my_runs();
	struct waits *w;
	struct ahead *a, new = {};
	__u64 now, ns;
	__u32 s;

	if (r)
		r->switches++;
	if (!counting)
		return 0;
	now = bpf_ktime_get_ns();
	w = bpf_map_lookup_elem(&threads, &b.other);
	if (w) {
		w->since = runnable(prev, args[0] & 1) ? now : 0;
		w->turn = counting;
	}
	w = bpf_map_lookup_elem(&threads, &b.tid);
	if (!w || !w->since || w->turn != counting)
		return 0;
	ns = now - w->since;
	w->since = 0;
	w->waits++;
	if (ns > w->longest)
		w->longest = ns;
	s = step(ns);
	if (s < STEPS)
		w->steps[s]++;
	else
		w->steps[STEPS - 1]++;
	if (!b.other)
		return 0;
	a = bpf_map_lookup_elem(&others, &b);
	if (a) {
		__sync_fetch_and_add(&a->ns, ns);
		return 0;
	}
	new.ns = ns;
	bpf_get_current_comm(new.comm, sizeof(new.comm));
	bpf_map_update_elem(&others, &b, &new, BPF_NOEXIST);
	return 0;
}
