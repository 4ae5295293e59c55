package reach

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// VhostUser: ovs-vswitchd shares the vrings, polls them, and tells what it does. PolledUnseen: so does a process that
// tells nothing, such as VPP, or one that polls devices of the kernel.
const (
	VhostUser    Kind = "vhost-user"
	PolledUnseen Kind = "polled"
)

var vhostUser = &Hops{
	Kind: VhostUser, Words: "vhost-user", Judged: true,
	What:        "polling threads of Open vSwitch with DPDK share the rings, and ovs-vswitchd tells what they do",
	Needs:       []string{"open_vswitch", "pollers"},
	Interfaces:  []string{"vhostuser", "vhost-user"},
	Knobs:       []string{"ovs.pmd_cpus", "ovs.pmd_balance", "ovs.rxqs", "ovs.caches", "ovs.vhost_drops", "ovs.mbufs"},
	Bottlenecks: []string{"pmd", "pmd-shared", "pmd-imbalance", "vhost-user-ring", "mbufs"},
	Present: func(h *facts.Host) bool {
		return h.OpenVSwitch != nil && h.OpenVSwitch.Polled != nil
	},
}

var polledUnseen = &Hops{
	Kind: PolledUnseen, Words: "a polling process that does not tell what it does",
	What: "a polling process shares the rings or the NIC and tells nothing: VPP, Open vSwitch with DPDK without its " +
		"control socket, or with taps",
	Devices: []string{facts.UserDatapath},
	Needs:   []string{"pollers"},
}

// Kinds of hops of Open vSwitch's own datapath.
const (
	VhostUserPort = "vhost-user"
	PMDBridge     = "pmd"
	DPDKPort      = "dpdk"
)

// vhostUserPath walks from a guest's NIC over the port that shares its vrings to the ports that a NIC is behind. What
// the flows do with packets is not known: every such port of the bridge, and of those patched to it, may be a way out.
// Without a port of that socket, or without what ovs-vswitchd tells, the path is not judged.
func (w *walk) vhostUserPath(i facts.Interface) {
	o := w.host.OpenVSwitch
	bridge, port := o.VhostUserPort(i.Source)
	if port == nil || o.Polled == nil {
		w.passes(PolledUnseen)
		return
	}
	w.passes(VhostUser)
	w.hops = append(w.hops, Hop{Device: port.Name, Kind: VhostUserPort})
	w.polledBridge(bridge)
}

// polledBridge walks through a bridge of the datapath, and those that it has patch ports to.
func (w *walk) polledBridge(name string) {
	o := w.host.OpenVSwitch
	b := facts.Find(o.Bridges, func(b *facts.OVSBridge) bool {
		return b.Name == name && b.Datapath == facts.UserDatapath
	})
	if b == nil || w.seen[name] {
		return
	}
	w.seen[name] = true
	w.hops = append(w.hops, Hop{Device: name, Kind: PMDBridge})
	for p := range facts.Each(b.Ports) {
		for _, i := range p.Interfaces {
			switch {
			case i.Type == "dpdk":
				w.hops = append(w.hops, Hop{Device: i.Name, Kind: DPDKPort})
			case i.Type == "patch":
				w.polledBridge(ownerOf(o, i.Options["peer"]))
			}
		}
	}
}

// ownerOf returns the bridge that has an interface.
func ownerOf(o *facts.OpenVSwitch, name string) string {
	for b := range facts.Each(o.Bridges) {
		for _, p := range b.Ports {
			is := func(i facts.OVSInterface) bool { return i.Name == name && name != "" }
			if slices.ContainsFunc(p.Interfaces, is) {
				return b.Name
			}
		}
	}
	return ""
}

// DPDKDevice returns the device behind a port of DPDK, for people: its PCI address, or the driver and its arguments
// (ovs-vswitchd.conf.db(5), options:dpdk-devargs).
func DPDKDevice(i *facts.OVSInterface) string {
	device, _, _ := strings.Cut(i.Options["dpdk-devargs"], ",")
	return cmp.Or(device, "a device that is not known")
}
