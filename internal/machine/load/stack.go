package load

import (
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// stackCounters are what every kind of path declares: a namespace can have another kind than the host's guests.
var stackCounters = func() (all []reach.Counter) {
	for _, k := range reach.All() {
		all = append(all, k.Counters...)
	}
	return all
}()

// stackBetween returns what a namespace's network layer counted between two readings; nil if that is nothing.
func stackBetween(netns string, before, after map[string]uint64) []facts.StackLoad {
	l := facts.StackLoad{Netns: netns, Counters: map[string]uint64{}}
	for name, n := range after {
		if !strings.HasSuffix(name, ".entries") {
			n = facts.Increase(before[name], n)
		}
		if n > 0 {
			l.Counters[name] = n
		}
	}
	if len(l.Counters) == 0 {
		return nil
	}
	return []facts.StackLoad{l}
}
