//go:build netns

package host

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/facts"
)

func TestNetworkOfNamespace(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	ip(t, "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1", "link add br0 type bridge stp_state 1 nf_call_iptables 1",
		"tuntap add t0 mode tap multi_queue user 7", "tuntap add t1 mode tap", "tuntap add u0 mode tun",
		"link set t0 master br0", "link set v0 master br0", "link set br0 up", "link set v0 up", "link set v1 up",
		"link add vx0 numtxqueues 4 numrxqueues 4 type vxlan id 7 dev v1 dstport 4789", "link add mv0 link v1 type macvtap mode bridge",
		"addr add 192.0.2.1/24 dev br0", "route add default via 192.0.2.2")
	tool(t, "tc", "qdisc", "add", "dev", "vx0", "clsact")
	tool(t, "tc", "filter", "add", "dev", "vx0", "egress", "protocol", "all", "u32", "match", "u32", "0", "0", "flowid", ":1")
	m := liveMachine(t)
	h := &facts.Host{}
	m.network(context.Background(), h)
	if h.Kernel.Lanes != nil {
		t.Errorf("an inventory asks the kernel nothing: %+v", h.Kernel.Lanes)
	}
	m.AskLanes(h)
	if h.Kernel.Lanes == nil || h.Kernel.Lanes.Why != "" {
		t.Errorf("asked about lane programs the kernel said %+v", h.Kernel.Lanes)
	}
	if len(h.NICs) != 0 || len(h.Unseen) != 0 {
		t.Errorf("%d NICs, unseen %v; want none", len(h.NICs), h.Unseen)
	}
	if len(h.Bridges) != 1 {
		t.Fatalf("%d bridges, want 1", len(h.Bridges))
	}
	b := h.Bridges[0]
	if !b.STP || !b.Snooping || !b.CallIPTables || b.CallIP6Tables || !slices.Equal(b.Ports, []string{"t0", "v0"}) {
		t.Errorf("bridge %+v", b)
	}
	if got, want := fmt.Sprint(b.MTU, b.MAC), fmt.Sprint(ipLink(t, "br0")["mtu"], ipLink(t, "br0")["address"]); got != want {
		t.Errorf("bridge %s, ip shows %s", got, want)
	}
	if got := names(h.Taps, func(t facts.Tap) string {
		return fmt.Sprint(t.Name, " ", t.Type, " ", t.MultiQueue, " ", t.Owner, " ", t.Master, t.Lower)
	}); !slices.Equal(got, []string{"mv0 macvtap false -1 v1", "t0 tap true 7 br0", "t1 tap false -1 "}) {
		t.Errorf("taps %q", got)
	}
	if len(h.Tunnels) != 1 {
		t.Fatalf("%d tunnels, want 1", len(h.Tunnels))
	}
	x := h.Tunnels[0]
	if x.Name != "vx0" || x.Type != "vxlan" || x.Lower != "v1" || x.TxQueues != 4 || !x.Lockless || x.LocklessBy == "" || !slices.Equal(x.Classifiers, []string{"u32"}) {
		t.Errorf("tunnel %+v", x)
	}
	if got := m.managementPath(m.devices(h)); got["br0"] != "default route" || got["v0"] != "default route" || got["v1"] != "" {
		t.Errorf("management path %v, want br0 and its ports", got)
	}
	t.Setenv("SSH_CONNECTION", "192.0.2.9 50000 192.0.2.1 22")
	if got := m.managementPath(m.devices(h))["v0"]; got != "default route, route to 192.0.2.9 (SSH client), SSH session from 192.0.2.9 port 50000" {
		t.Errorf("management path through v0: %q", got)
	}
	// Nothing says who the operator is: every connection to sshd's port counts, by its socket.
	t.Setenv("SSH_CONNECTION", "")
	ip(t, "link set lo up")
	listener, err := net.Listen("tcp", "192.0.2.1:22")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if got := m.managementPath(m.devices(h))["v0"]; got != "default route" {
		t.Errorf("without a session: %q", got)
	}
	connection, err := net.Dial("tcp", "192.0.2.1:22")
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	port := connection.LocalAddr().(*net.TCPAddr).Port
	if got, want := m.managementPath(m.devices(h))["v0"], fmt.Sprintf("default route, SSH session from 192.0.2.1 port %d", port); got != want {
		t.Errorf("with a session's socket: %q, want %q", got, want)
	}
	if len(h.Softnet) == 0 {
		t.Error("no softnet counters")
	}
}

