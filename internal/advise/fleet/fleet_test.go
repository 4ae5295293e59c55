package fleet

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// one returns a host of a fleet: the same build as the others, with names, addresses, guests and numbers of its own.
func one(t testing.TB, i int) *facts.Host {
	t.Helper()
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 4, Queues: 4, Guests: 1 + i%3})
	h.Name, h.Kernel.Release = fmt.Sprintf("kvm-%02d", i), "6.12.48-amd64"
	h.Kernel.CommandLine = fmt.Sprintf("BOOT_IMAGE=/vmlinuz root=UUID=00000000-0000-4000-8000-%012x ro quiet", i)
	h.NICs[0].Management = "default route"
	h.NICs[3].Master = ""
	h.Bridges = h.Bridges[:3]
	h.Tunnels = []facts.Tunnel{{Name: "vxlan7", Type: "vxlan", Lower: "eth2", Master: "br2", MTU: 1450}}
	h.OpenVSwitch = switchOf(h, i)
	names := map[string]string{}
	for j := range h.NICs {
		n := &h.NICs[j]
		n.Carrier, n.Speed = "up", 25000
		names[n.Name], names[n.MAC] = fmt.Sprintf("ens%df%d", 1+i%7, j), fmt.Sprintf("02:00:00:%02x:07:%02x", i, j)
		names[n.PCI] = fmt.Sprintf("0000:%02x:00.%d", 0x80+i, j)
		for k := range n.IRQs {
			n.IRQs[k].Number += 40 * i
		}
	}
	for j, b := range h.Bridges {
		names[b.Name] = fmt.Sprintf("br-%d%d", j, i)
	}
	for j, g := range h.Guests {
		names[g.Name] = fmt.Sprintf("tenant%d-%d", i, j)
		for k, nic := range g.Interfaces {
			names[nic.MAC], names[nic.Tap] = fmt.Sprintf("52:54:00:%02x:%02x:%02x", i, j, k), fmt.Sprintf("tap%d.%d.%d", i, j, k)
		}
	}
	h = renamed(t, h, names)
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		if a.Kind != setting.Fact {
			h.Readings[a] = setting.Value(a.Rest()[:0] + "1")
		}
	}
	return h
}

// switchOf returns an Open vSwitch as OVN makes it: an uplink, and a tunnel to each of the other hosts.
func switchOf(h *facts.Host, i int) *facts.OpenVSwitch {
	port := func(name, kind string, options map[string]string) facts.OVSPort {
		return facts.OVSPort{Name: name, Interfaces: []facts.OVSInterface{{Name: name, Type: kind, Options: options}}}
	}
	tunnels := facts.OVSBridge{Name: "br-int"}
	for j := range 3 {
		other := fmt.Sprintf("192.0.2.%d", 3*i+j)
		tunnels.Ports = append(tunnels.Ports, port("ovn-"+other, "geneve", map[string]string{"remote_ip": other}))
	}
	return &facts.OpenVSwitch{Version: "3.3.0", OVN: &facts.OVN{Chassis: fmt.Sprintf("chassis-%d", i), EncapType: "geneve",
		EncapIP: fmt.Sprintf("192.0.2.%d", i)}, Bridges: []facts.OVSBridge{tunnels, {Name: fmt.Sprintf("br-site%d", i),
		Ports: []facts.OVSPort{port(h.NICs[1].Name, "", nil), port(fmt.Sprintf("br-site%d", i), "internal", nil)}}}}
}

// renamed returns a host with other words in place of those named.
func renamed(t testing.TB, h *facts.Host, names map[string]string) *facts.Host {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, facts.Write(&b, h, "test"))
	var pairs []string
	for from, to := range names {
		pairs = append(pairs, `"`+from+`"`, `"`+to+`"`, "'"+from+"'", "'"+to+"'", "-"+from+"-", "-"+to+"-")
	}
	h = must.Get(facts.ReadSnapshot(strings.NewReader(strings.NewReplacer(pairs...).Replace(b.String()))))(t)
	return h
}

// fleetOf compares hosts.
func fleetOf(hosts []*facts.Host) Report {
	f := New()
	for i, h := range hosts {
		f.Add(fmt.Sprintf("dir/%d.json", i), h, audit.Run(h, goal.Gentlest(), knob.Catalogue()))
	}
	return f.Report()
}

func many(t testing.TB, n int) []*facts.Host {
	var hosts []*facts.Host
	for i := range n {
		hosts = append(hosts, one(t, i))
	}
	return hosts
}

