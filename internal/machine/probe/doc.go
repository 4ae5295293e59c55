// Package probe measures what the kernel's counters do not show of the packet path: where CPU time goes, with a
// sampling timer on each CPU (perf_event_open); why and where packets are dropped, and how long threads wait for a CPU,
// with eBPF programs on the kernel's tracepoints (bpf/probe.bpf.c). The programs count in the kernel. Nothing is
// pinned, so all of it ends with the process. What is not available is reported with the reason, and the rest works.
package probe

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel probe bpf/probe.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
