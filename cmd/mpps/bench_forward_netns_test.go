//go:build netns

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
	"mpps/internal/outcome"
)

// newForwarding is a host with two bridges and a guest with a NIC in each.
func newForwarding(t *testing.T) *hostAndGuest {
	base := "mf" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	h := &hostAndGuest{t: t, host: base + "h", guest: base + "g"}
	for _, ns := range []string{h.host, h.guest} {
		h.ip("netns", "add", ns)
		t.Cleanup(func() { h.ip("netns", "del", ns) })
		h.ip("-n", ns, "link", "set", "lo", "up")
	}
	for i := range 2 {
		n := strconv.Itoa(i)
		h.ip("-n", h.host, "link", "add", "br"+n, "type", "bridge", "forward_delay", "0")
		h.ip("-n", h.host, "link", "add", "tap"+n, "type", "veth", "peer", "name", "eth"+n, "netns", h.guest)
		h.ip("-n", h.host, "link", "set", "tap"+n, "master", "br"+n, "up")
		h.ip("-n", h.host, "link", "set", "br"+n, "up")
		h.ip("-n", h.guest, "link", "set", "eth"+n, "up")
	}
	return h
}

// forward runs bench pps --forward on the host.
func (h *hostAndGuest) forward(argv ...string) (code int, stdout, stderr string) {
	return program(h.t, append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "pps", "--forward",
		"--duration", "200ms", "--warm-up", "100ms", "--repeat", "2", "--rate", "20k", "--keep=false"}, argv...)...)
}

// arrived checks a run whose packets came through, all but those that a busy machine dropped.
func (h *hostAndGuest) arrived(argv ...string) {
	h.t.Helper()
	code, stdout, stderr := h.forward(argv...)
	if code != outcome.CodeOK && code != outcome.CodeNotDevice {
		h.t.Fatalf("%v: exit code %d: %s", argv, code, stderr)
	}
	run := result(h.t, stdout)
	checkLedger(h.t, run)
	if run.Received < run.Sent/2 || run.Latency == nil {
		h.t.Errorf("%v: sent %d, received %d: %+v", argv, run.Sent, run.Received, run.Losses)
	}
	must.Try(h.t, validate("mpps.bench-pps.1", stdout))
}

func TestBenchThroughRouter(t *testing.T) {
	t.Parallel()
	h := newForwarding(t)
	h.ip("-n", h.guest, "address", "add", "198.18.0.254/24", "dev", "eth0")
	h.ip("-n", h.guest, "address", "add", "198.19.0.254/24", "dev", "eth1")
	h.ip("netns", "exec", h.guest, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	before := h.state()
	h.arrived("--via", "br0", "--out", "br1", "--gateway", "198.18.0.254")
	h.arrived("--via", "br0", "--out", "br1", "--gateway", "198.19.0.254", "--reverse")
	mac := strings.TrimSpace(h.ip("netns", "exec", h.guest, "cat", "/sys/class/net/eth0/address"))
	h.arrived("--via", "br0", "--out", "br1", "--gateway-mac", mac, "--generator", "af_packet", "--sink", "af_packet")
	code, _, stderr := h.forward("--via", "br0", "--out", "br1", "--gateway", "198.18.0.99")
	if code != outcome.CodeFailed || !strings.Contains(stderr, "answers for 198.18.0.99") ||
		!strings.Contains(stderr, "hint: ") {
		t.Errorf("nobody is asked for: exit code %d: %s", code, stderr)
	}
	h.stays(before)
	// The receiver answers for its address only while it counts.
	if table := h.ip("-n", h.guest, "neighbour", "show", "dev", "eth1", "198.19.0.1"); !strings.Contains(table,
		"fe:6d:70") {
		t.Errorf("the router's neighbour is %q, expected the receiving end", table)
	}
}

func TestBenchThroughGuestsBridge(t *testing.T) {
	t.Parallel()
	h := newForwarding(t)
	h.ip("-n", h.guest, "link", "add", "br2", "type", "bridge", "forward_delay", "0")
	h.ip("-n", h.guest, "link", "set", "br2", "up")
	for _, nic := range []string{"eth0", "eth1"} {
		h.ip("-n", h.guest, "link", "set", nic, "master", "br2")
	}
	h.arrived("--via", "br0", "--out", "br1")
	h.arrived("--via", "br0", "--out", "br1", "--two-way")
	// Between interfaces, which the bridges of the host lead to.
	for _, i := range []string{"0", "1"} {
		h.ip("-n", h.host, "link", "add", "end"+i, "type", "veth", "peer", "name", "port"+i)
		h.ip("-n", h.host, "link", "set", "port"+i, "master", "br"+i, "up")
		h.ip("-n", h.host, "link", "set", "end"+i, "up")
	}
	h.arrived("--from", "end0", "--out", "br1")
	h.arrived("--from", "end0", "--to", "end1", "--reverse")
}
