package plan

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
)

// Order returns the position of every knob: after all knobs that its After names, directly or indirectly, and otherwise
// in catalogue order. It refuses a catalogue with a cycle or an unknown ID.
func Order(catalogue []*knob.Knob) (map[string]int, error) {
	waits := map[string]map[string]bool{}
	for _, k := range catalogue {
		if waits[k.ID] != nil {
			return nil, fmt.Errorf("catalogue has two knobs %s", k.ID)
		}
		waits[k.ID] = map[string]bool{}
		for _, id := range k.After {
			waits[k.ID][id] = true
		}
	}
	for _, k := range catalogue {
		for _, id := range k.After {
			if waits[id] == nil {
				return nil, fmt.Errorf("knob %s comes after %q, which is not in the catalogue", k.ID, id)
			}
		}
	}
	order := map[string]int{}
	for len(order) < len(catalogue) {
		next := slices.IndexFunc(catalogue, func(k *knob.Knob) bool {
			_, done := order[k.ID]
			return !done && len(waits[k.ID]) == 0
		})
		if next < 0 {
			var stuck []string
			for _, k := range catalogue {
				if _, done := order[k.ID]; !done {
					stuck = append(stuck, k.ID)
				}
			}
			return nil, fmt.Errorf("knobs wait for each other: %s", strings.Join(stuck, ", "))
		}
		id := catalogue[next].ID
		order[id] = len(order)
		for _, waiting := range waits {
			delete(waiting, id)
		}
	}
	return order, nil
}
