package report

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// SnapshotDiff draws what differs in the configuration of two snapshots. siblings says that they are of two hosts.
// Without all, differences that say the same twice, or that no person made, are only counted.
func SnapshotDiff(t *Text, compared int, differences []facts.Difference, siblings, all bool) {
	t.WrapIf(siblings, "", "two hosts: compared by role and slot, without guests, names and addresses")
	switch {
	case siblings && len(differences) == 0:
		t.Line("alike: %s", words.Count(compared, "value"))
		return
	case len(differences) == 0:
		t.Line("identical: %s and the whole inventory", words.Count(compared, "setting"))
		return
	}
	t.Line("%s:", words.Count(len(differences), "difference"))
	kept, repeated, moved := differences, 0, 0
	if !all {
		kept, repeated, moved = mainDifferences(differences)
	}
	for _, d := range kept {
		t.Wrap("  ", d.Path)
		t.Diff("    ", d.Before, d.After)
	}
	t.WrapIf(moved > 0, "  ", "%s on other CPUs, as irqbalance and the kernel move them (-v lists them)",
		words.Count(moved, "interrupt"))
	t.WrapIf(repeated > 0, "  ", "%s that belong to the devices and guests above (-v lists them)",
		words.Count(repeated, "setting"))
}

// inInventory are the kinds of readings that the inventory of a NIC has too.
var inInventory = []setting.Kind{setting.IRQAffinity, setting.NICChannels, setting.NICCoalesce, setting.NICFeature,
	setting.NICFlowHash, setting.NICRing, setting.SysfsCPUs, setting.VFCount}

// few is how many moved interrupts are shown one by one.
const few = 3

// mainDifferences returns the differences worth reading, and counts the others: readings of a device or guest that is
// new or gone, readings that the inventory of a NIC repeats, and interrupts that only moved to other CPUs.
func mainDifferences(differences []facts.Difference) (kept []facts.Difference, repeated, moved int) {
	whole, changed := map[string]bool{}, map[string]bool{} // devices and guests that came or went; NICs that differ
	for _, d := range differences {
		list, rest, _ := strings.Cut(d.Path, "[")
		name, field, _ := strings.Cut(rest, "]")
		if list == "nics" || list == "guests" || list == "vfs" {
			whole[name] = whole[name] || field == ""
			changed[name] = changed[name] || list == "nics" && !onlyMoved(d)
		}
	}
	var interrupts []facts.Difference
	for _, d := range differences {
		a, isReading := readingOf(d.Path)
		switch {
		case isReading && (whole[a.Device()] || whole[a.Guest()] || a.Kind == setting.VFAttr && whole[vfOf(a)]):
			repeated++
		case isReading && changed[a.Device()] && slices.Contains(inInventory, a.Kind) && !onlyMoved(d):
			repeated++
		case onlyMoved(d):
			interrupts = append(interrupts, d)
		default:
			kept = append(kept, d)
		}
	}
	if len(interrupts) <= few {
		return append(kept, interrupts...), repeated, 0
	}
	for _, d := range interrupts { // an interrupt of a NIC has a reading, and a place in the inventory
		if _, isReading := readingOf(d.Path); isReading {
			moved++
		}
	}
	return kept, repeated, moved
}

// vfOf returns the virtual function of an attribute as the inventory names it: "ens1f0 3".
func vfOf(a setting.Address) string {
	return a.Object() + " " + setting.Address{Path: a.Rest()}.Object()
}

// readingOf returns the address of a reading's difference.
func readingOf(path string) (setting.Address, bool) {
	rest, ok := strings.CutPrefix(path, "readings[")
	end := strings.LastIndex(rest, "]")
	if !ok || end < 0 {
		return setting.Address{}, false
	}
	a, err := setting.ParseAddress(rest[:end])
	return a, err == nil
}

// onlyMoved reports whether a difference is that of an interrupt's CPUs alone.
func onlyMoved(d facts.Difference) bool {
	if a, isReading := readingOf(d.Path); isReading {
		return (a.Kind == setting.IRQAffinity || a.Kind == setting.IRQCPUs) && strings.HasSuffix(d.Path, "].value")
	}
	return strings.Contains(d.Path, "irqs[") && strings.HasSuffix(d.Path, "].affinity")
}