func TestSiblingsAreAlike(t *testing.T) {
	t.Parallel()
	r := fleetOf(many(t, 40))
	if len(r.Outliers)+len(r.Split)+len(r.Refused) > 0 || len(r.Classes) != 1 || r.Classes[0].Hosts != 40 {
		t.Errorf("classes %+v\noutliers %+v\nsplit %+v", r.Classes, r.Outliers[:min(5, len(r.Outliers))],
			r.Split[:min(5, len(r.Split))])
	}
	must.Hold(t, r.Compared >= 1000, "compared only %d values", r.Compared)
}

// plants are single faults of a host, and the row of each.
var plants = []struct {
	name  string
	plant func(h *facts.Host)
	row   string // address, value, majority
}{
	{"ring", func(h *facts.Host) {
		h.NICs[1].Rings.Rx = 256
		h.Readings[setting.Of(setting.NICRing, h.NICs[1].Name, "rx")] = setting.Value("256")
	}, "nic-ring:uplink1/rx 256 1"},
	{"sysctl", func(h *facts.Host) {
		h.Readings[setting.Of(setting.Sysctl, "net.core.dev_weight")] = setting.Value("128")
	}, "sysctl:net.core.dev_weight 128 1"},
	{"isolcpus", func(h *facts.Host) {
		h.Kernel.CommandLine += " isolcpus=4-7"
		h.Topology.Isolated = setting.CPUs(4, 5, 6, 7)
		h.Readings[setting.Of(setting.KernelArg, "isolcpus")] = setting.Value("4-7")
	}, "kernel.command_line[isolcpus] 4-7 absent"},
	{"kernel", func(h *facts.Host) { h.Kernel.Release = "6.12.9-amd64" }, "kernel.release 6.12.9-amd64 6.12.48-amd64"},
	{"MTU", func(h *facts.Host) { h.NICs[2].MTU = 9000 }, "nics[uplink2].mtu 9000 1500"},
	{"firmware of a NIC", func(h *facts.Host) { h.NICs[3].Firmware = "4.20" }, "nics[spare0].firmware 4.20 4.40"},
	{"queues", func(h *facts.Host) {
		n := &h.NICs[1]
		n.Channels.Combined, n.RxQueues, n.TxQueues = 2, 2, 2
		n.IRQs, n.XPS, n.RPS = n.IRQs[:2], n.XPS[:2], n.RPS[:2]
		h.Readings[setting.Of(setting.NICChannels, n.Name, "combined")] = setting.Value("2")
		for a := range h.Readings {
			queue := a.Device() == n.Name && (strings.Contains(a.Path, "-2") || strings.Contains(a.Path, "-3"))
			if queue && (a.Kind == setting.IRQAffinity || a.Kind == setting.SysfsCPUs) {
				delete(h.Readings, a)
			}
		}
	}, "nic-channels:uplink1/combined 2 1"},
	{"governor", func(h *facts.Host) {
		for cpu := range 16 {
			a := setting.Of(setting.Sysfs, fmt.Sprintf("devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu))
			h.Readings[a] = setting.Value("powersave")
		}
		h.Power.Governors = map[string]int{"powersave": 16}
	}, "sysfs:devices/system/cpu/cpu0/cpufreq/scaling_governor powersave 1"},
	{"service", func(h *facts.Host) {
		h.Services[0].Running = true
		h.Readings[setting.Of(setting.Service, h.Services[0].Name)] = setting.Value("running")
	}, "service:irqbalance running 1"},
	{"huge pages", func(h *facts.Host) {
		h.Topology.Hugepages[1].Total = 0
		for i := range h.Topology.Nodes {
			h.Topology.Nodes[i].Hugepages[1].Total = 0
		}
	}, "topology.hugepages[1073741824].total 0 256"},
	{"bridge", func(h *facts.Host) {
		h.Bridges[1].CallIPTables = true
		a := setting.Of(setting.Sysfs, "class/net", h.Bridges[1].Name, "bridge/nf_call_iptables")
		h.Readings[a] = setting.Value("0")
	}, "sysfs:class/net/bridge(uplink1)/bridge/nf_call_iptables 0 1"},
	{"tunnel", func(h *facts.Host) { h.Tunnels[0].MTU = 1400 }, "tunnels[vxlan(uplink2)].mtu 1400 1450"},
	{"speed", func(h *facts.Host) { h.NICs[1].Speed = 10000 }, "nics[uplink1].speed_mbps 10000 25000"},
	{"link", func(h *facts.Host) { h.NICs[2].Carrier, h.NICs[2].Speed = "down", -1 }, "nics[uplink2].speed_mbps 0 25000"},
	{"VLAN of a port of Open vSwitch", func(h *facts.Host) { h.OpenVSwitch.Bridges[1].Ports[0].Tag = 7 },
		"open_vswitch.bridges[bridge(uplink1)].ports[uplink1].tag 7 0"},
	{"Open vSwitch", func(h *facts.Host) { h.OpenVSwitch.Version = "2.17.9" }, "open_vswitch.version 2.17.9 3.3.0"},
	{"bug of the processor", func(h *facts.Host) { h.Kernel.Vulnerabilities["meltdown"] = "Vulnerable" },
		"kernel.vulnerabilities[meltdown] Vulnerable Not affected"},
	{"feature", func(h *facts.Host) { h.NICs[0].Features[3].On = false },
		"nics[uplink0].features[tx-feature-3].on off on"},
	{"QEMU", func(h *facts.Host) { h.KVM.QEMU = "7.2.0" }, "kvm.qemu_version 7.2.0 10.0.2"},
	{"memory", func(h *facts.Host) { h.Topology.Nodes[1].Memory /= 2 },
		"topology.nodes[1].memory_bytes 206158430208 412316860416"},
}

func rows(r Report) []string {
	var all []string
	for _, o := range r.Outliers {
		all = append(all, fmt.Sprintf("%s %s %s", o.Address, o.Value, o.Majority))
	}
	slices.Sort(all)
	return all
}

// TestPlants: each planted fault is one row, which names its host.
func TestPlants(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		hosts := many(t, 3)
		p.plant(hosts[1])
		r := fleetOf(hosts)
		if got := rows(r); !slices.Equal(got, []string{p.row}) || len(r.Split) > 0 {
			t.Errorf("%s: expected %q, found %q, split %v", p.name, p.row, got, r.Split)
			continue
		}
		if o := r.Outliers[0]; o.Count != 1 || o.Of != 3 || !slices.Equal(o.Hosts, []string{"kvm-01"}) {
			t.Errorf("%s: %+v", p.name, o)
		}
	}
}

// TestThreeOfForty: three faults on three hosts are three rows, whatever the order of the files.
func TestThreeOfForty(t *testing.T) {
	t.Parallel()
	hosts := many(t, 40)
	var want []string
	for i, p := range []int{0, 1, 2} {
		plants[p].plant(hosts[7+11*i])
		want = append(want, plants[p].row)
	}
	slices.Sort(want)
	r := fleetOf(hosts)
	if got := rows(r); !slices.Equal(got, want) {
		t.Errorf("found %q", got)
	}
	slices.Reverse(hosts)
	reversed := fleetOf(hosts)
	must.Hold(t, reflect.DeepEqual(r.Outliers, reversed.Outliers) && reflect.DeepEqual(r.Classes, reversed.Classes),
		"the order of the files matters")
}

// TestDifferences: two siblings differ in what was planted, though every name differs.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		a, b := one(t, 3), one(t, 17)
		p.plant(b)
		found, _, err := Differences(a, b)
		must.Hold(t, err == nil && len(found) >= 1 && found[0].Path+" "+found[0].After+" "+found[0].Before == p.row,
			"%s: %v %v", p.name, found, err)
		if len(found) > 1 && p.name != "governor" { // a row for each CPU
			t.Errorf("%s: %v", p.name, found)
		}
	}
}

// TestLabels: a host cannot pass for another, nor for several.
func TestLabels(t *testing.T) {
	t.Parallel()
	hosts := many(t, 4)
	hosts[0].Name, hosts[1].Name, hosts[2].Name = "kvm-03", "a, kvm-03", "a\x1b[2J"
	names := map[string]bool{}
	for _, h := range fleetOf(hosts).Hosts {
		names[h.Name] = true
	}
	for _, want := range []string{"0", "3", `"a, kvm-03"`, `"a\x1b[2J"`} {
		must.Hold(t, names[want], "no %s in %v", want, names)
	}
}

// TestClasses: hosts of other builds are not compared with each other.
func TestClasses(t *testing.T) {
	t.Parallel()
	hosts := many(t, 10)
	for _, h := range hosts[6:] {
		h.Topology.Model = "Intel(R) Xeon(R) Gold 6252"
	}
	hosts[9].Kernel.Release = "5.14.0-503.el9"
	r := fleetOf(hosts)
	must.Hold(t, len(r.Classes) == 3 && r.Classes[0].Hosts == 6 && r.Classes[2].Hosts == 1 && len(r.Outliers) <= 0,
		"%+v %+v", r.Classes, r.Outliers)
}
