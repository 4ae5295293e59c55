package libvirt

import (
	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// DescribeDefinition is the fact of a guest that was only defined, from what its definition says.
func DescribeDefinition(g domain.Guest, text string) facts.Guest {
	fact := facts.Guest{Name: g.Name, Managed: true, State: "shut off", Definition: text}
	describeGuest(&fact, g)
	fact.Interfaces, fact.Hostdevs, fact.Pins = tree.OrEmpty(fact.Interfaces), tree.OrEmpty(fact.Hostdevs),
		tree.OrEmpty(fact.Pins)
	fact.Pending, fact.Threads = tree.OrEmpty(fact.Pending), tree.OrEmpty(fact.Threads)
	return fact
}

// DefinedValue is the reading of one value of a definition.
func DefinedValue(doc *domain.Doc, path string) setting.Reading {
	reading, err := valueIn(doc, path)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return reading
}
