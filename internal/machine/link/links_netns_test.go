//go:build netns

package link

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// inventory returns what the inventory says of the namespace.
func inventory(t *testing.T) *facts.Host {
	t.Helper()
	h := &facts.Host{}
	Inventory(context.Background(), treetest.Live(t), h)
	return h
}

func find[T any](t *testing.T, list []T, what string, wanted func(*T) bool) *T {
	t.Helper()
	one := facts.Find(list, wanted)
	if one == nil {
		t.Fatalf("%s is not listed", what)
	}
	return one
}

func linkNamed(t *testing.T, h *facts.Host, name string) *facts.Link {
	t.Helper()
	return find(t, h.Links, name, func(l *facts.Link) bool { return l.Name == name })
}

func tunnelNamed(t *testing.T, h *facts.Host, name string) *facts.Tunnel {
	t.Helper()
	return find(t, h.Tunnels, name, func(x *facts.Tunnel) bool { return x.Name == name })
}

// TestLinksOfNamespace lists pairs, one end of which is in another namespace, and devices that share another one.
func TestLinksOfNamespace(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add v0 type veth peer name v1", "netns add other", "link add c0 type veth peer name eth0 netns other",
		"link add br0 type bridge", "link set v0 master br0", "link set c0 master br0",
		"link add mv0 link v1 type macvlan mode bridge", "link add w0 type veth peer name w1", "link add mt0 link w0 type macvtap mode passthru",
		"link set v1 up", "link add mt1 link w1 type macvtap mode private",
		"-n other link add away type veth peer name w9", "-n other link add mc0 link away type macvlan mode vepa",
		fmt.Sprintf("-n other link set mc0 netns %d", os.Getpid()))
	defer treetest.IP(t, "netns del other")
	h := inventory(t)
	for _, want := range []facts.Link{
		{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"}, {Name: "v1", Kind: "veth", Peer: "v0", Up: true},
		{Name: "c0", Kind: "veth", Master: "br0", Elsewhere: true},
		{Name: "mv0", Kind: "macvlan", Lower: "v1"}, {Name: "mc0", Kind: "macvlan", Elsewhere: true},
	} {
		if got := *linkNamed(t, h, want.Name); !sameLink(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	must.Hold(t, len(h.Links) == 7, "%d links, want 7: %+v", len(h.Links), h.Links)
	for name, mode := range map[string]string{"mt0": "passthru", "mt1": "private"} {
		tap := find(t, h.Taps, name, func(x *facts.Tap) bool { return x.Name == name })
		must.Hold(t, tap.Mode == mode && tap.Type == "macvtap", "%s: %+v, want mode %s", name, tap, mode)
	}
}

func sameLink(a, b facts.Link) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Master == b.Master && a.Peer == b.Peer && a.Lower == b.Lower &&
		a.Up == b.Up && a.Elsewhere == b.Elsewhere && slices.Equal(a.Underlay, b.Underlay)
}

// TestUnderlays resolves tunnels that are bound to no device by their remote ends: one of its own, those of the
// forwarding database, of which a control plane may write thousands, and several next hops of one route.
func TestUnderlays(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add a0 type veth peer name a1", "link add b0 type veth peer name b1",
		"link add c0 type veth peer name c1", "addr add 192.0.2.1/24 dev a0", "addr add 198.51.100.1/24 dev b0",
		"addr add 203.0.113.1/24 dev c0", "addr add 10.0.0.1/32 dev lo", "addr add 2001:db8::1/64 dev c0 nodad",
		"link set lo up", "link set a0 up", "link set a1 up", "link set b0 up", "link set b1 up", "link set c0 up",
		"link set c1 up",
		"route add 10.0.1.0/24 nexthop via 192.0.2.2 nexthop via 198.51.100.2",
		"route add 10.0.2.0/24 via 203.0.113.2",
		"link add x-remote type vxlan id 1 dstport 4789 remote 10.0.2.7",
		"link add x-six type vxlan id 2 dstport 4789 remote 2001:db8::7",
		"link add x-evpn type vxlan id 3 dstport 4789 local 10.0.0.1 nolearning",
		"link add x-empty type vxlan id 4 dstport 4789 local 10.0.0.1 nolearning",
		"link add x-local type vxlan id 5 dstport 4789 local 203.0.113.1 nolearning",
		"link add x-meta type vxlan dstport 4790 external",
		"link add x-encap type vxlan dstport 4792 external", "link set x-encap up",
		"route add 10.98.0.0/16 encap ip id 7 dst 10.0.2.7 dev x-encap",
		"link add x-single type vxlan dstport 4791 local 10.0.0.1 nolearning external",
		"link add x-dev type vxlan id 6 dstport 4789 dev c0 remote 10.0.1.7",
		"link add x-unreachable type vxlan id 7 dstport 4789 remote 100.64.0.1")
	for _, mac := range []string{"00:00:00:00:00:00", "02:00:00:00:00:07"} {
		treetest.Tool(t, "bridge", "fdb", "append", mac, "dev", "x-evpn", "dst", "10.0.1.7")
	}
	// one device for all networks of a fabric: its bridge says which
	treetest.Tool(t, "bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "x-single", "dst", "10.0.1.7", "src_vni", "9")
	h := inventory(t)
	for name, want := range map[string]string{
		"x-remote": "c0", "x-six": "c0", "x-evpn": "a0 b0", "x-empty": "", "x-local": "c0", "x-meta": "", "x-dev": "",
		"x-unreachable": "", "x-single": "a0 b0", "x-encap": "c0",
	} {
		x := tunnelNamed(t, h, name)
		must.Equal(t, strings.Join(x.Underlay, " "), want, "%s leaves by", name)
		must.Equal(t, x.External, slices.Contains([]string{"x-meta", "x-single", "x-encap"}, name),
			"%s: external", name)
	}
}

// TestForwardingOfThousands bounds what is looked up.
func TestForwardingOfThousands(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add a0 type veth peer name a1", "addr add 10.0.0.1/8 dev a0", "link set a0 up", "link set a1 up",
		"link add x type vxlan id 3 dstport 4789 local 10.0.0.1 nolearning")
	var batch strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&batch, "fdb append 02:00:00:00:%02x:%02x dev x dst 10.1.%d.%d\n", i>>8, i&255, i>>8, i&255|1)
	}
	cmd := exec.Command("bridge", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := treetest.CPUTime(t)
	h := inventory(t)
	if used := treetest.CPUTime(t) - before; used.Milliseconds() > 200 {
		t.Errorf("it took %v of CPU time", used)
	}
	if x := tunnelNamed(t, h, "x"); !slices.Equal(x.Underlay, []string{"a0"}) {
		t.Errorf("%+v", x)
	}
	find(t, h.Unseen, "what was not looked up", func(u *facts.Unseen) bool { return strings.Contains(u.What, "remote ends of x") })
}

