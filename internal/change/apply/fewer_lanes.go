package apply

import (
	"slices"

	"mpps/internal/model/setting"
)

// fewerLanes reports whether lanes differ from what was left only by taps that were created again with their guests:
// programs vanish with the device they are attached to, and nobody has changed anything.
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
