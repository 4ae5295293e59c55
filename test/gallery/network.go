package gallery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// features are the offloads that every driver has unless bases/drivers.yaml says otherwise.
var features = []string{
	"rx-checksum", "tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation", "tx-tcp6-segmentation",
	"tx-generic-segmentation", "rx-gro", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
	"tx-gre-segmentation", "tx-nocache-copy",
}

// addNetwork adds NICs, bridges and tunnels.
func (s *Spec) addNetwork(h *facts.Host) error {
	for i, name := range sorted(s.NICs) {
		n, err := s.NICs[name].facts(name, i, h.Topology)
		if err != nil {
			return err
		}
		h.NICs = append(h.NICs, n)
		addVFs(h, &h.NICs[i], s.NICs[name])
	}
	for n := range facts.Each(h.NICs) { // a representor has the bus device of its PF
		of, _, _ := strings.Cut(strings.TrimPrefix(n.PortName, "pf"), "vf")
		pf := facts.Find(h.NICs, func(o *facts.NIC) bool { return o.PortName == "p"+of })
		if n.Representor() && pf != nil {
			n.PCI, n.Link = pf.PCI, pf.Link
		}
	}
	for _, name := range sorted(s.Devices) {
		d := s.Devices[name]
		switch {
		case d.Kind == "bridge":
			h.Bridges = append(h.Bridges, facts.Bridge{
				Name: name, MAC: "02:00:00:00:00:b0", MTU: 1500, Up: true, STP: d.STP, VLANFiltering: d.VLAN,
				Snooping: d.Snooping, CallIPTables: d.Hooks, CallIP6Tables: d.Hooks, CallARPTables: d.Hooks,
				Ports: s.ports(name),
			})
		case slices.Contains(facts.TunnelTypes, d.Kind):
			lower := d.Lower
			if d.Kind == "bond" {
				lower = strings.Join(s.ports(name), ",")
			}
			h.Tunnels = append(h.Tunnels, facts.Tunnel{Name: name, Type: d.Kind, Lower: lower, Master: d.Master,
				TxQueues: max(1, d.Queues), RxQueues: max(1, d.Queues), Lockless: !d.Locked, LocklessBy: "driver",
				Up: true, Underlay: d.Underlay, MTU: d.MTU})
		default:
			h.Links = append(h.Links, facts.Link{Name: name, Kind: d.Kind, Master: d.Master, Lower: d.Lower,
				Peer: d.Peer, Elsewhere: d.Elsewhere, Programs: d.Programs, Up: true})
		}
	}
	s.addRouting(h)
	return nil
}

func (s *Spec) addRouting(h *facts.Host) {
	answer := map[bool]facts.Answer{true: facts.Yes, false: facts.No}
	r := facts.Routing{Forward: answer[s.Routing.Forward], Masquerade: answer[s.Routing.Masquerade],
		Addressed: s.Routing.Addressed, Uplinks: s.Routing.Uplinks}
	for _, n := range h.NICs {
		if n.Management != "" {
			r.Addressed = append(r.Addressed, n.Name)
			if len(s.Routing.Uplinks) == 0 {
				r.Uplinks = append(r.Uplinks, n.Name)
			}
		}
	}
	if !s.Routing.Unknown {
		h.Routing = &r
	}
}

// ports returns the NICs and devices below a master.
func (s *Spec) ports(master string) []string {
	ports := []string{}
	for _, name := range sorted(s.NICs) {
		if s.NICs[name].Master == master {
			ports = append(ports, name)
		}
	}
	for _, name := range sorted(s.Devices) {
		if s.Devices[name].Master == master {
			ports = append(ports, name)
		}
	}
	return ports
}

// facts returns the NIC of a name and position on a host.
func (n NIC) facts(name string, at int, t facts.Topology) (facts.NIC, error) {
	f := facts.NIC{
		Name: name, Index: at + 2, MAC: fmt.Sprintf("02:00:00:00:01:%02x", at), Driver: n.Driver,
		Bus: cmp.Or(n.Bus, "pci"), Node: n.Node, Up: !n.Down, Carrier: "up", MTU: cmp.Or(n.MTU, 1500), Speed: n.Speed,
		Master: n.Master, TxQueueLen: 1000, Coalesce: n.Coalesce, FlowHash: n.Hash, Qdisc: "mq",
		Stats: map[string]uint64{},
	}
	if f.Bus == "pci" {
		f.PCI, f.Link = fmt.Sprintf("0000:%02x:00.0", 0x41+at), n.link()
	} else {
		f.Node = -1
	}
	if n.Port != "" {
		f.PortName, f.SwitchID = n.Port, "0c42a1"
	}
	if n.Down {
		f.Carrier = "down"
	}
	if n.Management {
		f.Management = "default route"
	}
	if n.MaxVFs > 0 && f.Bus == "pci" {
		f.SRIOV = &facts.SRIOV{Total: n.MaxVFs, Enabled: n.VFs, AutoProbe: true}
	}
	for _, feature := range features {
		fixed := slices.Contains(n.Fixed, feature)
		f.Features = append(f.Features, facts.Feature{Name: feature, Fixed: fixed,
			On: !fixed && !slices.Contains(n.Off, feature)})
	}
	return f, n.addRings(&f, t)
}

