/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The flow of a packet: a number that two packets share when they have the same
 * addresses, protocol and ports. Within a tunnel these are the inner ones: many
 * flows share the outer ones, whose source port is a hash that some have in
 * common. The number is odd where it is of one flow, of which no packet should
 * overtake another, and even where flows may share it: it has addresses alone,
 * or what is inside is encrypted, unknown or out of reach. */
#ifndef MPPS_FLOW_H
#define MPPS_FLOW_H

#include "kernel.h"

#define P_IPV4 0x0800
#define P_IPV6 0x86dd
#define P_VLAN 0x8100
#define P_QINQ 0x88a8
#define P_TEB 0x6558 /* Ethernet in a tunnel */

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

#define IN_HOPS 0 /* options of IPv6 */
#define IN_IPV4 4
#define IN_UDP 17
#define IN_IPV6 41
#define IN_ROUTING 43
#define IN_FRAGMENT 44
#define IN_GRE 47
#define IN_AH 51
#define IN_OPTIONS 60
#define ONE_FLOW 1 /* the bit of a flow that is of one */
#define LAYERS 8   /* of Ethernet, VLAN tags and IP that are looked into */
#define EXTENSIONS 3

/* What the packets to a UDP port have in them (tunnels.go). */
enum { NO_TUNNEL, VXLAN, VXLAN_GPE, GENEVE, FOU_IP, FOU_GRE, GUE, OPAQUE };

volatile __u8 tunnels[65536] = {}; /* by port */

/* tunnel_at is what packets to a port have in them; the port is in network order.
 * The compiler knows that the swapped port has 16 bits and would leave the mask
 * out; verifiers up to Linux 6.12 at least know no bounds of a swapped number. */
static __always_inline __u8 tunnel_at(__u16 port)
{
	__u64 index = htons(port);

	asm volatile("" : "+r"(index));
	return tunnels[index & 0xffff];
}

/* The protocols whose first four bytes are ports: TCP, UDP, DCCP, SCTP and
 * UDP-Lite. ESP has a number there that many flows share. */
static __always_inline int has_ports(__u8 protocol)
{
	return protocol == 6 || protocol == IN_UDP || protocol == 33 || protocol == 132 || protocol == 136;
}

/* version is the protocol of an IP packet that nothing but its first byte names. */
static __always_inline __u16 version(__u8 first)
{
	return first >> 4 == 4 ? htons(P_IPV4) : first >> 4 == 6 ? htons(P_IPV6) : 0;
}

/* The functions from here to flow_of are global, so that the verifier goes
 * through each once and not through all of their ways at each layer. What is
 * inside a tunnel's headers they return in one number: its protocol as Ethernet
 * names it, the length of the headers, and the tunnel's own number (VNI or key).
 * 0 is nothing that could be looked into. */
static __always_inline __u64 inside(__u16 protocol, int length, __u32 network)
{
	return protocol ? (__u64)network << 32 | (__u32)length << 16 | protocol : 0;
}

/* transport is where the header behind IP and its extensions begins, and in the
 * lowest byte its protocol; 0 for a fragment or what is cut short. */
__attribute__((noinline)) int transport(__u64 at, int have, __u32 protocol)
{
	__u8 h[20], extension[2];
	int length, next;

	if (have < 20 || bpf_probe_read_kernel(h, sizeof(h), (void *)at))
		return 0;
	if (protocol == htons(P_IPV4)) {
		if (h[6] & 0x3f || h[7]) /* more fragments, or not the first */
			return 0;
		length = (h[0] & 0xf) * 4;
		next = h[9];
	} else {
		length = 40;
		next = h[6];
	}
	for (int i = 0; i < EXTENSIONS; i++) {
		if (next != IN_AH && (protocol == htons(P_IPV4) || (next != IN_HOPS && next != IN_OPTIONS && next != IN_ROUTING)))
			break;
		if (have < length + 8 || bpf_probe_read_kernel(extension, sizeof(extension), (void *)(at + length)))
			return 0;
		length += next == IN_AH ? (extension[1] + 2) * 4 : (extension[1] + 1) * 8; /* RFC 4302, RFC 8200 */
		next = extension[0];
	}
	if (have < length + 4 || (next == IN_FRAGMENT && protocol == htons(P_IPV6)))
		return 0;
	return length << 8 | next;
}

