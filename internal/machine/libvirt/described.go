package libvirt

import (
	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// DescribeDefinition returns the facts of a guest that is only defined.
func DescribeDefinition(g domain.Guest, text string) facts.Guest {
	fact := facts.Guest{Name: g.Name, Managed: true, State: "shut off", Definition: text}
	describeGuest(&fact, g)
	withoutNil(&fact)
	return fact
}

// withoutNil replaces a guest's nil lists by empty ones: JSON then has [] instead of null.
func withoutNil(g *facts.Guest) {
	g.Interfaces, g.Hostdevs, g.Pins = tree.OrEmpty(g.Interfaces), tree.OrEmpty(g.Hostdevs), tree.OrEmpty(g.Pins)
	g.Pending, g.Threads = tree.OrEmpty(g.Pending), tree.OrEmpty(g.Threads)
}

// DefinedValue returns the reading of one value of a definition.
func DefinedValue(doc *domain.Doc, path string) setting.Reading {
	reading, err := valueIn(doc, path)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return reading
}