// addRings gives a NIC rings, channels and queues, as far as its driver has them.
func (n NIC) addRings(f *facts.NIC, t facts.Topology) error {
	if n.Rings > 0 {
		f.Rings = &facts.Rings{Rx: n.Rings, Tx: n.Rings, MaxRx: n.MaxRings, MaxTx: n.MaxRings}
	}
	cpus, err := setting.ParseCPUs(n.IRQs)
	if err != nil {
		return fmt.Errorf("NIC %s: %w", f.Name, err)
	}
	if len(cpus) == 0 {
		cpus = servedBy(f, t)
	}
	queues := cmp.Or(n.Queues, min(len(t.Online), max(1, n.MaxQueues)))
	switch {
	case n.MaxQueues > 0 && n.Separate:
		f.Channels = &facts.Channels{Rx: queues, Tx: queues, MaxRx: n.MaxQueues, MaxTx: n.MaxQueues}
	case n.MaxQueues > 0:
		f.Channels = &facts.Channels{Combined: queues, MaxCombined: n.MaxQueues}
	}
	n.setQueues(f, queues, cpus)
	return nil
}

// servedBy returns the online CPUs of a NIC's node, or all where it has none.
func servedBy(f *facts.NIC, t facts.Topology) setting.CPUSet {
	if node, known := t.Node(f.Node); known && len(node.CPUs.And(t.Online)) > 0 {
		return node.CPUs.And(t.Online)
	}
	return t.Online
}

// setQueues gives a NIC queues, each with an interrupt on the next of some CPUs.
func (n NIC) setQueues(f *facts.NIC, queues int, cpus setting.CPUSet) {
	f.RxQueues, f.TxQueues = queues, queues
	f.IRQs, f.XPS, f.RPS = nil, make([]setting.CPUSet, queues), make([]setting.CPUSet, queues)
	if n.IRQ == "" {
		return
	}
	for q := range queues {
		name := strings.ReplaceAll(strings.ReplaceAll(n.IRQ, "%s", f.Name), "%d", fmt.Sprint(q))
		on, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, f.Driver+"-"), f.Name+"-"), "@pci:")
		cpu := setting.CPUs(cpus[q%len(cpus)])
		f.IRQs = append(f.IRQs, facts.IRQ{Number: 100*f.Index + q, Name: name, On: on, Affinity: cpu, Effective: cpu,
			Managed: n.Managed})
		f.XPS[q] = cpu
	}
}

// link returns the PCIe link of "16 GT/s x8", by the speed of the NIC unless it is given.
func (n NIC) link() *facts.PCILink {
	transfers, lanes := "8.0", 8
	switch {
	case n.Link != "":
		if _, err := fmt.Sscanf(n.Link, "%s GT/s x%d", &transfers, &lanes); err != nil {
			return nil
		}
	case n.Speed > 100000:
		transfers, lanes = "32.0", 16
	case n.Speed > 40000:
		transfers, lanes = "16.0", 16
	case n.Speed <= 1000:
		transfers, lanes = "5.0", 4
	}
	speed := transfers + " GT/s PCIe"
	return &facts.PCILink{Speed: speed, MaxSpeed: speed, Width: lanes, MaxWidth: lanes}
}

// addVFs adds the virtual functions of a NIC.
func addVFs(h *facts.Host, pf *facts.NIC, n NIC) {
	for i := range n.VFs {
		h.VFs = append(h.VFs, facts.VF{
			PF: pf.Name, Index: i, PCI: vfAddress(pf, i), Group: 100 + i, Driver: "vfio-pci",
			MAC: "00:00:00:00:00:00", SpoofCheck: true, LinkState: "auto",
		})
	}
}

func vfAddress(pf *facts.NIC, index int) string {
	return fmt.Sprintf("%s:%02x.%d", strings.TrimSuffix(pf.PCI, ":00.0"), 1+index/8, index%8)
}
