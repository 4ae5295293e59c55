//go:build netns

package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
)

// tunnelled puts the guest, with four queues, behind a VXLAN whose other end is in a namespace that stands for the
// second host, and returns that namespace. The agent is the guest's, with the words of a command before it.
func (h *hostAndGuest) tunnelled(before ...string) (far string) {
	h.t.Helper()
	far = h.guest + "f"
	h.ip("netns", "add", far)
	h.t.Cleanup(func() { h.ip("netns", "del", far) })
	h.ip("-n", h.host, "link", "del", "tap0")
	for _, link := range []string{
		"add nic0 numtxqueues 8 numrxqueues 8 type veth peer name far0 numtxqueues 8 numrxqueues 8 netns " + far,
		"set nic0 up", "add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.2 local 10.9.0.1 dev nic0",
		"set vx0 master br0 up",
		"add tap0 numtxqueues 4 numrxqueues 4 type veth peer name eth0 numtxqueues 4 numrxqueues 4 netns " + h.guest,
		"set tap0 master br0 up",
	} {
		h.ip(append([]string{"-n", h.host, "link"}, strings.Fields(link)...)...)
	}
	h.ip("-n", h.host, "address", "add", "10.9.0.1/24", "dev", "nic0")
	h.ip("-n", far, "address", "add", "10.9.0.2/24", "dev", "far0")
	h.ip("-n", far, "link", "set", "far0", "up")
	h.ip(strings.Fields("-n " + far +
		" link add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.1 local 10.9.0.2 dev far0")...)
	h.ip("-n", far, "address", "add", "10.50.0.3/24", "dev", "vx0")
	h.ip("-n", far, "link", "set", "vx0", "up")
	h.ip("-n", h.guest, "address", "add", "10.50.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1450", "up")
	h.agent = startAgent(h.t, append(append([]string{"ip", "netns", "exec", h.guest}, before...), "mpps", "agent",
		"--insecure-lab", "--listen", "10.50.0.2:0")...)
	return far
}

// TestAcceptanceQueuesOfOneSender: an agent that may use one CPU sends by one queue, and the step that looks says so.
// TestAcceptanceQueuesAsPrinted has several.
func TestAcceptanceQueuesOfOneSender(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	h := newHostAndGuest(t)
	far := h.tunnelled("taskset", "-c", "0")
	dir := filepath.Join(t.TempDir(), "report")
	code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "acceptance", "queues", "-o", dir,
		"--container", "--short", "--from", "netns:"+far+"/vx0", "--agent", h.agent, "--sink", "af_packet")
	p := must.Get(accept.Open(dir))(t)
	r := p.Last("queues")
	if r == nil {
		t.Fatalf("exit code %d without a run: %s%s", code, stdout, stderr)
	}
	if code != outcome.CodeFailed || r.State != acceptance.Failed || !strings.Contains(r.Why, "step met failed") ||
		!strings.Contains(r.Why, "1 of 4 queues") || len(r.Standing) > 0 {
		t.Errorf("exit code %d, %s: %s", code, r.State, r.Why)
	}
}
