package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var pciLink = &Knob{
	ID: "pci.link", Title: "The PCIe link carries the NIC's line rate",
	Stage: datapath.Firmware, Risk: goal.None, Check: true,
	Where: eachNIC(func(n *facts.NIC) bool { return n.PhysFn == "" && n.Bus == "pci" || n.Link != nil },
		onlyNIC(setting.Fact, "pcie_link")),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		if n.Link == nil {
			return Unsure("the device tells no PCIe link")
		}
		now, known := laneRate(n.Link.Speed)
		most, knownMost := laneRate(n.Link.MaxSpeed)
		if !known || !knownMost {
			return Unsure(fmt.Sprintf("the link's speed is %q of %q", n.Link.Speed, n.Link.MaxSpeed))
		}
		carries, could := now*float64(n.Link.Width), most*float64(n.Link.MaxWidth)
		rate, ports := v.cardRate(n)
		found := fmt.Sprintf("%s x%d of %s x%d: %.1f Gbit/s each way", n.Link.Speed, n.Link.Width, n.Link.MaxSpeed,
			n.Link.MaxWidth, carries)
		need := rate * linkOverhead
		wanted := setting.Exact(fmt.Sprintf("%.1f Gbit/s each way", need))
		switch {
		case rate == 0 && carries < could:
			return Unsure("the line rate is not known (no carrier?), and the link is below what the " +
				"device can do: " + found)
		case rate == 0:
			return fact(found, Fine("the link is at the most that the device can do"))
		case carries >= need:
			return fact(found, Fine(fmt.Sprintf("carries %s at %.4g Gbit/s each way", ports, rate)))
		}
		because := fmt.Sprintf("%s at %.4g Gbit/s need more than the link carries", ports, rate)
		if could >= need {
			because += "; the device could do it: another slot, or the link was trained badly"
		} else {
			because += "; the device itself can do no more: use fewer of its ports"
		}
		severity := Medium
		if carries < rate {
			severity = High
		}
		return fact(found, Wants(wanted, because).At(severity))
	}),
}

// linkOverhead is the bytes that cross the link per byte of frame: headers of 24 to 28 bytes for each 128 to 256 bytes
// of data (PCI Express Base Specification, transaction layer packets), and descriptors.
const linkOverhead = 7.0 / 6

// laneRate returns what one lane carries per direction after line coding, in Gbit/s, for a speed as sysfs spells it
// (PCI Express Base Specification: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flit mode from 64 GT/s on).
func laneRate(speed string) (float64, bool) {
	var transfers float64
	if _, err := fmt.Sscanf(speed, "%g GT/s", &transfers); err != nil || transfers <= 0 || transfers > 1000 {
		return 0, false
	}
	switch {
	case transfers <= 5:
		return transfers * 8 / 10, true
	case transfers < 64:
		return transfers * 128 / 130, true
	}
	return transfers * 236 / 256, true // no line code, but flits of 256 bytes, 236 of them packets
}

// cardRate returns the sum of the line rates of all ports of a NIC's card that are up, in Gbit/s, and their names.
func (v *View) cardRate(n *facts.NIC) (rate float64, ports string) {
	card, _, _ := strings.Cut(n.PCI, ".")
	var names []string
	for _, other := range v.NICs {
		theirs, _, _ := strings.Cut(other.PCI, ".")
		if other.Name != n.Name && (n.PCI == "" || theirs != card) || other.PhysFn != "" || !other.Up ||
			other.Speed <= 0 {
			continue
		}
		rate += float64(other.Speed) / 1000
		names = append(names, other.Name)
	}
	return rate, strings.Join(names, " and ")
}
