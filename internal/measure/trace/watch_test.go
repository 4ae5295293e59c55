package trace

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRhythm: windows and pauses together take their share of the busiest CPU, however busy it is, in windows that are
// neither too short nor many, and where windows end too late.
func TestRhythm(t *testing.T) {
	for _, late := range []time.Duration{0, 40 * time.Millisecond} {
		for _, part := range []float64{0.02, 0.05, 0.2, 0.5, 0.9} {
			var windows, pauses time.Duration
			r := rhythm{length: shortest}
			for i := range 100 {
				held := r.length + lead + late
				pause := r.next(held, time.Duration(part*float64(held)), float64(i)/100)
				windows += held
				pauses += pause
				if r.length < shortest || held+pause < cycle/2 && late == 0 && i > 5 {
					t.Errorf("%.2f spent: a window of %v, and %v to the next", part, held, pause)
				}
			}
			took := part * float64(windows) / float64(windows+pauses)
			if took > share*1.05 || took < share*0.9 {
				t.Errorf("%.2f spent within windows that end %v late: %.4f of the CPU's time, expected %.4f", part,
					late, took, share)
			}
		}
	}
	r := rhythm{length: shortest}
	for i := range 10 {
		before := r.length
		if pause := r.next(before+lead, 0, 0.5); pause != 0 || r.length > 2*before {
			t.Errorf("window %d on an idle machine: %v after one of %v, %v apart", i, r.length, before, pause)
		}
	}
	must.Equal(t, r.length, cycle, "after many windows on an idle machine they last")
	if pause := r.next(time.Second, time.Second, 0.9); pause != longest || r.length != shortest {
		t.Errorf("after a window of an overloaded machine %v and then one of %v, expected %v and %v", pause, r.length,
			longest, shortest)
	}
	if r.next(shortest, 0, 0.5); r.length > 2*shortest {
		t.Errorf("one window without packets later they last %v", r.length)
	}
}

func TestTimeIsBounded(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, time.Hour + 1} {
		if _, err := Watch(context.Background(), Config{For: d}); err == nil ||
			!strings.Contains(err.Error(), "at most an hour") {
			t.Errorf("for %v: %v, expected a refusal", d, err)
		}
	}
	must.Say(t, must.Err(Watch(context.Background(), Config{For: time.Second, Netns: "there-is-none"})),
		"there-is-none", "a namespace that is not there")
}

func TestNodesAndWorkers(t *testing.T) {
	h := &facts.Host{
		Topology: facts.Topology{CPUs: []facts.CPU{{ID: 0, Node: 0}, {ID: 1, Node: 1}, {ID: 3, Node: 0}}},
		Guests: []facts.Guest{{
			Name: "vm1", MemoryNodes: setting.CPUs(1),
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "vnet0"}, {MAC: "52:54:00:00:00:02"}},
			Threads: []facts.Thread{
				{TID: 1 << 30, Role: "vhost", NIC: "52:54:00:00:00:01", Queue: 1, CPU: 3}, {TID: 5, Role: "vcpu"},
				{TID: 6, Role: "vhost"}, {TID: 7, Role: "vhost", NIC: "52:54:00:00:00:02"},
			},
		}},
	}
	if found := cpuNodes(h); len(found) != 4 || found[1] != 1 || found[2] != -1 || found[3] != 0 {
		t.Errorf("nodes %v, expected 0 1 -1 0", found)
	}
	want := queuepath.Vhost{Guest: "vm1", Device: "vnet0", Queue: 1, Thread: 1 << 30, CPU: 3, Memory: setting.CPUs(1)}
	if found := vhost(h, namespace{}); len(found) != 1 || !reflect.DeepEqual(found[0], want) {
		t.Errorf("workers %+v, expected %+v: of a thread that is gone the CPU is the last known", found, want)
	}
	if found := vhost(h, namespace{name: "blue"}); found != nil {
		t.Errorf("workers %+v in another namespace", found)
	}
}