/* addresses is the flow of an IP header and what its first four bytes of
 * transport tell; 0 where it is none. */
__attribute__((noinline)) __u64 addresses(__u64 at, int have, __u32 protocol)
{
	struct headers h;
	__u64 flow = ONE_FLOW;
	__u32 ports;
	int behind, next;

	if (have < 20 || bpf_probe_read_kernel(&h, sizeof(h), (void *)at))
		return 0;
	if (protocol == htons(P_IPV4)) {
		flow = mix(flow, word(&h, 12) << 32 | word(&h, 16));
		ports = word(&h, 20);
		behind = 20 << 8 | h.byte[9];
		if (unlikely(h.byte[0] != 0x45 || h.byte[6] & 0x3f || h.byte[7] || h.byte[9] == IN_AH))
			behind = transport(at, have, protocol);
	} else if (protocol == htons(P_IPV6) && have >= 40) {
		flow = mix(mix(flow, word(&h, 8) << 32 | word(&h, 12)), word(&h, 16) << 32 | word(&h, 20));
		flow = mix(mix(flow, word(&h, 24) << 32 | word(&h, 28)), word(&h, 32) << 32 | word(&h, 36));
		ports = word(&h, 40);
		behind = 40 << 8 | h.byte[6];
		if (unlikely(!has_ports(h.byte[6])))
			behind = transport(at, have, protocol);
	} else {
		return 0;
	}
	if (!behind)
		return 0;
	next = behind & 0xff;
	behind >>= 8;
	flow = mix(flow, next);
	if (have < behind + 4)
		return 0;
	if (!has_ports(next))
		return flow & ~ONE_FLOW;
	if (behind != (protocol == htons(P_IPV4) ? 20 : 40) && bpf_probe_read_kernel(&ports, sizeof(ports), (void *)(at + behind)))
		return 0;
	if (next == IN_UDP && (tunnel_at(ports >> 16) || tunnel_at(ports) == OPAQUE))
		return flow & ~ONE_FLOW;
	return mix(flow, ports) | ONE_FLOW;
}

/* in_gre looks behind a GRE header (RFC 2784, 2890, 7637). */
__attribute__((noinline)) __u64 in_gre(__u64 at, int have, int length)
{
	__u16 head[2];
	__u32 key = 0;

	if (have < length + 16 || bpf_probe_read_kernel(head, sizeof(head), (void *)(at + length)))
		return 0;
	if (head[0] & htons(0x4007)) /* with a route, or of another version */
		return 0;
	length += head[0] & htons(0x8000) ? 8 : 4; /* checksum */
	if (head[0] & htons(0x2000)) {
		if (bpf_probe_read_kernel(&key, sizeof(key), (void *)(at + length)))
			return 0;
		length += 4;
	}
	length += head[0] & htons(0x1000) ? 4 : 0; /* sequence number */
	return inside(head[1], length, key);
}

/* in_udp looks behind the header of a tunnel over UDP that ends at length: RFC
 * 7348 (VXLAN) and its generic extension, RFC 8926 (Geneve), and
 * net/ipv4/fou_core.c. */
