package knob

import (
	"fmt"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const (
	// leastRequest is the read request that firmware and drivers commonly set, in bytes.
	leastRequest = 512
	// relaxedFrom is the line rate of a card, in Gbit/s, from which the order of its writes is known to matter.
	relaxedFrom = 100
)

var pciRequests = &Knob{
	ID: "pci.requests", Title: "How the NIC asks for memory over PCIe",
	Stage: datapath.Firmware, Risk: goal.None, Check: true,
	Where: eachNIC(func(n *facts.NIC) bool { return n.PhysFn == "" && n.Bus == "pci" || n.Link != nil },
		func(n *facts.NIC) []setting.Address {
			return []setting.Address{setting.Of(setting.Fact, n.Name, "pcie_read_request"),
				setting.Of(setting.Fact, n.Name, "pcie_relaxed_ordering")}
		}),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		if n.Link == nil || n.Link.ReadRequest == 0 {
			return Unsure("the device's configuration space was not read: it needs root")
		}
		if a.Rest() == "pcie_read_request" {
			found := fmt.Sprintf("%d bytes", n.Link.ReadRequest)
			if n.Link.ReadRequest >= leastRequest {
				return fact(found, Fine("large packets are read in few requests"))
			}
			return fact(found, exact(fmt.Sprintf("%d bytes or more", leastRequest), "the NIC reads each large packet "+
				"in many requests, each with a header and an answer to wait for").At(Low))
		}
		rate, ports := v.cardRate(n)
		switch {
		case n.Link.Relaxed == facts.Yes:
			return fact("enabled", Fine("its writes may pass each other"))
		case v.Topology.FaultyOrdering():
			return fact("disabled", Fine("the kernel forbids it below the root ports of Haswell and Broadwell "+
				"servers, for a fault of theirs"))
		case rate < relaxedFrom:
			return fact("disabled", Fine(fmt.Sprintf("at %.4g Gbit/s the order of its writes holds nothing back",
				rate)))
		}
		return fact("disabled", exact("enabled", fmt.Sprintf("%s at %.4g Gbit/s: each write waits for those before "+
			"it; firmware, the kernel or the driver switched it off, on some root ports for a fault of theirs", ports,
			rate)).At(Low))
	}),
}
