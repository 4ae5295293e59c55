package gallery

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Read returns what is at an address: what was written there, what the file says of exactly this address, what the
// facts show, or what the longest pattern that fits says.
func (m *Machine) Read(a setting.Address) setting.Reading {
	if r, known := m.written[a]; known {
		return r
	}
	name := a.String()
	if text, given := m.spec.Readings[name]; given {
		return m.reading(a, text)
	}
	if r, shown := m.shown(a); shown {
		return r
	}
	best := ""
	for pattern := range m.spec.Readings {
		if len(pattern) > len(best) && fits(pattern, name) {
			best = pattern
		}
	}
	if best == "" {
		return setting.CouldNotTell(noValue)
	}
	return m.reading(a, m.spec.Readings[best])
}

// noValue is why an address is unknown of which no file says anything.
const noValue = "the gallery has no value for it"

// fits reports whether a text is like a pattern in which * stands for any text.
func fits(pattern, text string) bool {
	head, rest, found := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, head)
	if !found || !ok {
		return ok && text == ""
	}
	for i := range len(text) + 1 {
		if fits(rest, text[i:]) {
			return true
		}
	}
	return false
}

// reading parses a value of Spec.Readings.
func (m *Machine) reading(a setting.Address, text string) setting.Reading {
	fields := strings.Fields(text)
	if n := len(fields); n > 1 && (fields[n-2] == "since" || fields[n-2] == "before") {
		if (facts.CompareVersions(m.spec.Kernel, fields[n-1]) >= 0) != (fields[n-2] == "since") {
			return setting.Reading{State: setting.Absent, Why: "not in this kernel", Unsupported: true}
		}
		text = strings.Join(fields[:n-2], " ")
	}
	text, fixed := strings.CutSuffix(text, " fixed")
	switch text {
	case "absent":
		return setting.Missing("not there")
	case "unknown":
		return setting.CouldNotTell("could not be read")
	case "online":
		text = m.Topology.Online.String()
	}
	value, err := setting.Kinds[a.Kind].Canonical(text)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return setting.Reading{State: setting.Known, Value: value, ReadOnly: fixed}
}

// shown returns the reading that follows from the facts, false if they do not tell.
func (m *Machine) shown(a setting.Address) (setting.Reading, bool) {
	switch a.Kind {
	case setting.KernelArg:
		next, known := m.Boot.NextEntry()
		if !known {
			return setting.CouldNotTell("no boot loader was found"), true
		}
		r := setting.ParseCommandLine(next.Arguments).Get(a.Path)
		r.ReadOnly = r.ReadOnly || m.Boot.Frozen != ""
		return r, true
	case setting.BootKernel:
		next, known := m.Boot.NextEntry()
		if !known {
			return setting.CouldNotTell("no boot loader was found"), true
		}
		return setting.Value(next.Version), true
	case setting.OVSDB:
		if m.OpenVSwitch == nil {
			return setting.NoObject("there is no Open vSwitch here"), true
		}
		if value, has := m.OpenVSwitch.Config[a.Path]; has {
			return setting.Value(value), true
		}
		return setting.Missing("the key is not there"), true
	case setting.Service:
		s := facts.Find(m.Services, func(s *facts.Service) bool { return s.Name == a.Path })
		switch {
		case s == nil:
			return setting.Missing("not installed"), true
		case s.Running:
			return setting.Reading{State: setting.Known, Value: "running", ReadOnly: !m.Lasting.Systemd}, true
		}
		return setting.Reading{State: setting.Known, Value: "stopped", ReadOnly: !m.Lasting.Systemd}, true
	case setting.Domain, setting.DomainLive, setting.ThreadAffinity:
		return m.ofGuest(a), true
	case setting.NICRing, setting.NICChannels, setting.NICCoalesce, setting.NICFeature, setting.NICFlowHash,
		setting.IRQAffinity:
		return m.ofNIC(a), true
	case setting.Sysfs, setting.SysfsCPUs:
		return m.ofSysfs(a)
	case setting.VFAttr:
		return m.ofVF(a), true
	case setting.RuleSet:
		s := facts.Find(m.Netfilter.Rules, func(s *facts.RuleSet) bool { return s.Tool == a.Path })
		if s == nil || s.Rules == 0 {
			return setting.Missing("no rules"), true
		}
		return setting.Value(strings.Join(s.Lines, "\n")), true
	case setting.IRQCPUs:
		for _, irq := range m.Housekeeping.IRQs {
			if a.Path == strconv.Itoa(irq.Number)+"/"+irq.On {
				return setting.Reading{State: setting.Known, Value: irq.Affinity.String(), ReadOnly: irq.Managed}, true
			}
		}
	}
	return setting.Reading{}, false
}

