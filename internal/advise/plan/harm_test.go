package plan

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ordinary is a host of 64 CPUs with two NICs that nothing is wrong with, under load for two seconds: frames of 1514
// bytes, no loss, and one round of the softirq in 3 million packets that was cut short.
func ordinary(t *testing.T) *facts.Host {
	t.Helper()
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 16, Guests: 4})
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.CouldNotTell("not of this test")
	}
	for a, value := range map[string]string{
		"sysctl:net.core.netdev_budget": "300", "sysctl:net.core.netdev_budget_usecs": "8000",
		"sysctl:net.core.dev_weight": "64", "sysctl:net.core.netdev_max_backlog": "1000",
		"nic-ring:eth0/rx": "2048", "nic-ring:eth0/tx": "512", "nic-ring:eth1/rx": "2048", "nic-ring:eth1/tx": "512",
	} {
		at := must.Get(setting.ParseAddress(a))(t)
		h.Readings[at] = setting.Value(value)
	}
	h.Interval = &facts.Interval{Seconds: 2, Devices: map[string]map[string]uint64{}, IRQs: map[string]uint64{},
		Softnet: []facts.Softnet{{CPU: 0, Processed: 3_000_000, Squeezed: 1, Rounds: 50_000}}}
	for _, n := range h.NICs {
		h.Interval.Devices[n.Name] = map[string]uint64{"rx_packets": 1_500_000, "rx_bytes": 1514 * 1_500_000,
			"tx_packets": 1_500_000, "rx_missed_errors": 0}
		h.Interval.IRQs[n.Name] = 10_000
	}
	return h
}

// TestNothingIsShortened: no plan for a goal takes descriptors from a ring, whatever the frames, driver and cache.
func TestNothingIsShortened(t *testing.T) {
	for _, driver := range []string{"ice", "mlx5_core", "bnxt_en", "virtio_net"} {
		for _, frame := range []uint64{64, 1514, 9014} {
			for _, vendor := range []string{"GenuineIntel", "AuthenticAMD", ""} {
				h := ordinary(t)
				h.Topology.Vendor = vendor
				for i := range h.NICs {
					h.NICs[i].Driver = driver
					h.Interval.Devices[h.NICs[i].Name]["rx_bytes"] = frame * 1_500_000
				}
				for _, g := range []goal.Goal{goal.Unlimited(), {PPS: 2e5}, {Bulk: 25e9}, {Latency: 20_000}} {
					p := must.Get(Make(h, g, knob.Catalogue(), nil))(t)
					for _, c := range p.Changes {
						must.Hold(t, !strings.HasPrefix(c.ID, "nic.ring.") && !strings.HasPrefix(c.ID, "softirq."),
							"%s, %d bytes, %s: %s %s → %s: %s", driver, frame, vendor, c.Address, c.From, c.To,
							c.Because)
					}
				}
			}
		}
	}
}

// TestTrialOfShorterRing: a shorter ring is tried only where its packets would fit into the cache and those of the
// present one do not.
func TestTrialOfShorterRing(t *testing.T) {
	for _, c := range []struct {
		vendor string
		frame  uint64
		queues int
		l3     uint64
		want   string // new size; empty: none is tried
	}{
		{"AuthenticAMD", 64, 16, 16 << 20, ""},      // 2048 × 16 × 96 bytes are 3 MiB
		{"GenuineIntel", 64, 16, 4 << 20, "512"},    // 2 of 11 ways of 2 × 4 MiB are 1.5 MiB
		{"GenuineIntel", 1514, 16, 24 << 20, "256"}, // 6.1 MiB in place of 49
		{"GenuineIntel", 1514, 64, 16 << 20, ""},    // 256 would not fit either
		{"AuthenticAMD", 1514, 64, 16 << 20, "256"}, // not DDIO: the whole of 2 × 16 MiB
		{"GenuineIntel", 1514, 16, 0, ""},           // unknown cache
		{"GenuineIntel", 1514, 1, 24 << 20, ""},     // one queue: 3 MiB
		{"AuthenticAMD", 9014, 16, 64 << 20, "512"}, // jumbo frames
	} {
		h := ordinary(t)
		h.Topology.Vendor = c.vendor
		h.Topology.Caches = nil
		for i, node := range h.Topology.Nodes {
			for half := range 2 {
				part := node.CPUs[half*len(node.CPUs)/2 : (half+1)*len(node.CPUs)/2]
				if c.l3 > 0 {
					h.Topology.Caches = append(h.Topology.Caches, facts.Cache{Level: 3, Size: c.l3, CPUs: part})
				}
			}
			h.NICs[i].RxQueues = c.queues
			h.Interval.Devices[h.NICs[i].Name]["rx_bytes"] = c.frame * 1_500_000
		}
		p := must.Get(MakeTrials(h, goal.Unlimited(), knob.Catalogue(), nil))(t)
		got := ""
		for _, change := range p.Changes {
			if change.Address.String() == "nic-ring:eth0/rx" {
				got = change.To.Value
				must.Hold(t, strings.Contains(change.Because, fmt.Sprintf("%d bytes", c.frame)),
					"it does not name the bytes of a packet: %s", change.Because)
			}
			must.Hold(t, change.ID != "nic.ring.tx", "%s → %s", change.Address, change.To)
		}
		must.Equal(t, got, c.want, "%+v: tries", c)
	}
}
