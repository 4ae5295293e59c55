//go:build lab

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// untold are the kinds of values that no other program tells as mpps does: what files, directories, units and services
// there are, and rule sets, whose text each tool writes its own way.
var untold = []setting.Kind{setting.File, setting.Directory, setting.Unit, setting.Service, setting.RuleSet}

// testInspect compares what mpps says of the host with what other programs say of the same.
func testInspect(b *box) {
	h := labtest.Answer[facts.Host](b, 0, "inspect")
	for _, u := range h.Unseen {
		b.Errorf("unseen as root: %s: %s", u.What, u.Why)
	}
	if !h.Emulated == b.Lab.Emulated() {
		b.Errorf("emulated %v, the lab says %v", h.Emulated, b.Lab.Emulated())
	}
	if got := b.Must("uname -r"); h.Kernel.Release != got {
		b.Errorf("kernel %s, uname says %s", h.Kernel.Release, got)
	}
	compareTopology(b, &h)
	compareLinks(b, &h)
	compareGuest(b, &h)

	// Every value that the catalogue reads.
	full := b.snapshot("readings.json")
	var known []setting.Address
	for a, r := range full.Readings {
		if r.State == setting.Known && !slices.Contains(untold, a.Kind) {
			known = append(known, a)
		}
	}
	s := b.survey(known...)
	compareNICs(b, &h, s)
	compareRules(b, &h, s)
	kinds := map[setting.Kind]int{}
	for _, a := range known {
		kinds[a.Kind]++
		if got := full.Readings[a]; !s.at(a).Same(got) {
			b.Errorf("%s: mpps reads %s, another program %s", a, got, s.at(a))
		}
	}
	b.Logf("readings that agree, by kind: %v", kinds)
	// Without the rule there is nothing to read, the catalogue reads affinities of vhost threads only, and there is
	// neither a virtual function nor swap space: test/catalogue has them. Values inside a guest with an agent, and its
	// kernel's arguments: test/guests. Those that only the verbs of sriov write are in no snapshot: test/sriov compares
	// them. Lanes are only where mpps path has made them: test/queuepath. So are disciplines of virtual devices that it
	// reads and sets. Private flags are read of mlx5 alone. Open vSwitch does not run there: test/openvswitch.
	none := []setting.Kind{
		setting.Fact, setting.NetfilterRule, setting.ThreadAffinity, setting.VFAttr, setting.Swap, setting.Inside,
		setting.GuestArg, setting.VFCount, setting.NICState, setting.PCIDriver, setting.DomainDevice,
		setting.VirtNetwork, setting.QueueLanes, setting.RootQdisc, setting.NICFlag, setting.OVSDB,
	}
	for kind := range setting.Kinds {
		if kinds[kind] == 0 && !slices.Contains(none, kind) && !slices.Contains(untold, kind) {
			b.Errorf("no value of kind %s was compared", kind)
		}
	}
}

