package knob

import (
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// ioThreads are the numbers of the I/O threads that a guest's definition gives it.
func ioThreads(g *facts.Guest) (paths []string) {
	if !strings.Contains(g.Definition, "<iothread") {
		return nil
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil
	}
	for _, n := range doc.Threads("iothreadpin") {
		if len(paths) < maxVCPUs {
			paths = append(paths, "iothreadpin/"+strconv.Itoa(n))
		}
	}
	return paths
}

var domainIOThreadPin = &Knob{
	ID: "domain.iothreadpin", Stage: datapath.Domain, Risk: goal.None,
	After: []string{"domain.emulatorpin"}, Tiers: pinned(),
	Where: eachGuest(func(g *facts.Guest) bool { return managed(g) && len(ioThreads(g)) > 0 }, func(g *facts.Guest) []setting.Address {
		return pinsOf(ioThreads(g)...)(g)
	}),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		placed := v.Placement().Guest(g.Name)
		if placed == nil || len(placed.Emulator) == 0 {
			return Skips("no place for the guest on this host")
		}
		found := v.Readings.At(a)
		if set, err := setting.ParseCPUs(found.Value); found.State == setting.Known && err == nil && len(set) > 0 && len(set.And(placed.VCPUSet())) == 0 && len(set.And(v.quiet())) == 0 {
			return Fine("off all vCPUs of its guest")
		}
		return v.pin(g, a, placed.Emulator.String(), "without a pin of its own it runs on any CPU that the guest may use, its vCPUs' too").At(Medium)
	},
}
