// Package traffic makes and counts test packets.
//
// A Generator sends frames of one size over many flows at a set rate or as
// fast as it can; a Sink on the far interface counts them by stream and finds
// loss, duplicates and reordering from their sequence numbers. Both exist
// twice: as XDP programs (see bpf/), which is what a modern host uses, and on
// AF_PACKET sockets for kernels and guests without them. The kernel's own
// packet generator is a third Generator, where its module is loaded. Probe says which of
// the two a device and kernel can do, and why.
//
// The sub-package tcp has the stream and transaction endpoints, agent the far
// end of a measurement.
//
// Everything that is attached to a device hangs on a file descriptor
// (bpf_link, packet sockets) so that the kernel removes it however the process
// ends.
package traffic

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel gen bpf/gen.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel sink bpf/sink.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel refused bpf/refused.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