func TestNetfilterOfNamespace(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	m := liveMachine(t)
	ctx := context.Background()
	empty := &facts.Host{}
	m.netfilter(ctx, empty)
	if len(empty.Netfilter.Backends) != 0 {
		t.Errorf("rules in a new namespace: %+v", empty.Netfilter)
	}
	if tables := m.line("proc/net/ip_tables_names"); tables != "" {
		t.Errorf("looking at the rules has made tables %q", tables)
	}
	want := map[string]int{}
	for _, c := range []struct {
		backend string
		rules   int
		program []string
	}{
		{"iptables-legacy", 2, []string{"iptables-legacy", "-A", "FORWARD", "-s", "192.0.2.1", "-j", "DROP"}},
		{"", 0, []string{"iptables-legacy", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"}},
		{"nft", 2, []string{"nft", "add table inet x; add chain inet x gate { type filter hook forward priority 0; policy drop; }; add rule inet x gate counter accept"}},
		{"iptables-nft", 0, []string{"iptables-nft", "-A", "FORWARD", "-s", "192.0.2.1", "-j", "DROP"}},
	} {
		if _, err := exec.LookPath(c.program[0]); err != nil {
			t.Skipf("%s is not installed", c.program[0])
		}
		tool(t, c.program[0], c.program[1:]...)
		if c.backend != "" {
			want[c.backend] = c.rules
		}
	}
	h := &facts.Host{}
	m.netfilter(ctx, h)
	if len(h.Unseen) != 0 || !slices.Equal(h.Netfilter.Backends, []string{"iptables-legacy", "iptables-nft", "nft"}) {
		t.Errorf("back ends %v, unseen %v; want %v", h.Netfilter.Backends, h.Unseen, want)
	}
	for _, set := range h.Netfilter.Rules {
		if set.Rules != want[set.Tool] {
			t.Errorf("%s: %d rules, want %d: %q", set.Tool, set.Rules, want[set.Tool], set.Lines)
		}
		if text := strings.Join(set.Lines, "\n"); !strings.Contains(text, "192.0.2.1") || strings.Contains(text, "packets") {
			t.Errorf("%s:\n%s", set.Tool, text)
		}
	}
}

func TestInventoryWithoutRoot(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	ip(t, "link add br0 type bridge", "tuntap add t0 mode tap", "link set t0 master br0")
	tool(t, "iptables-legacy", "-A", "FORWARD", "-j", "ACCEPT")
	m := liveMachine(t)
	if err := syscall.Setgroups(nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setresgid(65534, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setresuid(65534, 65534, 65534); err != nil { // all threads: this process is the test's own
		t.Fatal(err)
	}
	h := &facts.Host{}
	start := time.Now()
	m.network(context.Background(), h)
	m.netfilter(context.Background(), h)
	if len(h.Bridges) != 1 || len(h.Taps) != 1 || len(h.Bridges[0].Ports) != 1 {
		t.Errorf("without root: %d bridges, %d taps; want 1 and 1", len(h.Bridges), len(h.Taps))
	}
	m.AskLanes(h)
	if h.Kernel.Lanes != nil {
		t.Errorf("without root the kernel said of lane programs %+v", h.Kernel.Lanes)
	}
	for _, tool := range []string{"iptables-legacy", "nft"} {
		if !slices.Contains(h.Unseen, facts.RulesUnseen(tool, "", "needs root")) {
			t.Errorf("unseen %v: want the rules of %s because it needs root", h.Unseen, tool)
		}
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}
