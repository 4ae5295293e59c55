package apply

import (
	"slices"

	"mpps/internal/model/setting"
)

// fewerLanes reports whether what is found of lanes is what was left there but for taps that have come again since,
// with their guests: programs go with the device that they are attached to, and nobody has changed anything.
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
