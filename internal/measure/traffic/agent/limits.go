package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

// ErrDenied means that the agent was started with limits that a request exceeds, or that no agent does what was asked.
var ErrDenied = errors.New("the agent does not allow this")

// Limits are what a client may ask of an agent. The zero value allows everything that is sent to one receiver.
type Limits struct {
	Ifaces []traffic.Endpoint // interfaces to use; none: all
	To     []netip.Prefix     // destinations of test frames, and clients of TCP servers; none: all
	// MaxPPS is how many packets per second all generators that send to devices and all servers send together, in the
	// mean; 0 is no limit. A generator takes its rate as a whole, servers share what is left.
	MaxPPS float64

	mu      sync.Mutex
	workers int       // of the generators that run
	rate    float64   // of those with a limit
	credit  float64   // packets that servers may send; below 0, sent too early
	at      time.Time // of credit
}

// maxWorkers is how many workers all generators of an agent have together. Each is a thread, of which a Go program has
// 10,000 at most (runtime/debug.SetMaxThreads).
const maxWorkers = 4 * traffic.MaxWorkers

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDenied, fmt.Errorf(format, args...))
}

// checkNames refuses invalid names of interfaces and namespaces, because they become part of a path.
func checkNames(e traffic.Endpoint) error {
	if _, err := traffic.ParseEndpoint(e.String()); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}

// device checks whether an interface may be used.
func (l *Limits) device(e traffic.Endpoint) error {
	if err := checkNames(e); err != nil {
		return err
	}
	if len(l.Ifaces) > 0 && !slices.Contains(l.Ifaces, e) {
		return denied("interface %s, and it was started with --iface %v", e, l.Ifaces)
	}
	return nil
}

// destination checks that a range of addresses has one receiver each, and may be sent to. Class D is multicast, and E
// reserved but for the limited broadcast (RFC 1112 section 4).
func (l *Limits) destination(r traffic.AddrRange) error {
	if !r.First.IsValid() {
		r.First = traffic.DefaultDestination
	}
	last, ok := r.Last()
	if !ok || last.As4()[0] >= 224 {
		return denied("to %s and %d more addresses: expected unicast IPv4", r.First, max(r.Count, 1)-1)
	}
	if len(l.To) > 0 && !slices.ContainsFunc(l.To, func(p netip.Prefix) bool {
		return p.Contains(r.First) && p.Contains(last)
	}) {
		return denied("to %s–%s, and it was started with --to %v", r.First, last, l.To)
	}
	return nil
}

// client checks whether a peer may be sent the bytes of a stream. The zero address is a peer on this host.
func (l *Limits) client(peer netip.Addr) error {
	if len(l.To) == 0 || !peer.IsValid() ||
		slices.ContainsFunc(l.To, func(p netip.Prefix) bool { return p.Contains(peer) }) {
		return nil
	}
	return denied("to %s, and it was started with --to %v", peer, l.To)
}

// address checks whether a server may listen at an address: with Ifaces, at one of theirs.
func (l *Limits) address(netns, addr string) error {
	if err := checkNames(traffic.Endpoint{Netns: netns, Iface: "lo"}); err != nil || len(l.Ifaces) == 0 {
		return err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	ip := net.ParseIP(host)
	for _, e := range l.Ifaces {
		if e.Netns != netns || ip == nil {
			continue
		}
		addresses, err := addressesOf(e)
		if err == nil && slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.Equal(ip) }) {
			return nil
		}
	}
	return denied("an address of another interface, %s, and it was started with --iface %v", host, l.Ifaces)
}

func addressesOf(e traffic.Endpoint) (all []netlink.Addr, err error) {
	err = e.Do(func() error {
		link, err := netlink.LinkByName(e.Iface)
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		all, err = netlink.AddrList(link, netlink.FAMILY_ALL)
		return err
	})
	return all, err
}

// generator checks what is to be sent where, and takes its workers, and its rate from what MaxPPS leaves. release gives
// them back.
func (l *Limits) generator(c traffic.Config) (release func(), err error) {
	if err := l.device(c.Out); err != nil {
		return nil, err
	}
	if mac := c.Frame.DstMAC; len(mac) > 0 && mac[0]&1 != 0 { // none: the far end of a veth pair
		return nil, denied("to MAC address %q: expected that of one interface", mac)
	}
	if err := l.destination(c.Frame.Dst); err != nil {
		return nil, err
	}
	if err := notBroadcast(c.Out, c.Frame.Dst); err != nil {
		return nil, err
	}
	if l.MaxPPS == 0 || c.Discard {
		c.Rate = 0
	} else if !(c.Rate > 0) {
		return nil, denied("as many packets per second as possible, and it was started with --max-pps %.0f", l.MaxPPS)
	}
	return l.take(max(1, len(c.CPUs)), c.Rate)
}

// take takes workers, and a rate from what MaxPPS leaves. release gives them back.
func (l *Limits) take(workers int, rate float64) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.workers+workers > maxWorkers:
		return nil, denied("%d workers, and %d of %d are left", workers, maxWorkers-l.workers, maxWorkers)
	case rate > 0 && l.rate+rate > l.MaxPPS:
		return nil, denied("%.0f packets per second, and it was started with --max-pps %.0f, of which %.0f are left",
			rate, l.MaxPPS, l.MaxPPS-l.rate)
	}
	l.workers, l.rate = l.workers+workers, l.rate+rate
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.workers, l.rate = l.workers-workers, l.rate-rate
	}), nil
}

// burst is the time for which servers may save packets that they did not send.
const burst = 10 * time.Millisecond

// pace limits the packets of servers to what the generators leave of MaxPPS, or is nil without such a limit.
func (l *Limits) pace() talk.Pace {
	if l.MaxPPS == 0 {
		return nil
	}
	return func(packets uint64) time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		now, rate := time.Now(), max(0, l.MaxPPS-l.rate)
		if !l.at.IsZero() {
			l.credit = min(l.credit+rate*now.Sub(l.at).Seconds(), max(1, rate*burst.Seconds()))
		}
		l.at = now
		l.credit -= float64(packets)
		if l.credit >= 0 {
			return 0
		}
		return time.Duration(min(1, -l.credit/max(rate, 1)) * float64(time.Second))
	}
}

// notBroadcast refuses the broadcast addresses of an interface's own networks.
func notBroadcast(e traffic.Endpoint, r traffic.AddrRange) error {
	addresses, err := addressesOf(e)
	if err != nil {
		return nil // the generator says what is wrong with the interface
	}
	for _, a := range addresses {
		if ones, bits := a.Mask.Size(); bits != 32 || ones > 30 {
			continue
		}
		ip := a.IP.To4()
		for i := range ip {
			ip[i] |= ^a.Mask[i]
		}
		if b, _ := netip.AddrFromSlice(ip); r.Contains(b) {
			return denied("to %s, the broadcast address of %s", b, e)
		}
	}
	return nil
}