__attribute__((noinline)) __u64 in_udp(__u64 at, int have, int length, __u32 kind)
{
	__u16 protocol = htons(P_TEB);
	__u8 b[8];

	if (have < length + 20 || bpf_probe_read_kernel(b, sizeof(b), (void *)(at + length)))
		return 0;
	switch (kind) {
	case VXLAN_GPE:
		if (b[0] & 0x04)
			protocol = b[3] == 1 ? htons(P_IPV4) : b[3] == 2 ? htons(P_IPV6) : b[3] == 3 ? htons(P_TEB) : 0;
	case VXLAN:
		if (!(b[0] & 0x08)) /* no VNI */
			return 0;
		return inside(protocol, length + 8, b[4] << 16 | b[5] << 8 | b[6]);
	case GENEVE:
		if (b[0] & 0xc0) /* of another version */
			return 0;
		return inside(b[2] | b[3] << 8, length + 8 + (b[0] & 0x3f) * 4, b[4] << 16 | b[5] << 8 | b[6]);
	case FOU_GRE:
		return in_gre(at, have, length);
	case FOU_IP:
		return inside(version(b[0]), length, 0);
	case GUE:
		if (b[0] & 0x40) /* version 1: IP itself */
			return inside(version(b[0]), length, 0);
		if (b[0] & 0xe0) /* of another version, or a control message */
			return 0;
		length += 4 + (b[0] & 0x1f) * 4;
		if (b[1] == IN_GRE)
			return in_gre(at, have, length);
		return inside(b[1] == IN_IPV4 ? htons(P_IPV4) : b[1] == IN_IPV6 ? htons(P_IPV6) : 0, length, 0);
	}
	return 0;
}

/* in_ip looks behind an IP header. */
__attribute__((noinline)) __u64 in_ip(__u64 at, int have, __u32 protocol)
{
	int length = transport(at, have, protocol), next = length & 0xff;
	__u16 port;

	if (!length)
		return 0;
	length >>= 8;
	switch (next) {
	case IN_IPV4:
		return inside(htons(P_IPV4), length, 0);
	case IN_IPV6:
		return inside(htons(P_IPV6), length, 0);
	case IN_GRE:
		return in_gre(at, have, length);
	case IN_UDP:
		if (bpf_probe_read_kernel(&port, sizeof(port), (void *)(at + length + 2)))
			return 0;
		return in_udp(at, have, length + 8, tunnel_at(port));
	}
	return 0;
}

/* number makes a number of an address: global functions take no pointer whose
 * memory the verifier does not know. Swapped twice it is what it was. */
static __always_inline __u64 number(const void *address)
{
	__u64 n = (__u64)address;

	asm volatile("%0 = be64 %0\n%0 = be64 %0" : "+r"(n));
	return n;
}

/* inner is where the innermost IP header is, and in network what tells networks
 * apart that may have the same addresses: VLANs, and tunnels' own addresses and
 * numbers (VNI, key). */
struct inner {
	__u64 network;
	__u64 at;
	int have; /* bytes from there on that can be read */
	__u32 protocol;
};

/* vlan is the number of a VLAN, which is never 0, without the priority. */
static __always_inline __u64 vlan(__u16 tci)
{
	return 0x10000 | (tci & 0xfff);
}

#define PAYLOAD 122 /* bytes of a UDP payload in which an IP header is looked for, and 6 more of that */
#define PADDING 18  /* of an Ethernet frame with IPv4 and UDP and no data */

/* out_of_reach reports whether the payload of a UDP packet cannot be read as far
 * as hides_flows looks: NICs leave that of larger frames in pages
 * (igb_construct_skb). Many flows may share the ports then too. */
__attribute__((noinline)) int out_of_reach(__u64 at, int have, __u32 protocol)
{
	int length = transport(at, have, protocol), size;
	__u8 udp[2];

	if ((length & 0xff) != IN_UDP)
		return 0;
	length >>= 8;
	if (have < length + 8 || bpf_probe_read_kernel(udp, sizeof(udp), (void *)(at + length + 4)))
		return 0;
	size = (udp[0] << 8 | udp[1]) - 8;
	have -= length + 8;
	return have < size && have < PAYLOAD;
}

