// Package handing implements 'mpps handover': what the platforms of guests are to be told.
package handing

import (
	"context"
	"fmt"
	"html"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/handover"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/machine"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Request says what is asked for.
type Request struct {
	Goal     goal.Goal
	Snapshot string // a file of 'mpps snapshot' instead of the machine
}

// Answer is what the platforms are to be told.
type Answer struct {
	Guests []handover.Sheet `json:"guests"`

	Host     *facts.Host       `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Words returns what the platforms of a host's guests are to be told, for the guest of the goal or for all.
func Words(ctx context.Context, env *ops.Env, a Request) (*Answer, error) {
	h, err := env.Gather(ctx, ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := ops.CheckGoal(h.Facts, a.Goal); err != nil {
		return nil, err
	}
	if a.Goal.Guest != "" {
		g := facts.Find(h.Facts.Guests, func(g *facts.Guest) bool { return g.Name == a.Goal.Guest })
		if !g.Rewrites() {
			return nil, outcome.Failed(fmt.Errorf("guest %s is of no platform that regenerates its definition (%s)",
				g.Name, g.Platform().Title()), "'mpps plan --guest "+g.Name+"' changes it here")
		}
	}
	sheets, err := Sheets(h.Facts, a.Goal, h.Site.Adjust)
	if err != nil {
		return nil, err
	}
	return &Answer{Guests: sheets, Host: h.Facts, Warnings: ops.Caveats(h.Facts, a.Goal)}, nil
}

// Sheets returns what the platforms are to be told on a host with readings.
func Sheets(h *facts.Host, g goal.Goal, adjust audit.Adjust) ([]handover.Sheet, error) {
	p, err := plan.Make(withDefinitions(h), g, knob.Catalogue(), adjust)
	if err != nil {
		return nil, err
	}
	handed := slices.DeleteFunc(p.Handover, func(d plan.Handed) bool {
		guest := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == d.Guest })
		return guest != nil && !guest.Managed && !seenOnCommandLine(d.ID)
	})
	return handover.Of(h, handed, g.Guest), nil
}

// seenOnCommandLine reports whether what a knob judges is known of a QEMU process whose definition nobody has.
func seenOnCommandLine(id string) bool {
	return slices.Contains([]string{"domain.queues", "domain.nic_model", "domain.backend", "domain.vcpupin",
		"domain.emulatorpin", "domain.numatune"}, id)
}

// withDefinitions returns the host with definitions of the guests that libvirt does not know there, made of what their
// command lines say, so that they are judged as libvirt's are.
func withDefinitions(h *facts.Host) *facts.Host {
	with := *h
	with.Guests, with.Readings = slices.Clone(h.Guests), facts.Readings{}
	for a, r := range h.Readings {
		with.Readings[a] = r
	}
	for i := range with.Guests {
		g := &with.Guests[i]
		if g.Managed || !g.Rewrites() || !g.Active() {
			continue
		}
		g.Managed, g.Interfaces = true, slices.Clone(g.Interfaces)
		for nic := range facts.Each(g.Interfaces) {
			if nic.Type == "tap" {
				nic.Type = "ethernet" // libvirt's name for a tap that it does not connect
			}
			if nic.Virtio() {
				nic.Model = "virtio"
			}
		}
		doc, err := domain.Parse([]byte(definitionOf(g)))
		if err != nil {
			continue
		}
		for _, a := range knob.Addresses(&with, knob.Catalogue()) {
			if a.Kind == setting.Domain && a.Object() == g.Name {
				with.Readings[a] = machine.DefinedValue(doc, a.Rest())
			}
		}
	}
	return &with
}

// definitionOf returns a definition with what is known of a QEMU process.
func definitionOf(g *facts.Guest) string {
	var b strings.Builder
	word := html.EscapeString
	fmt.Fprintf(&b, "<domain type='kvm'><name>%s</name><memory unit='b'>%d</memory><vcpu>%d</vcpu>", word(g.Name),
		g.Memory, g.VCPUs)
	fmt.Fprintf(&b, "<os><type machine='%s'>hvm</type></os><cpu mode='host-passthrough'/><devices>", word(g.Machine))
	for _, nic := range g.Interfaces {
		if nic.MAC == "" {
			continue
		}
		fmt.Fprintf(&b, "<interface type='ethernet'><mac address='%s'/><model type='%s'/>",
			word(nic.MAC), word(nic.Model))
		fmt.Fprintf(&b, "<driver name='%s' queues='%d'/></interface>", word(nic.Backend), max(1, nic.Queues))
	}
	b.WriteString("</devices></domain>")
	return b.String()
}