// TestTunnelsOfThousands: what tunnels leave by costs no list of addresses or of remote ends for each.
func TestTunnelsOfThousands(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add a0 type veth peer name a1", "link set a0 up", "link set a1 up")
	var batch strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&batch, "addr add 10.0.%d.%d/8 dev a0\n", i>>8, i&255)
	}
	for i := range 300 {
		fmt.Fprintf(&batch, "link add x%d type vxlan id %d dstport 4789 local 10.0.0.1\n", i, i+1)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := treetest.CPUTime(t)
	h := inventory(t)
	if used := treetest.CPUTime(t) - before; used.Seconds() > 1 {
		t.Errorf("it took %v of CPU time", used)
	}
	if x := tunnelNamed(t, h, "x299"); !slices.Equal(x.Underlay, []string{"a0"}) {
		t.Errorf("%+v", x)
	}
}

func set(t *testing.T, sysctl, value string) {
	t.Helper()
	must.Do(t, os.WriteFile(path.Join("/proc/sys", sysctl), []byte(value), 0))
}

// TestTapRedirects: what filters let arrive at a port goes to its bridge, and at another device where it would go
// anyway.
func TestTapRedirects(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "tuntap add t0 mode tap", "tuntap add t1 mode tap", "link set t0 up", "link set t1 up",
		"link add v0 type veth peer name v1", "link add br0 type bridge", "link set v1 master br0",
		"link add ifb0 type ifb", "link set t1 master br0")
	for tap, actions := range map[string][]string{"t0": {"ingress redirect dev v1", "ingress redirect dev v0"},
		"t1": {"egress redirect dev ifb0", "egress mirror dev v0"}} {
		treetest.Tool(t, "tc", "qdisc", "add", "dev", tap, "ingress")
		for _, action := range actions {
			treetest.Tool(t, "tc", strings.Fields("filter add dev "+tap+
				" parent ffff: protocol all u32 match u32 0 0 action mirred "+action)...)
		}
	}
	h := inventory(t)
	for name, want := range map[string]string{"t0": "br0", "t1": "ifb0"} {
		tap := facts.Find(h.Taps, func(tap *facts.Tap) bool { return tap.Name == name })
		must.Hold(t, tap != nil && slices.Equal(tap.Redirects, []string{want}), "%s: %+v", name, tap)
	}
}

