// Package probe sees of the packet path what the kernel's counters do not tell: where the time of CPUs goes, by a
// profile of a timer of each CPU (perf_event_open); why and where packets are dropped, and how long threads wait for a
// CPU, by eBPF programs on the kernel's tracepoints (bpf/probe.bpf.c). What they see is counted in the kernel; nothing
// is pinned, so that all of it goes with the process. What is not to be had here is told with the reason, and the rest
// goes on.
package probe

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel probe bpf/probe.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
