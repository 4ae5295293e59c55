/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What the watcher reads of the kernel's structures: only the fields it needs.
 * Their places in the running kernel come from its BTF when the program is
 * loaded (CO-RE). */
#ifndef MPPS_KERNEL_H
#define MPPS_KERNEL_H

#include "../../traffic/bpf/helpers.h"

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*bpf_probe_read_kernel)(void *dst, __u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)BPF_FUNC_get_smp_processor_id;
static __u64 (*bpf_jiffies64)(void) = (void *)BPF_FUNC_jiffies64;

/* enum bpf_field_info_kind and bpf_type_info_kind of libbpf, which are those of LLVM. */
#define FIELD_OFFSET 0
#define FIELD_EXISTS 2
#define FIELD_LSHIFT_U64 4
#define FIELD_RSHIFT_U64 5
#define FIELD_SIZE 1
#define TYPE_SIZE 1
#define field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, FIELD_OFFSET)
#define field_exists(type, field) __builtin_preserve_field_info(((type *)0)->field, FIELD_EXISTS)
#define type_size(type) __builtin_preserve_type_info(*(type *)0, TYPE_SIZE)

/* A bit field of a structure that the verifier knows: the bytes that hold it are
 * read, and shifted so that the field alone is left. */
#define bit_field(from, field)                                                                                              \
	({                                                                                                                  \
		__u64 bits_ = 0;                                                                                            \
		bpf_probe_read_kernel(&bits_, __builtin_preserve_field_info((from)->field, FIELD_SIZE),                     \
				      (const char *)(from) + __builtin_preserve_field_info((from)->field, FIELD_OFFSET));    \
		bits_ <<= __builtin_preserve_field_info((from)->field, FIELD_LSHIFT_U64);                                   \
		bits_ >> __builtin_preserve_field_info((from)->field, FIELD_RSHIFT_U64);                                    \
	})

/* Of gso_type, since Linux 4.18 (include/linux/skbuff.h). */
#define SKB_GSO_UDP (1 << 16)
#define SKB_GSO_UDP_L4 (1 << 17)

#define RELOCATED __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct {
	struct net *net;
} RELOCATED possible_net_t;

struct spinlock {
	int unused;
} RELOCATED;

struct qdisc_skb_head {
	struct spinlock lock;
} RELOCATED;

struct Qdisc {
	struct qdisc_skb_head q;
	struct spinlock busylock; /* up to 6.18 */
	struct spinlock seqlock;  /* 4.16: of lockless queue disciplines */
} RELOCATED;

struct netdev_queue {
	struct Qdisc *qdisc;
	struct spinlock _xmit_lock;
} RELOCATED;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	struct Qdisc *qdisc;
	unsigned int real_num_tx_queues;
	unsigned int real_num_rx_queues;
	__u64 features;
	unsigned long lltx : 1; /* 6.12; before, a bit of features */
} RELOCATED;

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	__u16 queue_mapping;
	__u16 protocol;
	__u16 vlan_proto;
	__u16 vlan_tci;
	int skb_iif;
	__u16 network_header;
	__u16 transport_header;
	__u16 inner_network_header;
	__u16 inner_transport_header;
	__u16 mac_header;
	__u8 encapsulation : 1;
	__u8 tc_skip_classify : 1; /* with NET_CLS_ACT or NET_XGRESS */
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
} RELOCATED;

struct skb_shared_info {
	__u16 gso_size;
	__u16 gso_segs;
	unsigned int gso_type;
} RELOCATED;

#endif