/* hides_flows reports whether a UDP packet to a port that is not known as a
 * tunnel's carries a tunnel all the same: somewhere in its payload begins an IP
 * packet that ends where the payload ends, or the payload is WireGuard's
 * (drivers/net/wireguard/messages.h) or DTLS' (RFC 6347). Then many flows may
 * share the ports. It costs more than the rest of a hop and is asked only where
 * a flow seems to change its queue. */
static __attribute__((noinline)) int hides_flows(const struct inner *inner)
{
	__u8 b[PAYLOAD + 6] = {}, udp[6];
	int length = transport(inner->at, inner->have, inner->protocol), size;
	__u64 left;

	if ((length & 0xff) != IN_UDP)
		return 0;
	length >>= 8;
	if (inner->have < length + 8 || bpf_probe_read_kernel(udp, sizeof(udp), (void *)(inner->at + length)))
		return 0;
	size = (udp[4] << 8 | udp[5]) - 8;
	left = inner->have - length - 8;
	left = left < sizeof(b) ? left : sizeof(b) - 1;
	asm volatile("%0 &= 127" : "+r"(left)); /* the compiler knows that and would leave it out; verifiers do not */
	if (bpf_probe_read_kernel(b, left, (void *)(inner->at + length + 8)))
		return 0;
	if (left > 4 && b[0] >= 1 && b[0] <= 4 && !b[1] && !b[2] && !b[3])
		return 1;
	if (b[0] >= 20 && b[0] <= 26 && b[1] == 0xfe)
		return 1;
	for (int i = 0; i < PAYLOAD; i++) {
		int rest = size - i, header = 20, data = -1, packet;

		if (b[i] >> 4 == 4 && (b[i] & 0xf) >= 5) {
			data = (b[i + 2] << 8 | b[i + 3]) - header;
		} else if (b[i] >> 4 == 6) {
			header = 40;
			data = b[i + 4] << 8 | b[i + 5];
		}
		packet = header + data;
		if (data >= 8 && packet <= rest && packet + PADDING >= rest)
			return 1;
	}
	return 0;
}

/* flow_of takes one header after the other off, and is the flow of the innermost
 * IP header. Protocol 0 is IP of the version that the header has. The flow is 0
 * where no queue could be chosen by anything: not IP, or a fragment, which has
 * no ports. The caller sets inner->network to the VLAN that the hardware took off,
 * or to 0. */
static __attribute__((noinline)) __u64 flow_of(const unsigned char *start, int have, __u32 protocol, struct inner *inner)
{
	__u64 at = number(start), outer = 0, in, flow, tunnel = inner->network;
	__u16 type = protocol, tag;
	__u8 first;

	if (!protocol) {
		if (have < 20 || bpf_probe_read_kernel(&first, sizeof(first), start))
			return 0;
		type = version(first);
	}
	for (int i = 0; i < LAYERS; i++) {
		if (type == htons(P_TEB) || type == htons(P_VLAN) || type == htons(P_QINQ)) {
			int length = type == htons(P_TEB) ? 14 : 4;

			if (have < length || bpf_probe_read_kernel(&tag, sizeof(tag), (void *)at))
				break;
			if (type != htons(P_TEB))
				tunnel = mix(tunnel, vlan(htons(tag)));
			if (bpf_probe_read_kernel(&type, sizeof(type), (void *)(at + length - 2)))
				break;
			at += length;
			have -= length;
			continue;
		}
		flow = addresses(at, have, type);
		if (!flow)
			break;
		inner->network = tunnel;
		inner->at = at;
		inner->have = have;
		inner->protocol = type;
		if (likely(flow & ONE_FLOW))
			return flow;
		outer = flow;
		in = in_ip(at, have, type);
		if (!in)
			break;
		tunnel = mix(mix(tunnel, outer), in >> 32);
		type = in;
		at += in >> 16 & 0xffff;
		have -= in >> 16 & 0xffff;
	}
	return outer;
}

#endif
