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
	position := make(map[string]int, len(catalogue)) // in the catalogue
	for i, k := range catalogue {
		if _, twice := position[k.ID]; twice {
			return nil, fmt.Errorf("catalogue has two knobs %s", k.ID)
		}
		position[k.ID] = i
	}
	waits, holds := make([]int, len(catalogue)), make([][]int, len(catalogue)) // for how many; which ones wait for it
	for i, k := range catalogue {
		for _, id := range k.After {
			first, known := position[id]
			if !known {
				return nil, fmt.Errorf("knob %s comes after %q, which is not in the catalogue", k.ID, id)
			}
			waits[i]++
			holds[first] = append(holds[first], i)
		}
	}
	const done = -1
	order := make(map[string]int, len(catalogue))
	for len(order) < len(catalogue) {
		next := slices.Index(waits, 0)
		if next < 0 {
			var stuck []string
			for i, k := range catalogue {
				if waits[i] != done {
					stuck = append(stuck, k.ID)
				}
			}
			return nil, fmt.Errorf("knobs wait for each other: %s", strings.Join(stuck, ", "))
		}
		order[catalogue[next].ID], waits[next] = len(order), done
		for _, i := range holds[next] {
			waits[i]--
		}
	}
	return order, nil
}
