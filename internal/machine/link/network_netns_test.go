//go:build netns

package link

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestNetworkOfNamespace(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1", "link add br0 type bridge "+
		"stp_state 1 nf_call_iptables 1",
		"tuntap add t0 mode tap multi_queue user 7", "tuntap add t1 mode tap", "tuntap add u0 mode tun",
		"link set t0 master br0", "link set v0 master br0", "link set br0 up", "link set v0 up", "link set v1 up",
		"link add vx0 numtxqueues 4 numrxqueues 4 type vxlan id 7 dev v1 dstport 4789", "link add mv0 link v1 type "+
			"macvtap mode bridge",
		"addr add 192.0.2.1/24 dev br0", "route add default via 192.0.2.2")
	treetest.Tool(t, "tc", "qdisc", "add", "dev", "vx0", "clsact")
	treetest.Tool(t, "tc", "filter", "add", "dev", "vx0", "egress", "protocol", "all", "u32", "match", "u32", "0", "0",
		"flowid", ":1")
	m := treetest.Live(t)
	h := &facts.Host{}
	Inventory(context.Background(), m, h)
	must.Hold(t, h.Kernel.Lanes == nil, "an inventory asks the kernel nothing: %+v", h.Kernel.Lanes)
	AskLanes(m, h)
	must.Hold(t, h.Kernel.Lanes != nil && h.Kernel.Lanes.Why == "",
		"asked about lane programs the kernel said %+v", h.Kernel.Lanes)
	must.Hold(t, len(h.NICs) == 0 && len(h.Unseen) == 0, "%d NICs, unseen %v; want none", len(h.NICs), h.Unseen)
	must.Need(t, len(h.Bridges) == 1, "%d bridges, want 1", len(h.Bridges))
	b := h.Bridges[0]
	must.Hold(t, b.STP && b.Snooping && b.CallIPTables && !b.CallIP6Tables &&
		slices.Equal(b.Ports, []string{"t0", "v0"}), "bridge %+v", b)
	if got, want := fmt.Sprint(b.MTU, b.MAC), fmt.Sprint(treetest.IPLink(t, "br0")["mtu"],
		treetest.IPLink(t, "br0")["address"]); got != want {
		t.Errorf("bridge %s, ip shows %s", got, want)
	}
	if got := names(h.Taps, func(t facts.Tap) string {
		return fmt.Sprint(t.Name, " ", t.Type, " ", t.MultiQueue, " ", t.Owner, " ", t.Master, t.Lower)
	}); !slices.Equal(got, []string{"mv0 macvtap false -1 v1", "t0 tap true 7 br0", "t1 tap false -1 "}) {
		t.Errorf("taps %q", got)
	}
	must.Need(t, len(h.Tunnels) == 1, "%d tunnels, want 1", len(h.Tunnels))
	x := h.Tunnels[0]
	must.Hold(t, x.Name == "vx0" && x.Type == "vxlan" && x.Lower == "v1" && x.TxQueues == 4 && x.Lockless &&
		x.LocklessBy != "" && slices.Equal(x.Classifiers, []string{"u32"}), "tunnel %+v", x)
	if _, _, got := devices(m, h); got["br0"] != "default route" || got["v0"] != "default route" || got["v1"] != "" {
		t.Errorf("management path %v, want br0 and its ports", got)
	}
	t.Setenv("SSH_CONNECTION", "192.0.2.9 50000 192.0.2.1 22")
	if _, _, got := devices(m, h); got["v0"] != "default route, route to 192.0.2.9 (SSH client), SSH "+
		"session from 192.0.2.9 port 50000" {
		t.Errorf("management path through v0: %q", got["v0"])
	}
	// Without SSH_CONNECTION every connection to sshd's port counts.
	t.Setenv("SSH_CONNECTION", "")
	treetest.IP(t, "link set lo up")
	listener := must.Get(net.Listen("tcp", "192.0.2.1:22"))(t)
	defer listener.Close()
	if _, _, got := devices(m, h); got["v0"] != "default route" {
		t.Errorf("without a session: %q", got["v0"])
	}
	connection := must.Get(net.Dial("tcp", "192.0.2.1:22"))(t)
	defer connection.Close()
	port := connection.LocalAddr().(*net.TCPAddr).Port
	want := fmt.Sprintf("default route, SSH session from 192.0.2.1 port %d", port)
	if _, _, got := devices(m, h); got["v0"] != want {
		t.Errorf("with a session's socket: %q, want %q", got["v0"], want)
	}
	must.Hold(t, len(h.Softnet) != 0, "no softnet counters")
}

func names[T any](list []T, name func(T) string) []string {
	all := facts.Map(list, name)
	slices.Sort(all)
	return all
}
