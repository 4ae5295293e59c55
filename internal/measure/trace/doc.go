// Package trace watches which queue of which device packets take on this host, with eBPF programs on the kernel's
// tracepoints of reception, transmission and lock contention (bpf/watch.bpf.c). What they see is counted in the kernel;
// nothing is pinned, so that all of it goes with the process.
package trace

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel watch bpf/watch.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