// TestUntold: on bare metal, and in a guest without paravirtual spinlocks, the result says that some waits are not
// seen.
func TestUntold(t *testing.T) {
	for _, c := range []struct{ virtual, arch, why string }{
		{"", "amd64", "queue behind it"}, {"", "arm64", "queue behind it"}, {"kvm", "arm64", "queue behind it"},
		{"kvm", "amd64", ""}, {"xen", "amd64", ""}, {"tcg", "amd64", "as a guest of tcg"},
		{"unknown", "amd64", "no wait at all"},
	} {
		u := unseenWaits(c.virtual, c.arch)
		must.Hold(t, (u.Blind == queuepath.BlindFirst) == (c.why != "") && strings.Contains(u.Why, c.why),
			"%+v: %+v", c, u)
	}
	w := &watcher{inventory: &inventory{host: &facts.Host{}}}
	if u := w.unseenWaits(); u.What == "" {
		t.Error("on bare metal nothing is said")
	}
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n": true, "flags\t\t: fpu vme\n": false,
		"model name\t: hypervisor\n": false, "": false,
	} {
		must.Hold(t, guestFlag(text) == want, "%q: expected %v", text, want)
	}
}

// TestByQueue has a line of each driver's form, and others of theirs that look alike and count something else.
func TestByQueue(t *testing.T) {
	rx := func(n int) queuepath.Queue { return queuepath.Queue{Device: "eth0", Direction: queuepath.Rx, Queue: n} }
	tx := func(n int) queuepath.Queue { return queuepath.Queue{Device: "eth0", Direction: queuepath.Tx, Queue: n} }
	for name, c := range map[string]struct {
		statistics map[string]uint64
		want       map[queuepath.Queue]amount
	}{
		"igb": {
			map[string]uint64{"rx_packets": 90, "tx_queue_0_packets": 7, "tx_queue_0_bytes": 700,
				"tx_queue_11_packets": 3, "tx_queue_0_restart": 5, "rx_queue_2_packets": 4, "rx_queue_2_drops": 9},
			map[queuepath.Queue]amount{tx(0): {7, 700}, tx(11): {packets: 3}, rx(2): {packets: 4}},
		},
		"mlx5": {
			map[string]uint64{"rx0_packets": 1, "rx0_bytes": 60, "tx3_packets": 2, "tx3_tso_packets": 8,
				"ch0_events": 9, "rx_xdp_drop": 1},
			map[queuepath.Queue]amount{rx(0): {1, 60}, tx(3): {packets: 2}},
		},
		"i40e": {map[string]uint64{"tx-1.packets": 5, "rx-0.rx_packets": 6, "port.tx_bytes": 7},
			map[queuepath.Queue]amount{tx(1): {packets: 5}, rx(0): {packets: 6}}},
		"gve": {map[string]uint64{"rx_packets[4]": 5, "tx_bytes[4]": 6, "rx_packets": 7},
			map[queuepath.Queue]amount{rx(4): {packets: 5}, tx(4): {bytes: 6}}},
		"bnxt": {map[string]uint64{"[2]: rx_ucast_packets": 5, "[2]: rx_mcast_packets": 2, "[2]: rx_discards": 9},
			map[queuepath.Queue]amount{rx(2): {packets: 7}}},
		"ena": {map[string]uint64{"queue_0_tx_cnt": 5, "queue_0_tx_bytes": 50, "queue_0_xdp_tx_cnt": 3,
			"queue_0_tx_queue_stop": 1}, map[queuepath.Queue]amount{tx(0): {5, 50}}},
		"veth": {map[string]uint64{"peer_ifindex": 3, "rx_queue_1_xdp_packets": 5, "rx_queue_1_xdp_drops": 4},
			map[queuepath.Queue]amount{rx(1): {packets: 5}}},
		"nonsense": {map[string]uint64{"rx99999999999_packets": 5, "rx_queue_65535_packets": 6},
			map[queuepath.Queue]amount{}},
	} {
		t.Run(name, func(t *testing.T) {
			found := byQueue("eth0", c.statistics)
			must.Hold(t, len(found) == len(c.want), "found %v, expected %v", found, c.want)
			for q, want := range c.want {
				must.Equal(t, found[q], want, "%v", q)
			}
		})
	}
}

