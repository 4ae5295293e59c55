/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The test frame, the same in generator, sink and frame.go.
 *
 * Offsets from the EtherType of the IPv4 packet, which is at byte 12 of an
 * untagged frame and at byte 16 behind one VLAN tag:
 *
 *    0 EtherType   2 IPv4 header, no options   22 UDP header
 *   30 magic (4)  34 stream (2)  36 sequence (8)  44 time stamp (4)
 *
 * so that the shortest frame, 64 bytes with FCS and 60 without, carries all
 * of it. All numbers are in network order. The time stamp is the low 32 bits
 * of CLOCK_MONOTONIC in nanoseconds, 0 for none: delays under 4.29 s are
 * unambiguous. */
#ifndef MPPS_FRAME_H
#define MPPS_FRAME_H

#define ETHERTYPE_AT 12
#define VLAN_BYTES 4
#define L3_BYTES 48 /* from EtherType to the end of the time stamp */

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8

#define AT_IPV4 2
#define AT_PROTO 11
#define AT_IPSUM 12
#define AT_SADDR 14
#define AT_DADDR 18
#define AT_PORTS 22
#define AT_UDPLEN 26
#define AT_UDPSUM 28
#define AT_MAGIC 30
#define AT_STREAM 34
#define AT_SEQ 36
#define AT_STAMP 44

#define MAGIC 0x6d707073u /* "mpps" */

/* The kernel's packet generator has at the same place: magic (4), sequence (4),
 * time (8): struct pktgen_hdr in net/core/pktgen.c. */
#define PKTGEN_MAGIC 0xbe9be955u
#define AT_PKTGEN_SEQ 34
#define AT_DPORT 24
#define PKTGEN_PORT 9 /* UDP destination port of stream 0 */
#define FCS_BYTES 4

#endif
