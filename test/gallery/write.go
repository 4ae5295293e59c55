package gallery

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Write sets a value, and the facts that show it.
func (m *Machine) Write(a setting.Address, to setting.Reading) error {
	switch a.Kind {
	case setting.KernelArg:
		return m.writeArgument(a, to)
	case setting.Service:
		if s := facts.Find(m.Services, func(s *facts.Service) bool { return s.Name == a.Path }); s != nil {
			s.Running = to.Value == "running"
			return nil
		}
	case setting.Domain:
		return m.writeDefinition(a, to)
	case setting.DomainLive, setting.ThreadAffinity:
		return m.writeThread(a, to)
	case setting.NICRing, setting.NICChannels, setting.NICCoalesce, setting.NICFeature, setting.NICFlowHash,
		setting.IRQAffinity:
		return m.writeNIC(a, to)
	case setting.SysfsCPUs, setting.Sysfs:
		if done, err := m.writeDevice(a, to); done || err != nil {
			return err
		}
	case setting.RuleSet:
		for i := range m.Netfilter.Rules {
			if m.Netfilter.Rules[i].Tool == a.Path {
				m.Netfilter.Rules[i].Rules, m.Netfilter.Rules[i].Lines = 0, []string{}
			}
		}
	}
	m.written[a] = to
	return nil
}

func (m *Machine) writeArgument(a setting.Address, to setting.Reading) error {
	for i := range m.Boot.Entries {
		line, err := setting.ParseCommandLine(m.Boot.Entries[i].Arguments).With(a.Path, to)
		if err != nil {
			return a.Errorf("%w", err)
		}
		m.Boot.Entries[i].Arguments = line.String()
	}
	return nil
}

