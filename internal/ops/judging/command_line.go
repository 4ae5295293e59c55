// Package judging audits a host for every command that needs an audit of a whole host.
package judging

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/machine"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Audit audits a host. Guests that libvirt does not know there are judged by QEMU's command line and threads.
func Audit(h *facts.Host, g goal.Goal, adjust audit.Adjust) audit.Report {
	catalogue := knob.Catalogue()
	r := audit.RunWith(h, g, catalogue, adjust)
	unknown := func(guest facts.Guest) bool { return !guest.Managed && guest.Active() }
	if r.Role.Declined() || !slices.ContainsFunc(h.Guests, unknown) {
		return r
	}
	guests := map[string]*facts.Guest{}
	for guest := range facts.Each(h.Guests) {
		if guests[guest.Name] == nil { // the first of the same name wins
			guests[guest.Name] = guest
		}
	}
	var more []audit.Finding
	for _, f := range audit.RunWith(WithDefinitions(h), g, catalogue, adjust).Findings {
		guest := guests[f.Address.Object()]
		if f.Address.Kind != setting.Domain || guest == nil || !unknown(*guest) ||
			!SeenOnCommandLine(guest, f.ID, f.Address.Rest()) {
			continue
		}
		if f.State == audit.Off && !guest.Rewrites() {
			f.Blocked = ChangedBy(guest)
		}
		more = append(more, f)
	}
	return r.With(more, catalogue)
}

// ChangedBy says how to change a guest that no platform owns.
func ChangedBy(g *facts.Guest) string {
	if g.Managed {
		return "'mpps plan --guest " + g.Name + "' changes it here"
	}
	return "libvirt does not know it: change the command line where its QEMU is started"
}

// SeenOnCommandLine reports whether QEMU's command line and threads show the value that a knob judges. libvirt in a pod
// writes host-model as a named processor.
func SeenOnCommandLine(g *facts.Guest, id, path string) bool {
	if id == "domain.cpu_model" {
		return path == "cpu/mode" && g.CPUMode != "" && (g.CPUMode != "custom" || !g.Platform().Kubernetes())
	}
	return slices.Contains([]string{"domain.queues", "domain.nic_model", "domain.backend", "domain.vcpupin",
		"domain.emulatorpin", "domain.numatune", "domain.hugepages", "domain.rx_queue_size",
		"domain.tx_queue_size"}, id)
}

// WithDefinitions returns the host with definitions for guests that libvirt does not know there, made from their
// command lines, so that they are judged like libvirt's.
func WithDefinitions(h *facts.Host) *facts.Host {
	with := *h
	with.Guests, with.Readings = slices.Clone(h.Guests), facts.Readings{}
	for a, r := range h.Readings {
		with.Readings[a] = r
	}
	docs := map[string]*domain.Doc{}
	for i := range with.Guests {
		g := &with.Guests[i]
		if g.Managed || !g.Active() {
			continue
		}
		g.Managed, g.Interfaces = true, slices.Clone(g.Interfaces)
		was := *g
		g.Elsewhere, g.Namespace = false, 0 // model, queues and back end count wherever its packets go from the tap
		for nic := range facts.Each(g.Interfaces) {
			if was.Away(nic) && nic.Tap != "" {
				nic.Tap = standIn(&with, g, nic)
			}
			nic.TapElsewhere, nic.TapNamespace = "", 0
			if nic.Type == "tap" {
				nic.Type = "ethernet" // libvirt's name for a tap that it does not connect
			}
			if nic.Virtio() {
				nic.Model = "virtio"
			}
		}
		if doc, err := domain.Parse([]byte(definitionOf(h, g))); err == nil {
			docs[g.Name] = doc
		}
	}
	for _, a := range knob.Addresses(&with, knob.Catalogue()) {
		if doc := docs[a.Object()]; doc != nil && a.Kind == setting.Domain {
			with.Readings[a] = machine.DefinedValue(doc, a.Rest())
		}
	}
	return &with
}

// standIn adds a tap and a bridge to the host in place of a tap in another network namespace, and returns the new tap's
// name, which no tap of the host has. No verdict on the definition depends on the two.
func standIn(with *facts.Host, g *facts.Guest, nic *facts.Interface) string {
	tap := facts.Tap{Name: g.Name + "/" + nic.Tap, Type: "tap", Guest: g.Name, Up: true, TxQueues: nic.Queues,
		RxQueues: nic.Queues, MultiQueue: nic.Queues > 1}
	tap.Master = tap.Name + "/bridge"
	with.Taps = append(slices.Clone(with.Taps), tap)
	with.Bridges = append(slices.Clone(with.Bridges), facts.Bridge{Name: tap.Master, Ports: []string{tap.Name}})
	return tap.Name
}

// definitionOf returns a definition with what is known about a QEMU process.
func definitionOf(h *facts.Host, g *facts.Guest) string {
	var b strings.Builder
	word := html.EscapeString
	fmt.Fprintf(&b, "<domain type='kvm'><name>%s</name><memory unit='b'>%d</memory><vcpu>%d</vcpu>", word(g.Name),
		g.Memory, g.VCPUs)
	if g.Hugepages {
		b.WriteString("<memoryBacking><hugepages/></memoryBacking>")
	}
	writePlaces(&b, h, g)
	fmt.Fprintf(&b, "<os><type machine='%s'>hvm</type></os><cpu mode='%s'/><devices>", word(g.Machine),
		cmp.Or(word(g.CPUMode), "custom"))
	for _, nic := range g.Interfaces {
		if nic.MAC == "" {
			continue
		}
		fmt.Fprintf(&b, "<interface type='ethernet'><mac address='%s'/><model type='%s'/>",
			word(nic.MAC), word(nic.Model))
		fmt.Fprintf(&b, "<driver name='%s' queues='%d'", word(nic.Backend), max(1, nic.Queues))
		if nic.RxQueueSize > 0 {
			fmt.Fprintf(&b, " rx_queue_size='%d'", nic.RxQueueSize)
		}
		if nic.TxQueueSize > 0 {
			fmt.Fprintf(&b, " tx_queue_size='%d'", nic.TxQueueSize)
		}
		b.WriteString("/></interface>")
	}
	b.WriteString("</devices></domain>")
	return b.String()
}

// writePlaces writes where the threads and the memory of a guest are bound: threads that may use every CPU are not.
func writePlaces(b *strings.Builder, h *facts.Host, g *facts.Guest) {
	b.WriteString("<cputune>")
	for _, t := range g.Threads {
		if len(t.Affinity) == 0 || len(h.Topology.Online.Minus(t.Affinity)) == 0 {
			continue
		}
		switch t.Role {
		case "vcpu":
			fmt.Fprintf(b, "<vcpupin vcpu='%d' cpuset='%s'/>", t.Index, t.Affinity)
		case "emulator":
			fmt.Fprintf(b, "<emulatorpin cpuset='%s'/>", t.Affinity)
		}
	}
	b.WriteString("</cputune>")
	if len(g.MemoryNodes) > 0 {
		fmt.Fprintf(b, "<numatune><memory mode='strict' nodeset='%s'/></numatune>", g.MemoryNodes)
	}
}