func (m *Machine) nic(name string) *facts.NIC {
	return facts.Find(m.NICs, func(n *facts.NIC) bool { return n.Name == name })
}

func (m *Machine) guest(name string) *facts.Guest {
	return facts.Find(m.Guests, func(g *facts.Guest) bool { return g.Name == name })
}

// count is a reading of a number that a driver bounds.
func count(n, most int) setting.Reading {
	bound := int64(most)
	return setting.Reading{State: setting.Known, Value: strconv.Itoa(n), Max: &bound}
}

func (m *Machine) ofNIC(a setting.Address) setting.Reading {
	n := m.nic(a.Object())
	if n == nil {
		return setting.NoObject("no such NIC")
	}
	rest := a.Rest()
	switch {
	case a.Kind == setting.NICRing && n.Rings != nil && rest == "rx":
		return count(n.Rings.Rx, n.Rings.MaxRx)
	case a.Kind == setting.NICRing && n.Rings != nil:
		return count(n.Rings.Tx, n.Rings.MaxTx)
	case a.Kind == setting.NICChannels && n.Channels != nil:
		if rest == "combined" {
			return count(n.Channels.Combined, n.Channels.MaxCombined)
		}
		return count(n.Channels.Rx, n.Channels.MaxRx)
	case a.Kind == setting.NICCoalesce && n.Coalesce[rest] != "":
		return setting.Value(n.Coalesce[rest])
	case a.Kind == setting.NICFlowHash && n.FlowHash[rest] != "":
		return setting.Value(n.FlowHash[rest])
	case a.Kind == setting.NICFeature:
		if f := facts.Find(n.Features, func(f *facts.Feature) bool { return f.Name == rest }); f != nil {
			value := "off"
			if f.On {
				value = "on"
			}
			return setting.Reading{State: setting.Known, Value: value, ReadOnly: f.Fixed}
		}
	case a.Kind == setting.IRQAffinity:
		for _, irq := range n.IRQs {
			if n.Address(irq) == a {
				return setting.Reading{State: setting.Known, Value: irq.Affinity.String(), ReadOnly: irq.Managed}
			}
		}
	}
	return setting.Reading{State: setting.Absent, Why: "the driver has no such value", Unsupported: true}
}

func (m *Machine) ofSysfs(a setting.Address) (setting.Reading, bool) {
	parts := strings.Split(a.Path, "/")
	last := parts[len(parts)-1]
	switch {
	case a.Path == "devices/system/clocksource/clocksource0/current_clocksource":
		return setting.Value(m.Kernel.Clocksource), true
	case a.Path == "devices/system/cpu/smt/control":
		return setting.Value(m.Topology.SMT), true
	case last == "energy_performance_preference":
		if m.spec.Power.EPP == "" || m.spec.Power.Driver == "none" {
			return setting.Missing("the processor does not choose its clock by itself"), true
		}
		return setting.Value(m.spec.Power.EPP), true
	case last == "scaling_governor":
		if m.spec.Power.Driver == "none" {
			return setting.Missing("no cpufreq"), true
		}
		return setting.Value(m.spec.Power.Governor), true
	case strings.HasPrefix(a.Path, "module/kvm/parameters/") && m.KVM.Parameters["kvm."+last] != "":
		return setting.Value(m.KVM.Parameters["kvm."+last]), true
	case parts[0] != "class" || len(parts) < 4 || parts[1] != "net":
		return setting.Reading{}, false
	}
	return m.ofDevice(parts[2], parts[3:])
}