// writeDefinition edits a definition; Restart makes the guest run with it.
func (m *Machine) writeDefinition(a setting.Address, to setting.Reading) error {
	g := m.guest(a.Object())
	if g == nil {
		return a.Errorf("no such guest")
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err == nil && to.State == setting.Absent {
		err = doc.Restore(a.Rest(), "", false)
	} else if err == nil {
		err = doc.Set(a.Rest(), to.Value)
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	now := libvirt.DescribeDefinition(doc.Guest(), doc.String())
	for i := range now.Interfaces {
		if i < len(g.Interfaces) {
			now.Interfaces[i].Tap = g.Interfaces[i].Tap
		}
	}
	now.State, now.PID, now.Threads, now.Functions, now.Inside = g.State, g.PID, g.Threads, g.Functions, g.Inside
	*g = now
	return nil
}

func (m *Machine) writeThread(a setting.Address, to setting.Reading) error {
	cpus, err := setting.ParseCPUs(to.Value)
	g := m.guest(a.Object())
	if err != nil || g == nil {
		return a.Errorf("%q of no guest", to.Value)
	}
	t := threadOf(g, a)
	if t == nil {
		return a.Errorf("no such thread")
	}
	t.Affinity = cpus
	if t.Role != "emulator" {
		return nil
	}
	for w := range facts.Each(g.Threads) { // its cpuset holds them too
		if w.Role != "vhost" {
			continue
		}
		if w.Affinity = w.Affinity.And(cpus); len(w.Affinity) == 0 {
			w.Affinity = cpus
		}
	}
	return nil
}

func (m *Machine) writeNIC(a setting.Address, to setting.Reading) error {
	n, rest := m.nic(a.Object()), a.Rest()
	if n == nil {
		return a.Errorf("no such NIC")
	}
	number, _ := strconv.Atoi(to.Value)
	switch a.Kind {
	case setting.NICRing:
		*map[string]*int{"rx": &n.Rings.Rx, "tx": &n.Rings.Tx}[rest] = number
	case setting.NICChannels:
		n.Channels.Combined = number
		m.spec.NICs[n.Name].setQueues(n, number, servedBy(n, m.Topology))
	case setting.NICCoalesce:
		n.Coalesce = with(n.Coalesce, rest, to.Value)
	case setting.NICFlowHash:
		n.FlowHash = with(n.FlowHash, rest, to.Value)
	case setting.NICFeature:
		for f := range facts.Each(n.Features) {
			if f.Name == rest {
				f.On = to.Value == "on"
			}
		}
	case setting.IRQAffinity:
		cpus, err := setting.ParseCPUs(to.Value)
		if err != nil {
			return a.Errorf("%w", err)
		}
		for irq := range facts.Each(n.IRQs) {
			if n.Address(*irq) == a {
				irq.Affinity, irq.Effective = cpus, cpus
			}
		}
	}
	return nil
}

// with returns a map with one more value; the map of the spec stays as it is.
func with(values map[string]string, name, value string) map[string]string {
	values = maps.Clone(values)
	values[name] = value
	return values
}

// writeDevice writes a file below a network device's directory that facts show; false if it is another file.
func (m *Machine) writeDevice(a setting.Address, to setting.Reading) (bool, error) {
	parts := strings.Split(a.Path, "/")
	if len(parts) < 4 || parts[0] != "class" || parts[1] != "net" {
		return false, nil
	}
	number, _ := strconv.Atoi(to.Value)
	if parts[3] == "bridge" {
		for b := range facts.Each(m.Bridges) {
			if at := map[string]*bool{"multicast_snooping": &b.Snooping, "stp_state": &b.STP,
				"vlan_filtering": &b.VLANFiltering, "nf_call_iptables": &b.CallIPTables,
				"nf_call_ip6tables": &b.CallIP6Tables,
				"nf_call_arptables": &b.CallARPTables}[parts[4]]; at != nil && b.Name == parts[2] {
				*at = number != 0
				return true, nil
			}
		}
		return false, nil
	}
	n := m.nic(parts[2])
	switch {
	case parts[3] == "tx_queue_len":
		if n != nil {
			n.TxQueueLen = number
		}
		for t := range facts.Each(m.Taps) {
			if t.Name == parts[2] {
				t.TxQueueLen = number
			}
		}
		return true, nil
	case parts[3] == "queues" && n != nil && len(parts) == 6:
		cpus, err := setting.ParseCPUs(to.Value)
		masks := map[string][]setting.CPUSet{"xps_cpus": n.XPS, "rps_cpus": n.RPS}[parts[5]]
		q, errQueue := strconv.Atoi(parts[4][strings.IndexByte(parts[4], '-')+1:])
		if err != nil || errQueue != nil || q >= len(masks) {
			return false, fmt.Errorf("%s: no such queue, or %q is no CPU list", a, to.Value)
		}
		masks[q] = cpus
		return true, nil
	}
	return false, nil
}

// boot starts the host again, with its next kernel arguments.
func (m *Machine) boot() {
	if next, known := m.Boot.NextEntry(); known {
		before := m.Topology.Online.Minus(m.Topology.Isolated)
		m.Kernel.CommandLine = next.Arguments
		line := setting.ParseCommandLine(next.Arguments)
		m.Topology.Isolated = isolatedBy(line, "isolcpus", m.Topology.Online)
		m.Topology.NohzFull = isolatedBy(line, "nohz_full", m.Topology.Online)
		if line.Get("intel_iommu").Value == "on" {
			m.Firmware.Groups = 60
		}
		m.moveLoose(before, m.Topology.Online.Minus(m.Topology.Isolated))
	}
	m.Gather()
}

// startGuests starts all guests again, with their definitions. Threads that were there keep their CPUs.
func (m *Machine) startGuests() {
	for i := range m.Guests {
		g := &m.Guests[i]
		for _, nic := range g.Interfaces {
			for t := range facts.Each(m.Taps) {
				if t.Name == nic.Tap {
					t.RxQueues, t.TxQueues, t.MultiQueue = max(1, nic.Queues), max(1, nic.Queues), nic.Queues > 1
				}
			}
		}
		if e := threadOf(g, setting.Of(setting.ThreadAffinity, g.Name, "emulator")); e != nil {
			addVhostThreads(m.Host, g, e.Affinity, nil)
		}
	}
	m.Gather()
}

// moveLoose gives threads that may run wherever nothing is isolated the CPUs of which that is true now.
func (m *Machine) moveLoose(before, after setting.CPUSet) {
	for g := range facts.Each(m.Guests) {
		for t := range facts.Each(g.Threads) {
			if t.Affinity.Equal(before) {
				t.Affinity = after
			}
		}
	}
}

// quieten takes all losses out of what was counted: the host was watched again, under the same load.
func (m *Machine) quieten() {
	if m.Interval == nil {
		return
	}
	for s := range facts.Each(m.Interval.Softnet) {
		s.Squeezed, s.Dropped = 0, 0
	}
	for _, counters := range m.Interval.Devices {
		for name := range counters {
			if !strings.HasSuffix(name, "_packets") && !strings.HasSuffix(name, "_bytes") {
				counters[name] = 0
			}
		}
	}
}
