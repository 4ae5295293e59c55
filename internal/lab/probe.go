package lab

import (
	"context"
	"fmt"
	"net/netip"
)

// Probe waits until a guest answers, from inside L1. It is called once per start attempt; ctx ends it at the limit.
type Probe func(ctx context.Context, l *Lab, addr netip.Addr) error

// Ping waits for an echo reply: the guest's NIC is up and has its address.
func Ping(ctx context.Context, l *Lab, addr netip.Addr) error {
	return l.until(ctx, fmt.Sprintf("ping -n -q -c 1 -W 0.5 %s", addr))
}

// TCPProbe waits until a TCP port accepts connections.
func TCPProbe(port int) Probe {
	return func(ctx context.Context, l *Lab, addr netip.Addr) error {
		return l.until(ctx, fmt.Sprintf("timeout 1 bash -c 'exec 4<>/dev/tcp/%s/%d'", addr, port))
	}
}

// TCPProbeFrom is TCPProbe from a network namespace of L1.
func TCPProbeFrom(netns string, port int) Probe {
	return func(ctx context.Context, l *Lab, addr netip.Addr) error {
		return l.until(ctx, fmt.Sprintf("timeout 1 ip netns exec %s bash -c 'exec 4<>/dev/tcp/%s/%d'",
			quote([]string{netns}), addr, port))
	}
}

// until repeats a command in L1 until it succeeds.
func (l *Lab) until(ctx context.Context, command string) error {
	_, err := l.Must(ctx, "until "+command+"; do sleep 0.1; done >/dev/null 2>&1")
	return err
}