func compareTopology(b *box, h *facts.Host) {
	cores, packages, nodes, online := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for l := range strings.Lines(b.Must("lscpu -p=CPU,CORE,SOCKET,NODE")) {
		f := strings.Split(strings.TrimSpace(l), ",")
		if strings.HasPrefix(l, "#") || len(f) != 4 {
			continue
		}
		online++
		cores[f[2]+"/"+f[1]], packages[f[2]], nodes[f[3]] = true, true, true
		id, _ := strconv.Atoi(f[0])
		if cpu, found := h.Topology.CPU(id); !found || strconv.Itoa(cpu.Node) != f[3] ||
			strconv.Itoa(cpu.Package) != f[2] {
			b.Errorf("CPU %d: %+v, lscpu has package %s and node %s", id, cpu, f[2], f[3])
		}
	}
	c := h.Topology.Counts
	for what, n := range map[string][2]int{
		"CPUs": {c.CPUsOnline, online}, "cores": {c.Cores, len(cores)}, "packages": {c.Packages, len(packages)},
		"nodes": {c.NUMANodes, len(nodes)},
	} {
		must.Hold(b, n[0] == n[1] && n[1] != 0, "%d %s, lscpu has %d", n[0], what, n[1])
	}
	for _, n := range h.Topology.Nodes {
		if got, _ := line(b.Must(fmt.Sprintf("cat /sys/devices/system/node/node%d/meminfo", n.ID)),
			fmt.Sprintf("Node %d MemTotal:", n.ID)); got != fmt.Sprintf("%d kB", n.Memory>>10) {
			b.Errorf("node %d has %d bytes, the kernel says %s", n.ID, n.Memory, got)
		}
		distances := b.Must(fmt.Sprintf("numactl --hardware | awk '$1==\"%d:\"{$1=\"\";print}'", n.ID))
		must.Hold(b, strings.Trim(fmt.Sprint(n.Distances), "[]") == strings.Join(strings.Fields(distances), " "),
			"node %d: distances %v, numactl says %s", n.ID, n.Distances, distances)
	}
}

// link is what ip tells of one.
type link struct {
	Name   string   `json:"ifname"`
	Index  int      `json:"ifindex"`
	MAC    string   `json:"address"`
	MTU    int      `json:"mtu"`
	Queue  int      `json:"txqlen"`
	Master string   `json:"master"`
	Flags  []string `json:"flags"`
	Info   struct {
		Kind string `json:"info_kind"`
		Data struct {
			Type      string `json:"type"` // of a tun device
			CallIPT   int    `json:"nf_call_iptables"`
			STP       int    `json:"stp_state"`
			Filtering int    `json:"vlan_filtering"`
			Snooping  int    `json:"mcast_snooping"`
		} `json:"info_data"`
	} `json:"linkinfo"`
}

func (b *box) links() []link {
	b.Helper()
	var all []link
	must.Do(b, json.Unmarshal([]byte(b.Must("ip -d -j link")), &all))
	return all
}

func compareLinks(b *box, h *facts.Host) {
	links := b.links()
	is := map[string]link{}
	for _, l := range links {
		is[l.Name] = l
	}
	for _, n := range h.NICs {
		l := is[n.Name]
		up := slices.Contains(l.Flags, "UP")
		must.Hold(b, n.MAC == l.MAC && n.MTU == l.MTU && n.TxQueueLen == l.Queue && n.Master == l.Master &&
			n.Up == up && n.Index == l.Index, "%s: %s MTU %d queue %d master %q up %v, ip says %+v", n.Name, n.MAC,
			n.MTU, n.TxQueueLen, n.Master, n.Up, l)
	}
	if len(h.NICs) != len(b.nics()) {
		b.Errorf("%d NICs, expected %v", len(h.NICs), b.nics())
	}
	ports := map[string][]string{}
	for _, l := range links {
		if l.Master != "" {
			ports[l.Master] = append(ports[l.Master], l.Name)
		}
	}
	bridges := 0
	for _, l := range links {
		if l.Info.Kind != "bridge" {
			continue
		}
		bridges++
		i := slices.IndexFunc(h.Bridges, func(br facts.Bridge) bool { return br.Name == l.Name })
		if i < 0 {
			b.Errorf("bridge %s was not found", l.Name)
			continue
		}
		br, d := h.Bridges[i], l.Info.Data
		got := slices.Clone(br.Ports)
		slices.Sort(got)
		slices.Sort(ports[l.Name])
		must.Hold(b, slices.Equal(got, ports[l.Name]) && br.CallIPTables == (d.CallIPT == 1) &&
			br.STP == (d.STP == 1) && br.VLANFiltering == (d.Filtering == 1) && br.Snooping == (d.Snooping == 1) &&
			br.MAC == l.MAC, "bridge %+v, ip says %+v with ports %v", br, l, ports[l.Name])
	}
	must.Hold(b, bridges == len(h.Bridges) && bridges != 0, "%d bridges, ip says %d", len(h.Bridges), bridges)
	for _, l := range links {
		if l.Info.Kind == "tun" && !slices.ContainsFunc(h.Taps, func(tap facts.Tap) bool {
			return tap.Name == l.Name && tap.Type == l.Info.Data.Type && tap.Master == l.Master
		}) {
			b.Errorf("tap %s is not among %+v", l.Name, h.Taps)
		}
	}
	must.Hold(b, len(h.Softnet) == h.Topology.Counts.CPUsOnline,
		"%d rows of softnet for %d CPUs", len(h.Softnet), h.Topology.Counts.CPUsOnline)
}

