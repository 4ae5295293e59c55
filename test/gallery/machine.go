package gallery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Machine is a made host that can be read and written.
type Machine struct {
	*facts.Host
	spec    *Spec
	written facts.Readings         // of addresses that no fact stands for
	parsed  map[string]*domain.Doc // by the text of a definition
}

// Machine makes the host.
func (s *Spec) Machine() (*Machine, error) {
	m, err := s.build()
	if err == nil {
		m.Gather()
	}
	return m, err
}

// build makes the host without its readings.
func (s *Spec) build() (*Machine, error) {
	m := &Machine{Host: &facts.Host{
		Name: "host", Taken: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Root: "/", AsRoot: true, Virtual: s.Virtual,
		Unseen: []facts.Unseen{}, VFs: []facts.VF{}, Bridges: []facts.Bridge{}, Tunnels: []facts.Tunnel{},
		NICs: []facts.NIC{}, Taps: []facts.Tap{}, Guests: []facts.Guest{},
	}, spec: s, written: facts.Readings{}, parsed: map[string]*domain.Doc{}}
	if s.Unread {
		m.AsRoot = false
		m.Unseen = append(m.Unseen, facts.GuestsUnseen("permission denied"))
		m.Readings = facts.Readings{}
		return m, m.overlay()
	}
	var err error
	if m.Topology, err = s.topology(); err != nil {
		return nil, err
	}
	s.addKernel(m.Host)
	if err := s.addPower(m.Host); err != nil {
		return nil, err
	}
	if err := s.addNetwork(m.Host); err != nil {
		return nil, err
	}
	if err := s.addGuests(m.Host); err != nil {
		return nil, err
	}
	s.addHousekeeping(m.Host)
	s.addInterval(m.Host)
	return m, m.overlay()
}

// overlay lays the spec's own facts over the host.
func (m *Machine) overlay() error {
	text, err := json.Marshal(m.spec.Facts)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, m.Host)
}

// Gather reads every address that the catalogue asks for.
func (m *Machine) Gather() {
	m.Readings = facts.Readings{}
	if m.spec.Unread {
		return
	}
	for _, a := range knob.Addresses(m.Host, knob.Catalogue()) {
		m.Readings[a] = m.Read(a)
	}
}

func (s *Spec) addKernel(h *facts.Host) {
	id, version, _ := strings.Cut(s.Distro, " ")
	h.System = facts.System{ID: id, Version: version, Like: []string{}}
	line := strings.TrimSpace("BOOT_IMAGE=/boot/vmlinuz-" + s.Kernel + " root=/dev/sda2 ro " + s.Cmdline)
	h.Kernel = facts.Kernel{Release: s.Kernel, Arch: s.Arch, Version: "#1 SMP PREEMPT_DYNAMIC", CommandLine: line,
		Realtime: s.Realtime, Vulnerabilities: s.Vulnerable, Clocksource: "tsc", RTGroups: facts.No}
	if s.Realtime {
		h.Kernel.Version = "#1 SMP PREEMPT_RT"
	}
	if s.Arch == "aarch64" {
		h.Kernel.Clocksource = "arch_sys_counter"
	}
	if s.Loader != "none" {
		entry := facts.BootEntry{ID: "0", Version: s.Kernel, Linux: "/boot/vmlinuz-" + s.Kernel, Arguments: line}
		h.Boot = &facts.Boot{Loader: s.Loader, Files: []string{"/boot"}, Next: "0", Writer: s.Loader,
			Entries: []facts.BootEntry{entry}}
	}
	s.addFirmware(h)
	h.KVM = facts.KVM{Loaded: s.KVM.Module != "none", Vendor: s.KVM.Module, Vhost: s.KVM.Vhost,
		Parameters: s.KVM.Parameters, QEMU: s.KVM.QEMU, Libvirt: s.KVM.Libvirt}
	if !h.KVM.Loaded {
		h.KVM.Vendor = ""
	}
	s.addServices(h)
}

func (s *Spec) addFirmware(h *facts.Host) {
	h.Firmware.Tables = true
	if s.Virtual != "" {
		return // few virtual machines have an IOMMU
	}
	amd, x86 := s.CPU.Vendor == "AuthenticAMD" || s.CPU.Vendor == "HygonGenuine", s.Arch == "x86_64"
	h.Firmware.DMAR, h.Firmware.IVRS = x86 && !amd, amd
	if amd || !x86 || setting.ParseCommandLine(h.Kernel.CommandLine).Get("intel_iommu").Value == "on" {
		h.Firmware.Groups = 60
	}
}

func (s *Spec) addServices(h *facts.Host) {
	h.Netfilter = facts.Netfilter{BridgeModule: s.Rules.BridgeModule, Conntrack: s.Rules.Conntrack,
		Backends: sorted(s.Rules.Sets), Rules: []facts.RuleSet{}}
	for _, tool := range sorted(s.Rules.Sets) {
		lines := s.Rules.Sets[tool]
		h.Netfilter.Rules = append(h.Netfilter.Rules, facts.RuleSet{Tool: tool, Rules: len(lines), Lines: lines})
	}
	for _, name := range sorted(s.Services) {
		h.Services = append(h.Services, facts.Service{Name: name, Running: s.Services[name]})
	}
	for _, name := range sorted(s.Storage) {
		h.Storage = append(h.Storage, facts.Storage{Name: name, Count: s.Storage[name], Memory: 4 << 30})
	}
	h.Lasting = &facts.Lasting{Systemd: true, Program: "/usr/bin/mpps", Sysctls: []facts.OwnedValue{}}
}