// ofDevice returns what a file below a network device's directory holds.
func (m *Machine) ofDevice(name string, file []string) (setting.Reading, bool) {
	n := m.nic(name)
	tap := facts.Find(m.Taps, func(t *facts.Tap) bool { return t.Name == name })
	bridge := facts.Find(m.Bridges, func(b *facts.Bridge) bool { return b.Name == name })
	switch {
	case file[0] == "queues" && len(file) == 3 && n != nil:
		masks, direction := n.XPS, "tx-"
		if file[2] == "rps_cpus" {
			masks, direction = n.RPS, "rx-"
		}
		q, err := strconv.Atoi(strings.TrimPrefix(file[1], direction))
		if err != nil || q >= len(masks) {
			return setting.Missing("no such queue"), true
		}
		return setting.Value(masks[q].String()), true
	case file[0] == "tx_queue_len" && n != nil:
		return setting.Value(strconv.Itoa(n.TxQueueLen)), true
	case file[0] == "tx_queue_len" && tap != nil:
		return setting.Value(strconv.Itoa(tap.TxQueueLen)), true
	case file[0] == "bridge" && bridge != nil:
		on, known := map[string]bool{"multicast_snooping": bridge.Snooping, "stp_state": bridge.STP,
			"vlan_filtering": bridge.VLANFiltering, "nf_call_iptables": bridge.CallIPTables,
			"nf_call_ip6tables": bridge.CallIP6Tables, "nf_call_arptables": bridge.CallARPTables}[file[1]]
		if on {
			return setting.Value("1"), known
		}
		return setting.Value("0"), known
	case strings.Join(file, "/") == "device/sriov_numvfs" && n != nil && n.SRIOV != nil:
		return setting.Value(strconv.Itoa(n.SRIOV.Enabled)), true
	}
	return setting.Reading{}, false
}

// ofGuest returns a value of a definition or the CPUs of a thread.
func (m *Machine) ofGuest(a setting.Address) setting.Reading {
	g := m.guest(a.Object())
	if g == nil {
		return setting.NoObject("no such guest")
	}
	if a.Kind == setting.Domain {
		doc := m.parsed[g.Definition]
		if doc == nil {
			var err error
			if doc, err = domain.Parse([]byte(g.Definition)); err != nil {
				return setting.CouldNotTell(err.Error())
			}
			m.parsed[g.Definition] = doc
		}
		return libvirt.DefinedValue(doc, a.Rest())
	}
	if t := threadOf(g, a); t != nil {
		return setting.Value(t.Affinity.String())
	}
	return setting.Missing("no such thread")
}

// threadOf returns the thread of an address of its CPUs, nil if there is none.
func threadOf(g *facts.Guest, a setting.Address) *facts.Thread {
	parts := strings.Split(a.Rest(), "/")
	role := map[string]string{"vcpupin": "vcpu", "emulatorpin": "emulator", "iothreadpin": "iothread"}[parts[0]]
	if role == "" {
		role = parts[0]
	}
	return facts.Find(g.Threads, func(t *facts.Thread) bool {
		switch {
		case t.Role != role:
			return false
		case role == "vhost":
			return len(parts) == 3 && t.NIC == parts[1] && strconv.Itoa(t.Queue) == parts[2]
		}
		return len(parts) == 1 || strconv.Itoa(t.Index) == parts[1]
	})
}

func (m *Machine) ofVF(a setting.Address) setting.Reading {
	parts := strings.Split(a.Rest(), "/")
	f := facts.Find(m.VFs, func(f *facts.VF) bool { return f.PF == a.Object() && strconv.Itoa(f.Index) == parts[0] })
	if f == nil || len(parts) != 2 {
		return setting.Missing("no such virtual function")
	}
	onOff := map[bool]string{true: "on", false: "off"}
	value, known := map[string]string{"mac": f.MAC, "vlan": fmt.Sprint(f.VLAN), "qos": fmt.Sprint(f.QoS),
		"max_tx_rate": fmt.Sprint(f.MaxTxRate), "min_tx_rate": fmt.Sprint(f.MinTxRate), "spoofchk": onOff[f.SpoofCheck],
		"trust": onOff[f.Trust], "link_state": f.LinkState}[parts[1]]
	if !known {
		return setting.Missing("no such attribute")
	}
	return setting.Value(value)
}