func compareNICs(b *box, h *facts.Host, s *survey) {
	for _, n := range h.NICs {
		driver := b.Must("ethtool -i " + n.Name)
		name, _ := line(driver, "driver:")
		bus, _ := line(driver, "bus-info:")
		must.Hold(b, n.Driver == name && n.PCI == bus,
			"%s: driver %s at %s, ethtool says %s at %s", n.Name, n.Driver, n.PCI, name, bus)
		expect := func(kind setting.Kind, rest, value string) {
			b.Helper()
			if got := s.at(setting.Of(kind, n.Name, rest)); got.String() != value {
				b.Errorf("%s %s: %s, ethtool says %s", n.Name, rest, value, got)
			}
		}
		if n.Channels == nil || n.Rings == nil {
			b.Errorf("%s: channels %v, rings %v", n.Name, n.Channels, n.Rings)
			continue
		}
		expect(setting.NICChannels, "combined", strconv.Itoa(n.Channels.Combined))
		expect(setting.NICRing, "rx", strconv.Itoa(n.Rings.Rx))
		expect(setting.NICRing, "tx", strconv.Itoa(n.Rings.Tx))
		for name, value := range n.Coalesce {
			expect(setting.NICCoalesce, name, value)
		}
		compared := 0
		for _, f := range n.Features {
			// ethtool does not print features that it has no name for (off_flag_def and the kernel's string set).
			shown := s.at(setting.Of(setting.NICFeature, n.Name, f.Name))
			if shown.State != setting.Known {
				continue
			}
			compared++
			must.Hold(b, f.On == (shown.Value == "on"), "%s: feature %+v, ethtool says %s", n.Name, f, shown)
		}
		must.Hold(b, compared >= 20 && compared >= len(n.Features)*8/10,
			"%s: %d of %d features are known to ethtool", n.Name, compared, len(n.Features))
		for _, i := range n.IRQs {
			if got := s.at(n.Address(i)); got.String() != i.Affinity.String() {
				b.Errorf("%s: interrupt %s on CPUs %s, the kernel says %s", n.Name, i.Name, i.Affinity, got)
			}
		}
		if total := b.Must("grep -c -w " + n.Name + " /proc/interrupts || true"); n.Driver == "igb" &&
			total != strconv.Itoa(len(n.IRQs)) {
			b.Errorf("%s: %d interrupts, /proc/interrupts has %s", n.Name, len(n.IRQs), total)
		}
	}
}

func compareRules(b *box, h *facts.Host, s *survey) {
	legacy := strings.Count("\n"+s.of("iptables-legacy-save"), "\n-A ")
	for _, set := range h.Netfilter.Rules {
		if set.Tool == "iptables-legacy" && set.Rules != legacy {
			b.Errorf("%d rules of iptables, iptables-save says %d", set.Rules, legacy)
		}
		if set.Tool == "nft" && set.Rules != 1 {
			b.Errorf("%d rules of nft, expected the 1 that was made", set.Rules)
		}
	}
	must.Hold(b, len(h.Netfilter.Rules) >= 2 && legacy != 0 && h.Netfilter.BridgeModule, "netfilter: %+v", h.Netfilter)
}

