package knob

import (
	"fmt"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var domainRingFeatures = &Knob{
	ID: "domain.ring_features", Title: "Features of the virtio NIC's rings and offloads",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: viaKernel(), Check: true,
	Where: eachGuest(managed, guestFact("ring-features")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Definition == "" {
			return Unsure("its definition could not be read")
		}
		doc, err := domain.Parse([]byte(g.Definition))
		if err != nil {
			return Unsure(err.Error())
		}
		var odd, off []string
		for _, i := range doc.Guest().Interfaces {
			nic := facts.Interface{Type: i.Type, Model: i.Model}
			if !nic.Virtio() {
				continue
			}
			if i.Driver.Packed && placement.Tapped(nic) && i.Driver.Name != "qemu" {
				odd = append(odd, i.MAC+": packed")
			}
			for _, name := range i.Driver.Off {
				off = append(off, i.MAC+": "+name)
			}
		}
		switch {
		case len(off) > 0:
			return fact(list(off, 4)+" off", exact("all on", "switched off in the definition: streams then pass as "+
				"single packets, or checksums are made by a CPU; small packets hardly differ").At(Info))
		case len(odd) > 0:
			return fact(list(odd, 4), exact("no packed rings on a tap", "vhost in the kernel has split rings only: "+
				"the guest does not get what the definition says").At(Info))
		}
		return fact("defaults", Fine("as QEMU has them by default"))
	}),
}

// list returns the first of some words, and how many more there are.
func list(words []string, most int) string {
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

var domainCPUPM = &Knob{
	ID: "domain.cpu_pm", Title: "A guest that manages its CPUs' power has them for itself",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: pinned(), Check: true, Limit: onX86,
	After: []string{"domain.vcpupin"},
	Where: eachGuest(managed, guestFact("cpu-pm")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Definition == "" {
			return Unsure("its definition could not be read")
		}
		if !strings.Contains(g.Definition, "cpu-pm=on") {
			return fact("off", Fine("the host sees when a vCPU is idle, and has its CPU meanwhile"))
		}
		if own := pinnedCPUs(g); len(own) >= g.VCPUs && !v.shared(g, own) {
			return fact("on", Fine("each vCPU has a dedicated CPU, whose idle states the guest chooses"))
		}
		return fact("on", exact("off, or a CPU for each vCPU", "an idle vCPU keeps its CPU: what shares the CPU with "+
			"it gets half of it at best").At(High))
	}),
}

// shared reports whether another active guest may run on some of the CPUs that a guest is pinned to.
func (v *View) shared(of *facts.Guest, own setting.CPUSet) bool {
	for i := range v.Guests {
		g := &v.Guests[i]
		if g.Name == of.Name || !g.Active() {
			continue
		}
		if theirs := pinnedCPUs(g); len(theirs) == 0 || len(theirs.And(own)) > 0 {
			return true
		}
	}
	return false
}