func (s *Spec) addPower(h *facts.Host) error {
	p, cpus := s.Power, len(h.Topology.Online)
	limit := 2_000_000_000
	h.Power = facts.Power{Governors: map[string]int{}, Preferences: map[string]int{}, Turbo: "on",
		IdleDriver: p.Idle, IdleGovernor: "menu", IdleStates: []facts.IdleState{}, LatencyLimit: &limit}
	if p.Driver != "none" {
		h.Power.ScalingDriver = p.Driver
		h.Power.Governors[p.Governor] = cpus
		if p.EPP != "" {
			h.Power.Preferences[p.EPP] = cpus
		}
	}
	for word := range strings.FieldsSeq(p.States) {
		word, disabled := strings.CutPrefix(word, "-")
		name, latency, _ := strings.Cut(word, ":")
		us, err := strconv.Atoi(latency)
		if err != nil {
			return fmt.Errorf("idle state %q: expected NAME:MICROSECONDS", word)
		}
		state := facts.IdleState{Name: name, Latency: us, CPUs: cpus}
		if disabled {
			state.Disabled = cpus
		}
		h.Power.IdleStates = append(h.Power.IdleStates, state)
	}
	return nil
}

func (s *Spec) addHousekeeping(h *facts.Host) {
	k := &facts.Housekeeping{Swap: []facts.SwapArea{}, KSM: &facts.KSM{}, VFFiles: []facts.VFFile{}}
	for _, n := range h.Topology.Nodes {
		k.Available += n.Available
	}
	if s.Swap {
		k.Swap = append(k.Swap, facts.SwapArea{Name: "/dev/sda3", Type: "partition", Size: 8 << 30, Priority: -2})
	}
	kinds := []string{"ksoftirqd"}
	if s.Realtime {
		kinds = append(kinds, "ktimers", "rcuc")
	}
	for _, cpu := range h.Topology.Online {
		for _, kind := range kinds {
			k.Threads = append(k.Threads, facts.KernelThread{Name: fmt.Sprintf("%s/%d", kind, cpu), PID: 20 + cpu,
				Policy: "SCHED_OTHER"})
		}
		h.Softnet = append(h.Softnet, facts.Softnet{CPU: cpu, Processed: 1e9, Squeezed: 100})
	}
	k.IRQs = []facts.IRQ{
		{Number: 9, Name: "acpi", On: "acpi", Affinity: h.Topology.Online, Effective: setting.CPUs(0)},
		{Number: 30, Name: "nvme0q0", On: "nvme0q0", Affinity: h.Topology.Online, Effective: setting.CPUs(0)},
		{Number: 31, Name: "nvme0q1", On: "nvme0q1", Affinity: setting.CPUs(0), Effective: setting.CPUs(0),
			Managed: true},
	}
	h.Housekeeping = k
	h.Isolation = &facts.Isolation{Cgroups: []facts.Cgroup{}}
	p := &facts.Passthrough{Remapping: "on", Modules: map[string]string{"vfio-pci": "available"},
		Groups: []facts.IOMMUGroup{}, Functions: []facts.PhysicalFunction{}}
	for _, n := range h.NICs {
		if n.SRIOV != nil {
			p.Functions = append(p.Functions, facts.PhysicalFunction{NIC: n.Name, PCI: n.PCI, Vendor: "0x8086",
				Device: "0x1592", Capability: n.SRIOV.Total, Windows: 2, Bridges: []facts.PCIBridge{}})
		}
	}
	h.Passthrough = p
}

func (s *Spec) addInterval(h *facts.Host) {
	i := s.Interval
	if i == nil {
		return
	}
	d := &facts.Interval{Seconds: i.Seconds, Devices: map[string]map[string]uint64{}, IRQs: i.IRQs}
	busy := slices.Clone(h.Topology.Online[:min(4, len(h.Topology.Online))])
	for n, cpu := range busy {
		part := func(total uint64) uint64 { // the first has the remainder
			if n == 0 {
				return total - total/uint64(len(busy))*uint64(len(busy)-1)
			}
			return total / uint64(len(busy))
		}
		d.Softnet = append(d.Softnet, facts.Softnet{CPU: cpu, Processed: part(i.Processed), Squeezed: part(i.Squeezed),
			Dropped: part(i.Dropped)})
	}
	for _, n := range h.NICs {
		d.Devices[n.Name] = map[string]uint64{"rx_packets": 0, "tx_packets": 0, "rx_missed_errors": 0, "tx_dropped": 0}
	}
	for _, t := range h.Taps {
		d.Devices[t.Name] = map[string]uint64{"rx_packets": 0, "tx_packets": 0, "tx_dropped": 0}
	}
	for device, counters := range i.Devices {
		for counter, n := range counters {
			if d.Devices[device] == nil {
				d.Devices[device] = map[string]uint64{}
			}
			d.Devices[device][counter] = n
		}
	}
	h.Interval = d
}