// TestTunnelOfLink: what a device's own data tell of its UDP port, in whatever order they come.
func TestTunnelOfLink(t *testing.T) {
	attr := func(kind uint16, data ...byte) netlink.Attribute { return netlink.Attribute{Type: kind, Data: data} }
	port := []byte{0x30, 0x39} // 12345
	for name, c := range map[string]struct {
		kind string
		data []netlink.Attribute
		want tunnelPort
	}{
		"vxlan": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...)}, tunnelPort{12345, inVXLAN}},
		"vxlan gpe": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...),
			attr(unix.IFLA_VXLAN_GPE)}, tunnelPort{12345, inVXLANGPE}},
		"vxlan, gpe first": {"vxlan", []netlink.Attribute{attr(unix.IFLA_VXLAN_GPE),
			attr(unix.IFLA_VXLAN_PORT, port...)}, tunnelPort{12345, inVXLANGPE}},
		"geneve": {"geneve", []netlink.Attribute{attr(unix.IFLA_GENEVE_PORT, port...)}, tunnelPort{12345, inGeneve}},
		"gretap in fou": {"gretap", []netlink.Attribute{attr(14, 1, 0), attr(17, port...)},
			tunnelPort{12345, inFoUGRE}},
		"gretap in gue":        {"gretap", []netlink.Attribute{attr(14, 2, 0), attr(17, port...)}, tunnelPort{12345, inGUE}},
		"ipip in fou":          {"ipip", []netlink.Attribute{attr(15, 1, 0), attr(18, port...)}, tunnelPort{12345, inFoUIP}},
		"sit in gue":           {"sit", []netlink.Attribute{attr(15, 2, 0), attr(18, port...)}, tunnelPort{12345, inGUE}},
		"gre without UDP":      {"gre", []netlink.Attribute{attr(14, 0, 0), attr(17, 0, 0)}, tunnelPort{}},
		"a bridge has no port": {"bridge", []netlink.Attribute{attr(unix.IFLA_VXLAN_PORT, port...)}, tunnelPort{}},
		"a port of one byte":   {"geneve", []netlink.Attribute{attr(unix.IFLA_GENEVE_PORT, 1)}, tunnelPort{0, inGeneve}},
		"bareudp, maybe of MPLS": {"bareudp", []netlink.Attribute{attr(unix.IFLA_BAREUDP_PORT, port...)},
			tunnelPort{12345, inOpaque}},
	} {
		data := must.Get(netlink.MarshalAttributes(c.data))(t)
		info := must.Get(netlink.MarshalAttributes(
			[]netlink.Attribute{attr(unix.IFLA_INFO_KIND, append([]byte(c.kind), 0)...),
				attr(unix.IFLA_INFO_DATA, data...)}))(t)
		link := must.Get(netlink.MarshalAttributes([]netlink.Attribute{attr(unix.IFLA_LINKINFO, info...)}))(t)
		l, err := parseLink(slices.Concat(make([]byte, unix.SizeofIfInfomsg), link))
		must.Hold(t, err == nil && l.tunnel == c.want, "%s: %v, %v, expected %v", name, l.tunnel, err, c.want)
	}
}

func TestParseFoU(t *testing.T) {
	for name, c := range map[string]struct {
		kind, protocol byte
		want           inside
	}{
		"gue": {2, 0, inGUE}, "gre": {1, unix.IPPROTO_GRE, inFoUGRE}, "ipip": {1, unix.IPPROTO_IPIP, inFoUIP},
		"sit":  {1, unix.IPPROTO_IPV6, inFoUIP},
		"MPLS": {1, unix.IPPROTO_MPLS, inOpaque}, "a type of tomorrow": {3, unix.IPPROTO_IPIP, inOpaque},
	} {
		message := must.Get(netlink.MarshalAttributes([]netlink.Attribute{
			{Type: fouAttrPort, Data: []byte{0x15, 0xb3}}, {Type: fouAttrProto, Data: []byte{c.protocol}},
			{Type: fouAttrType, Data: []byte{c.kind}},
		}))(t)
		if p, err := parseFoU(message); err != nil || p != (tunnelPort{5555, c.want}) {
			t.Errorf("%s: %v, %v, expected port 5555 with %d", name, p, err, c.want)
		}
	}
}