// compareGuest compares the guest's definition, tap and threads, whatever its NIC is just now.
func compareGuest(b *box, h *facts.Host) facts.Guest {
	b.Helper()
	i := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == guestName })
	must.Need(b, i >= 0 && len(h.Guests) == 1, "guests: %+v", h.Guests)
	g := h.Guests[i]
	info := b.Must("virsh dominfo " + guestName)
	uuid, _ := line(info, "UUID:")
	state, _ := line(info, "State:")
	vcpus, _ := line(info, "CPU(s):")
	must.Hold(b, g.UUID == uuid && g.State == state && strconv.Itoa(g.VCPUs) == vcpus && g.Managed,
		"guest %s %s with %d vCPUs, virsh says\n%s", g.UUID, g.State, g.VCPUs, info)
	if pid := b.Must("cat /run/libvirt/qemu/" + guestName + ".pid"); strconv.Itoa(g.PID) != pid {
		b.Errorf("process %d, libvirt says %s", g.PID, pid)
	}
	live := readDefinition(b, b.Must("virsh dumpxml "+guestName))
	must.Hold(b, len(g.Interfaces) == 1 && g.Interfaces[0].Tap == live.Interfaces[0].Target.Dev &&
		g.Interfaces[0].Tap != "", "interfaces %+v, virsh says %+v", g.Interfaces, live.Interfaces)
	s := b.survey()
	roles := map[string]int{}
	for _, thread := range g.Threads {
		role := thread.Role
		switch role {
		case "vcpu":
			role += "/" + strconv.Itoa(thread.Index)
		case "vhost":
			role += "/" + thread.NIC + "/" + strconv.Itoa(thread.Queue)
		case "emulator":
		default:
			continue
		}
		roles[thread.Role]++
		if got, found := s.thread(role); !found || got != thread.Affinity.String() {
			b.Errorf("thread %s on CPUs %s, taskset says %s", role, thread.Affinity, got)
		}
	}
	vhost := strings.Count(s.threads(), " vhost-")
	must.Hold(b, roles["vcpu"] == g.VCPUs && roles["emulator"] == 1 && roles["vhost"] == vhost,
		"threads %v, ps has %d of vhost", roles, vhost)
	return g
}

// yardstick is what inspect's cost is measured against on whatever processor plays the emulated host: system tools that
// read kernel files, thousands of them, and then compute.
const yardstick = "find /sys/class/net/*/ /sys/devices/system/cpu /proc/sys /proc/irq -type f -exec cat {} + 2>&1; " +
	"head -c 24M /dev/zero | sha256sum"

// testInspectCost holds inspect to its budget: one and a half times the CPU time of the yardstick. It took 0.61 to 1.02
// of it: an emulated CPU translates code before it runs it, and a large program beside another emulated host is
// translated more often than once. Both are measured in turns, on one of the host's CPUs, and the least of each counts.
func testInspectCost(b *box) {
	const budget = 1.5
	cost := func(command string) float64 {
		timed := b.Must("TIMEFORMAT='%U %S'; { time taskset -c 1 bash -c '" + command + "' >/dev/null; } 2>&1")
		var user, system float64
		if _, err := fmt.Sscan(timed, &user, &system); err != nil {
			b.Fatalf("%q: %v", timed, err)
		}
		return user + system
	}
	var inspect, tools []float64
	for range 15 {
		inspect = append(inspect, cost("mpps --json inspect"))
		tools = append(tools, cost(yardstick))
		if len(inspect) >= 2 && slices.Min(inspect) < budget*slices.Min(tools) {
			break
		}
	}
	b.Logf("seconds of CPU time: inspect %.2f, system tools %.2f", inspect, tools)
	if ratio := slices.Min(inspect) / slices.Min(tools); ratio >= budget {
		b.Errorf("inspect takes %.2f times the CPU time of the system tools, expected less than %g", ratio, budget)
	}
}
