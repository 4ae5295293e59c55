// Package traffic makes and counts test packets.
//
// A Generator sends frames of one size, or a mix, over many flows, at a set rate or at full speed. A Sink on the far
// interface counts them per stream and finds loss, duplicates and reordering from their sequence numbers. Both exist as
// XDP programs (see bpf/), for modern hosts, and on AF_PACKET sockets, for kernels and guests without XDP. The kernel's
// own packet generator is a third Generator if its module is loaded. Probe reports whether the kernel can send XDP live
// frames, and why not.
//
// The sub-package talk has the endpoints for streams and transactions, and agent is the far end of a measurement.
//
// Everything attached to a device is held by a file descriptor (bpf_link, packet sockets), so that the kernel removes
// it however the process ends.
package traffic

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel gen bpf/gen.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel sink bpf/sink.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel refused bpf/refused.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
