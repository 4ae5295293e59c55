package report

import (
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/report/words"
)

// ovsText describes a bridge of Open vSwitch, and the counters of the datapath that all bridges share; empty if the
// database has no such bridge.
func ovsText(o *facts.OpenVSwitch, bridge string) string {
	if o == nil {
		return ""
	}
	b := facts.Find(o.Bridges, func(b *facts.OVSBridge) bool { return b.Name == bridge })
	if b == nil {
		return ""
	}
	var bonds, policed int
	var patches []string
	for p := range facts.Each(b.Ports) {
		if len(p.Interfaces) > 1 {
			bonds++
		}
		for _, i := range p.Interfaces {
			if i.PolicingRate > 0 {
				policed++
			}
			if i.Type == "patch" {
				patches = append(patches, i.Name)
			}
		}
	}
	parts := []string{words.Count(len(b.Ports), "port"),
		words.If(len(patches) > 0, "patched by %s", strings.Join(patches, ", ")),
		words.If(bonds > 0, "%s", words.Count(bonds, "bond")),
		words.If(policed > 0, "%s with a policer", words.Count(policed, "port"))}
	return words.Join(", ", append(parts, datapathText(o))...)
}

// datapathText names the counters of the kernel's datapaths: totals since they were made.
func datapathText(o *facts.OpenVSwitch) string {
	var all []string
	for _, d := range o.Datapaths {
		all = append(all, fmt.Sprintf("datapath %s: %s, %s, %d of %s lost", d.Name, words.Count(int(d.Flows), "flow"),
			words.Count(int(d.Masks), "mask"), d.Lost, words.Count(int(d.Missed), "upcall")))
	}
	return strings.Join(all, "; ")
}
