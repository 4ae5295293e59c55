/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The flow of a packet: a number that two packets share when they have the same
 * addresses, protocol and ports or security parameters (SPI). It is odd where
 * these are known: then two packets of one number are of one flow, of which no
 * packet should overtake another. An even one has the addresses alone. */
#ifndef MPPS_FLOW_H
#define MPPS_FLOW_H

#include "kernel.h"

#define P_IPV4 0x0800
#define P_IPV6 0x86dd
#define P_VLAN 0x8100
#define P_QINQ 0x88a8
#define P_TEB 0x6558 /* Ethernet in GRE */

static __always_inline __u64 mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ (h >> 29);
}

/* What stands at a network header: 40 bytes of IPv6 and 4 of ports; of IPv4 20
 * and 4, or more with options. */
struct headers {
	__u8 byte[44];
};

static __always_inline __u64 word(const struct headers *h, int at)
{
	return *(const __u32 *)&h->byte[at];
}

#define P_IPIP 4
#define P_IN6 41 /* IPv6 in IP */
#define P_GRE 47
#define P_AH 51
#define ONE_FLOW 1 /* the bit of a flow that is more than addresses */

/* The protocols whose first four bytes tell flows apart: TCP, UDP, DCCP, SCTP
 * and UDP-Lite by ports, ESP by its SPI (RFC 4303). */
static __always_inline int has_ports(__u8 protocol)
{
	return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 || protocol == 136 || protocol == 50;
}

/* flow_at is the flow of what stands at a network header, 0 where it is none
 * that a queue could be chosen by: not IP, or a fragment, which has no ports.
 * Protocol 0 is IP of the version that the header has. */
static __always_inline __u64 flow_at(const unsigned char *at, int have, __u16 protocol, __u8 *next, int *length)
{
	struct headers h;
	__u64 flow = 1;
	__u32 ports = 0;

	*next = 0;
	if (have < 20 || bpf_probe_read_kernel(&h, sizeof(h), at))
		return 0;
	if (!protocol)
		protocol = h.byte[0] >> 4 == 4 ? htons(P_IPV4) : htons(P_IPV6);
	if (protocol == htons(P_IPV4)) {
		*length = (h.byte[0] & 0xf) * 4;
		if (h.byte[6] & 0x3f || h.byte[7]) /* more fragments, or not the first */
			return 0;
		*next = h.byte[9];
		flow = mix(mix(flow, word(&h, 12) << 32 | word(&h, 16)), *next);
		if (*length == 20)
			ports = word(&h, 20);
		else if (has_ports(*next) && bpf_probe_read_kernel(&ports, sizeof(ports), at + *length))
			return 0;
	} else if (protocol == htons(P_IPV6) && have >= 40) {
		*length = 40;
		*next = h.byte[6];
		if (*next == 44)
			return 0;
		flow = mix(mix(flow, word(&h, 8) << 32 | word(&h, 12)), word(&h, 16) << 32 | word(&h, 20));
		flow = mix(mix(flow, word(&h, 24) << 32 | word(&h, 28)), word(&h, 32) << 32 | word(&h, 36));
		flow = mix(flow, *next);
		ports = word(&h, 40);
	} else {
		return 0;
	}
	if (unlikely(*next == P_AH)) { /* the SPI comes second (RFC 4302) */
		if (have < *length + 8 || bpf_probe_read_kernel(&ports, sizeof(ports), at + *length + 4))
			return 0;
	} else if (!has_ports(*next)) {
		return flow & ~ONE_FLOW;
	} else if (have < *length + 4) {
		return 0;
	}
	return mix(flow, ports) | ONE_FLOW;
}

/* flow_of looks behind up to one VLAN tag, and into GRE and IP in IP, whose outer
 * header tells nothing of the flow. */
static __always_inline __u64 flow_of(const unsigned char *at, int have, __u16 protocol)
{
	int length = 0;
	__u64 flow;
	__u8 next;
	struct {
		__u16 flags;
		__u16 protocol;
	} gre;

	if (protocol == htons(P_VLAN) || protocol == htons(P_QINQ)) {
		if (have < 4 || bpf_probe_read_kernel(&protocol, sizeof(protocol), at + 2))
			return 0;
		at += 4;
		have -= 4;
	}
	flow = flow_at(at, have, protocol, &next, &length);
	if (likely(flow & ONE_FLOW) || !flow)
		return flow;
	if (next == P_IPIP || next == P_IN6) {
		protocol = next == P_IPIP ? htons(P_IPV4) : htons(P_IPV6);
		return flow_at(at + length, have - length, protocol, &next, &length) ?: flow;
	}
	if (next != P_GRE || bpf_probe_read_kernel(&gre, sizeof(gre), at + length))
		return flow;
	/* RFC 2784 and 2890: checksum, key and sequence number take four bytes each. */
	length += 4 + (gre.flags & htons(0x8000) ? 4 : 0) + (gre.flags & htons(0x2000) ? 4 : 0) + (gre.flags & htons(0x1000) ? 4 : 0);
	protocol = gre.protocol;
	if (protocol == htons(P_TEB)) {
		if (bpf_probe_read_kernel(&protocol, sizeof(protocol), at + length + 12))
			return flow;
		length += 14;
	}
	return flow_at(at + length, have - length, protocol, &next, &length) ?: flow;
}

#endif
