package report

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// sample is a small host with every kind of station on its path.
func sample() *facts.Host {
	return &facts.Host{
		Name: "kvm1", Kernel: facts.Kernel{Release: "6.12.1"}, Topology: facts.Topology{
			Model:  "AMD EPYC 7702",
			Counts: facts.Counts{Packages: 2, NUMANodes: 2, Cores: 4, CPUsOnline: 4, CPUsOffline: 1, L3Caches: 2},
			Nodes: []facts.Node{
				{ID: 0, CPUs: setting.CPUs(0, 1), Memory: 3 << 30, Free: 1 << 30},
				{ID: 1, CPUs: setting.CPUs(2, 3), Memory: 3 << 30, Free: 2<<30 + 512<<20,
					Hugepages: []facts.Hugepages{{Size: 2 << 20, Total: 64, Free: 64}}},
			},
		}, NICs: []facts.NIC{
			{Name: "eth0", Driver: "igb", Node: 1, RxQueues: 8, TxQueues: 8, Master: "br0",
				Rings: &facts.Rings{Rx: 1024, Tx: 256}, IRQs: []facts.IRQ{{Affinity: setting.CPUs(0, 1, 2, 3)}},
				SRIOV: &facts.SRIOV{Total: 7, Enabled: 2}},
			{Name: "eth1", Driver: "virtio_net", Node: -1, RxQueues: 4, TxQueues: 4, Management: "default route"},
		}, Bridges: []facts.Bridge{
			{Name: "br0", Ports: []string{"eth0", "vnet0", "vnet1"}, CallIPTables: true, STP: true},
			{Name: "br1"},
		}, Taps: []facts.Tap{{Name: "vnet1", RxQueues: 2, TxQueues: 2, TxQueueLen: 1000}},
		VFs:       []facts.VF{{PF: "eth0", Index: 1, PCI: "0000:41:10.1", Group: 12, Driver: "vfio-pci"}},
		Netfilter: facts.Netfilter{BridgeModule: true, Rules: []facts.RuleSet{{Tool: "iptables-legacy", Rules: 12}}},
		Guests: []facts.Guest{
			{Name: "slow", State: "running", VCPUs: 2, Job: "migration out",
				Inside: &facts.Inside{Why: "it is being migrated"}, Interfaces: []facts.Interface{
					{MAC: "52:54:00:00:00:01", Type: "bridge", Source: "br0", Tap: "vnet0", Model: "e1000",
						Queues: 1}}},
			{Name: "fast", State: "running", VCPUs: 2, Pins: []setting.CPUSet{setting.CPUs(2), setting.CPUs(3)},
				Pending: []string{"interface/52:54:00:00:00:02/driver.queues"},
				Inside: &facts.Inside{Release: "6.12.48", OS: "Debian 13", Host: &facts.Host{
					Kernel: facts.Kernel{Clocksource: "tsc"},
					NICs: []facts.NIC{{Name: "ens3", MAC: "52:54:00:00:00:02",
						Channels: &facts.Channels{Combined: 1, MaxCombined: 2}}},
				}}, Interfaces: []facts.Interface{
					{MAC: "52:54:00:00:00:02", Type: "bridge", Source: "br0", Tap: "vnet1", Model: "virtio",
						Queues: 2}},
				Threads: []facts.Thread{{TID: 4711, Role: "vhost", NIC: "52:54:00:00:00:02", CPU: 2,
					Affinity: setting.CPUs(2, 3)}}},
			{Name: "direct", State: "shut off", Hostdevs: []string{"0000:41:10.1"}},
		}, Unseen: []facts.Unseen{{What: "rules of nft", Why: "needs root"}},
	}
}

func TestInspectView(t *testing.T) {
	text := Draw(80, func(t *Text) { Inspect(t, sample(), false) })
	golden.File(t, "testdata/inspect.txt", text)
	must.Fit(t, text, 80, Visible)
}

// TestUnverifiedIsShown: what only calls itself a guest is shown as such.
func TestUnverifiedIsShown(t *testing.T) {
	h := sample()
	h.Unverified = []facts.Unverified{{PID: 4711, Comm: "qemu-system-x86", Guest: "vm1", Why: "it belongs to user 1000"}}
	text := Draw(100, func(t *Text) { Inspect(t, h, false) })
	must.Hold(t, strings.Contains(text, "4711") &&
		strings.Contains(text, "unverified: calls itself guest vm1, but it belongs to user 1000"), "%s", text)
}

