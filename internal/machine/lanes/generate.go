package lanes

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -tags linux -target bpfel lanes bpf/lanes.bpf.c -- -O2 -g -Wall -Werror -I../../measure/traffic/bpf -I/usr/include/x86_64-linux-gnu
