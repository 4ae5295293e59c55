// Package trace watches which queues of which devices packets take on this host, with eBPF programs on the kernel's
// tracepoints for reception, transmission and lock contention (bpf/watch.bpf.c). They count in the kernel. Nothing is
// pinned, so everything ends with the process.
package trace

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel watch bpf/watch.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