// TestInspectManyGuests: 200 guests fit on two screens, whether on one bridge or on many, and nothing is left out: what
// is not drawn is counted.
func TestInspectManyGuests(t *testing.T) {
	for name, bridges := range map[string]int{"one bridge": 1, "a bridge each": 200, "ten bridges": 10} {
		h := sample()
		h.Guests, h.Bridges, h.Taps = nil, nil, nil
		for b := range bridges {
			h.Bridges = append(h.Bridges, facts.Bridge{Name: fmt.Sprintf("br%d", b), Ports: []string{"eth0"}})
		}
		for g := range 200 {
			b := &h.Bridges[g%bridges]
			tap, mac := fmt.Sprintf("vnet%d", g), fmt.Sprintf("52:54:00:00:01:%02x", g)
			b.Ports = append(b.Ports, tap)
			h.Taps = append(h.Taps, facts.Tap{Name: tap, RxQueues: 1, TxQueueLen: 1000})
			model := []string{"virtio", "virtio", "virtio", "e1000"}[g/bridges%4]
			h.Guests = append(h.Guests, facts.Guest{Name: fmt.Sprintf("vm%d", g), State: "running", VCPUs: 2,
				Interfaces: []facts.Interface{{MAC: mac, Type: "bridge", Source: b.Name, Tap: tap, Model: model}}})
		}
		text := Draw(80, func(t *Text) { Inspect(t, h, false) })
		if lines := strings.Count(text, "\n"); lines > 60 {
			t.Errorf("%s: %d lines:\n%s", name, lines, text)
		}
		must.Hold(t, !strings.Contains(text, "  guest   vm"), "%s: a guest is on no path:\n%s", name, text)
		if all := Draw(80, func(t *Text) { Inspect(t, h, true) }); strings.Count(all, "guest  vm") != 200 {
			t.Errorf("%s: -v draws %d guests", name, strings.Count(all, "guest  vm"))
		}
	}
}

// TestBoundByOthers: a guest that libvirt does not know is shown on the CPUs that somebody bound its threads to, and is
// not alike to one that runs anywhere.
func TestBoundByOthers(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 1, Queues: 1, Guests: 2})
	for i, cpus := range []setting.CPUSet{setting.CPUs(2, 3), h.Topology.Online} {
		g := &h.Guests[i]
		g.Managed, g.Pins, g.Threads = false, nil, []facts.Thread{{Role: "vcpu", Affinity: cpus}}
	}
	text := Draw(200, func(t *Text) { Inspect(t, h, false) })
	must.Contain(t, text, "on CPUs 2-3", "vCPUs not pinned")
}

// TestOthersSayWhatIsKnown: that a NIC is on no guest's path is said only where all guests were seen, and a VLAN on a
// bridge of guests is called their gateway.
func TestOthersSayWhatIsKnown(t *testing.T) {
	established, unknown := "not on a path to a guest", "whether guests' packets pass is not known"
	for name, c := range map[string]struct {
		edit       func(h *facts.Host)
		has, lacks string
	}{
		"all seen":      {func(h *facts.Host) {}, established, unknown},
		"guests unseen": {func(h *facts.Host) { h.Unseen = append(h.Unseen, facts.GuestsUnseen("needs root")) }, unknown, established},
		"Xen":           {func(h *facts.Host) { h.KVM.XenDom0 = true }, unknown, established},
		"a gateway": {func(h *facts.Host) {
			h.Tunnels = append(h.Tunnels, facts.Tunnel{Name: "br0.5", Type: "vlan", Lower: "br0", Up: true})
		}, "or their gateway", unknown},
	} {
		h := sample()
		c.edit(h)
		text := strings.Join(strings.Fields(Draw(200, func(t *Text) { Inspect(t, h, false) })), " ")
		must.Hold(t, strings.Contains(text, c.has) && !strings.Contains(text, c.lacks),
			"%s: expected %q and not %q in\n%s", name, c.has, c.lacks, text)
	}
}

// TestProgramTaps has a bridge without guests, and taps on it that programs have open.
func TestProgramTaps(t *testing.T) {
	t.Parallel()
	h := &facts.Host{Bridges: []facts.Bridge{{Name: "br0"}}}
	for i := range 9 {
		h.Taps = append(h.Taps, facts.Tap{Name: fmt.Sprint("tap", i), Master: "br0", RxQueues: 1})
	}
	ways, _ := Ways(h, false)
	must.Hold(t, len(ways) == 1 && len(ways[0].Branches) == mostAlike &&
		len(ways[0].Branches[mostAlike-1].Alike) == 9-mostAlike, "found %+v", ways)
}
