package facts

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// copied is an independent copy by way of the file format.
func copied(t *testing.T, h *Host) *Host {
	t.Helper()
	c := must.Get(ReadSnapshot(bytes.NewReader(written(t, h))))(t)
	return c
}

// TestWhatChangesByItselfIsNoDifference changes everything that is not configuration, as an hour and a restart of the
// guests do.
func TestWhatChangesByItselfIsNoDifference(t *testing.T) {
	before, after := small(), copied(t, small())
	after.Taken = after.Taken.Add(time.Hour)
	after.Root, after.AsRoot = "/other", false
	after.Unseen = []Unseen{{What: "x", Why: "y"}}
	after.Softnet[0].Processed++
	after.Topology.Nodes[0].Free /= 2
	after.Topology.Nodes[0].Hugepages[0].Free--
	after.Topology.Hugepages[0].Reserved++
	n := &after.NICs[0]
	n.Index, n.Carrier, n.Speed, n.Stats["rx_queue_0_packets"] = 99, "down", -1, 12345
	n.IRQs[0].Count++
	n.IRQs[0].Effective = setting.CPUs(3)
	after.Services[0].PID = 4711
	rename := map[string]string{}
	for i := range after.Guests {
		g := &after.Guests[i]
		g.PID += 7
		for j := range g.Interfaces {
			nic := &g.Interfaces[j]
			rename[nic.Tap], nic.Tap = nic.Tap+"9", nic.Tap+"9"
		}
		for j := range g.Threads {
			g.Threads[j].TID += 7
			g.Threads[j].CPU++
			if g.Threads[j].Role == "vhost" {
				g.Threads[j].Comm += "7"
			}
		}
		g.Threads = append(g.Threads, Thread{TID: 1, Comm: "worker", Role: "worker", Queue: -1})
	}
	for i := range after.Taps {
		after.Taps[i].Name = rename[after.Taps[i].Name]
		after.Taps[i].Stats = nil
	}
	for i := range after.Bridges {
		for j, port := range after.Bridges[i].Ports {
			if name := rename[port]; name != "" {
				after.Bridges[i].Ports[j] = name
			}
		}
	}
	tap := setting.Of(setting.SysfsCPUs, "class/net/vnet2/queues/tx-0/xps_cpus")
	after.Readings[setting.Of(setting.SysfsCPUs, "class/net/"+rename["vnet2"]+
		"/queues/tx-0/xps_cpus")] = setting.Missing("other reason")
	delete(after.Readings, tap)

	must.Empty(t, Diff(before, after), "found differences")
	must.Equal(t, digest(before), digest(after), "the digests differ")
}

