package apply

import (
	"slices"
	"strings"

	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// tookAway reports whether a change reset a virtual function's address. The function's driver, on the host or in a
// guest, then chooses and announces a random one each time (igbvf, ixgbevf, iavf: eth_hw_addr_random), so an address
// found afterwards was set by nobody.
func tookAway(c journal.Change) bool {
	return c.Address.Kind == setting.VFAttr && strings.HasSuffix(c.Address.Path, "/mac") &&
		c.After.State == setting.Known && facts.NoAddress(c.After.Value)
}

// fewerLanes reports whether lanes are only missing: the tap of a guest that was started again is a new device, and the
// programs attached to the former one are gone with it.
func fewerLanes(a setting.Address, left, found setting.Reading) bool {
	if a.Kind != setting.QueueLanes || left.State != setting.Known || found.State != setting.Known {
		return false
	}
	all, err := setting.ParseLanes(left.Value)
	some, err2 := setting.ParseLanes(found.Value)
	if err != nil || err2 != nil || len(all) == 0 {
		return false
	}
	return !slices.ContainsFunc(some, func(l setting.Lane) bool { return !slices.Contains(all, l) })
}

// newThreads reports whether kernel threads differ from what is wanted only by threads started since the last check:
// the kernel starts threads at any time, on the CPUs that its command line gives them, and sends no event.
func newThreads(a setting.Address, wanted setting.Reading, seen string, found setting.Reading) bool {
	if a.Kind != setting.ThreadCPUs || seen == "" || found.State != setting.Known {
		return false
	}
	allowed, err := setting.ParseCPUs(wanted.Value)
	if err != nil {
		return false
	}
	known := strings.Split(seen, "\n")
	came := false
	for _, line := range strings.Split(found.Verbatim, "\n") {
		number, rest, _ := strings.Cut(line, " ")
		list, _, _ := strings.Cut(rest, " ")
		cpus, err := setting.ParseCPUs(list)
		if err != nil || len(cpus.Minus(allowed)) == 0 {
			continue
		}
		if slices.ContainsFunc(known, func(l string) bool { return strings.HasPrefix(l, number+" ") }) {
			return false // somebody moved it
		}
		came = true
	}
	return came
}