// TestRoutingOfNamespace reads who forwards, and by what.
func TestRoutingOfNamespace(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link set lo up", "link add a0 type veth peer name a1", "link add b0 type veth peer name b1",
		"link add c0 type veth peer name c1", "link add br0 type bridge", "link add br1 type bridge",
		"tuntap add u0 mode tun", "link set u0 up", "link set a1 up", "link set b1 up", "link set c1 up",
		"link set a0 up", "link set b0 up", "link set c0 up", "link set br0 up", "link set br1 up",
		"addr add 192.0.2.1/24 dev a0", "addr add 198.51.100.1/24 dev b0", "addr add 10.0.0.1/24 dev br0",
		"route add default via 192.0.2.2", "route add default via 198.51.100.2 table 100",
		"route add 10.9.0.0/24 dev br1", "route add 10.8.0.0/24 dev u0", "route add unreachable 10.7.0.0/16",
		"nexthop add id 5 via 203.0.113.2 dev c0 onlink", "route add 100.64.0.0/10 nhid 5")
	r := inventory(t).Routing
	if r == nil || r.Forward != facts.No || !slices.Equal(r.Addressed, []string{"a0", "b0", "br0", "br1"}) ||
		!slices.Equal(r.Uplinks, []string{"a0", "b0", "c0", "u0"}) {
		t.Fatalf("%+v", r)
	}
	treetest.IP(t, "link add d0 type veth peer name d1", "link set d0 up", "route add 0.0.0.0/1 dev d0",
		"route add 128.0.0.0/1 dev d0")
	if r := inventory(t).Routing; !slices.Equal(r.Uplinks, []string{"a0", "b0", "c0", "d0", "u0"}) {
		t.Errorf("by a default route in halves: %+v", r)
	}
	set(t, "net/ipv4/conf/b0/forwarding", "1")
	if r := inventory(t).Routing; r.Forward != facts.Yes {
		t.Errorf("b0 forwards: %+v", r)
	}
	set(t, "net/ipv4/conf/b0/forwarding", "0")
	set(t, "net/ipv4/nexthop_compat_mode", "0")
	if r := inventory(t).Routing; !slices.Contains(r.Uplinks, "c0") || r.Forward != facts.No {
		t.Errorf("by a nexthop object alone: %+v", r)
	}
	set(t, "net/ipv6/conf/all/forwarding", "1")
	if r := inventory(t).Routing; r.Forward != facts.Yes {
		t.Errorf("IPv6 is forwarded: %+v", r)
	}
}

// TestFiltersOfThousands: root in a namespace can give a tap any number of filters, and loses the namespace's view with
// them.
func TestFiltersOfThousands(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "tuntap add t0 mode tap")
	filter := func(first, beyond int) {
		text := ""
		for pref := first; pref < beyond; pref++ {
			text += fmt.Sprintf("filter add dev t0 ingress pref %d protocol ip u32 match u32 0 0\n", pref)
		}
		batch := path.Join(t.TempDir(), "batch")
		must.Do(t, os.WriteFile(batch, []byte(text), 0o600))
		treetest.Tool(t, "tc", "-batch", batch)
	}
	treetest.Tool(t, "tc", "qdisc", "add", "dev", "t0", "clsact")
	filter(1, 11)
	there := must.Get(ReadThere(treetest.Live(t), 100))(t)
	must.Hold(t, len(there.taps) == 1, "%d taps with filters", len(there.taps))
	filter(11, mostFilters+2)
	_, err := ReadThere(treetest.Live(t), 100)
	must.Say(t, err, "t0 has more than 1024 tc filters", "a crowd of filters")
}