func TestConfigurationIsADifference(t *testing.T) {
	weight := setting.Of(setting.Sysctl, "net.core.dev_weight")
	cases := map[string]struct {
		change        func(h *Host)
		path          string
		before, after string
	}{
		"ring": {func(h *Host) { h.NICs[1].Rings.Rx = 256 }, "nics[eth1].rings.rx", "2048", "256"},
		"feature": {func(h *Host) { h.NICs[0].Features[3].On = !h.NICs[0].Features[3].On },
			"nics[eth0].features[tx-feature-3].on", "true", "false"},
		"irq": {func(h *Host) { h.NICs[0].IRQs[1].Affinity = setting.CPUs(7) },
			"nics[eth0].irqs[ice-eth0-TxRx-1].affinity", "1", "7"},
		"reading": {func(h *Host) { h.Readings[weight] = setting.Value("128") },
			"readings[sysctl:net.core.dev_weight].value", "64", "128"},
		"unread": {func(h *Host) { delete(h.Readings, weight) }, "readings[sysctl:net.core.dev_weight]",
			`{"state":"known","value":"64"}`, absent},
		"bridge": {func(h *Host) { h.Bridges[0].CallIPTables = true }, "bridges[br0].nf_call_iptables", "false",
			"true"},
		"no NIC": {func(h *Host) { h.NICs = h.NICs[:1] }, "nics[eth1]", "", absent},
		"guest": {func(h *Host) { h.Guests[2].Interfaces[0].Queues = 1 },
			"guests[vm002].interfaces[52:54:00:00:00:02].queues", "4", "1"},
		"vhost": {func(h *Host) { h.Guests[1].Threads[5].Affinity = setting.CPUs(2, 3) },
			"guests[vm001].threads[vhost 52:54:00:00:00:01 0].affinity", "0-15", "2-3"},
		"pages": {func(h *Host) { h.Topology.Hugepages[1].Total = 0 }, "topology.hugepages[1073741824].total", "256",
			"0"},
		"service": {func(h *Host) { h.Services[0].Running = false }, "services[irqbalance].running", "true", "false"},
		"new":     {func(h *Host) { h.Bridges = append(h.Bridges, Bridge{Name: "br9"}) }, "bridges[br9]", absent, ""},
		"argument": {func(h *Host) { h.Kernel.CommandLine += " mitigations=off" }, "kernel.command_line",
			"BOOT_IMAGE=/vmlinuz ro quiet", "BOOT_IMAGE=/vmlinuz ro quiet mitigations=off"},
		"text": {func(h *Host) {
			h.Guests[0].Definition = strings.Replace(h.Guests[0].Definition, "queues='4'", "queues='2'", 1)
		}, "guests[vm000].definition", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := small(), small()
			c.change(after)
			found := Diff(before, after)
			must.Need(t, len(found) == 1 && found[0].Path == c.path,
				"expected one difference at %s, found %v", c.path, found)
			if c.before != "" && found[0].Before != c.before || c.after != "" && found[0].After != c.after {
				t.Errorf("expected %q → %q, found %q → %q", c.before, c.after, found[0].Before, found[0].After)
			}
			must.Hold(t, digest(before) != digest(after), "the digests are the same")
			if back := Diff(after, before); len(back) != 1 || back[0].Before != found[0].After {
				t.Errorf("the other way round: %v", back)
			}
		})
	}
}

func TestLongTextsDifferInALine(t *testing.T) {
	before, after := small(), small()
	after.Guests[0].Definition = strings.Replace(after.Guests[0].Definition, "queues='4'", "queues='2'", 1)
	found := Diff(before, after)
	must.Hold(t, len(found) == 1 && strings.HasPrefix(found[0].After, "line ") &&
		strings.Contains(found[0].After, "queues='2'") && len(found[0].After) <= 250, "found %v", found)
}

func TestStoppedGuestIsNoDifference(t *testing.T) {
	before, after := small(), small()
	g := &after.Guests[1]
	g.State, g.PID, g.Threads = "shut off", 0, nil
	for i := range g.Interfaces {
		tap := g.Interfaces[i].Tap
		g.Interfaces[i].Tap = ""
		for j := range after.Taps {
			if after.Taps[j].Name == tap {
				after.Taps = append(after.Taps[:j], after.Taps[j+1:]...)
				break
			}
		}
		for j := range after.Bridges {
			for k, port := range after.Bridges[j].Ports {
				if port == tap {
					after.Bridges[j].Ports = append(after.Bridges[j].Ports[:k], after.Bridges[j].Ports[k+1:]...)
					break
				}
			}
		}
	}
	after.Readings[setting.Of(setting.ThreadAffinity, "vm001", "vhost", "52:54:00:00:00:01", "0")] = setting.Missing(
		"does not run")
	delete(after.Readings, setting.Of(setting.SysfsCPUs, "class/net/vnet2/queues/tx-0/xps_cpus"))
	must.Empty(t, Diff(before, after), "found")
}

func TestDiffLeavesItsHostsAlone(t *testing.T) {
	a, b := small(), small()
	b.Guests[0].Threads = nil
	wantA, wantB := written(t, a), written(t, b)
	Diff(a, b)
	digest(a)
	Scrub(a)
	must.Hold(t, bytes.Equal(written(t, a), wantA) && bytes.Equal(written(t, b), wantB), "a host was changed")
}

// digest returns a hash of the configuration, equal for hosts without a Difference.
func digest(h *Host) string {
	text, err := json.Marshal(NonNil(configuration(h)))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}
