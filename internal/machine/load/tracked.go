package load

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// trackLook has the conntrack counters of one network namespace.
type trackLook struct {
	entries, max, dropped, evicted, failed, chained uint64
	hasChains                                       bool // the kernel counts chains that are too long: since 5.15
}

// readTracked reads the conntrack counters of the calling thread's namespace; zero without conntrack or without
// CONFIG_NF_CONNTRACK_PROCFS.
func readTracked(machine *tree.Tree) (t trackLook, err error) {
	text, err := machine.Read("proc/thread-self/net/stat/nf_conntrack")
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if t, err = parseTracked(text); err != nil {
		return t, err
	}
	t.max, _ = strconv.ParseUint(machine.Line("proc/sys/net/netfilter/nf_conntrack_max"), 10, 64) // 0: unknown
	return t, nil
}

// parseTracked reads /proc/net/stat/nf_conntrack: a line of names, then a line of hexadecimal numbers for each CPU. The
// entries on every line are those of all CPUs (net/netfilter/nf_conntrack_standalone.c, ct_cpu_seq_show).
func parseTracked(text string) (t trackLook, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	names := strings.Fields(lines[0])
	into := map[int]*uint64{slices.Index(names, "entries"): &t.entries, slices.Index(names, "drop"): &t.dropped,
		slices.Index(names, "early_drop"): &t.evicted, slices.Index(names, "insert_failed"): &t.failed}
	if into[-1] != nil {
		return t, fmt.Errorf("/proc/net/stat/nf_conntrack has %q, expected entries, drop, early_drop and insert_failed",
			lines[0])
	}
	chains := slices.Index(names, "chainlength")
	t.hasChains, into[chains] = chains >= 0, &t.chained
	for _, line := range lines[1:] {
		for i, field := range strings.Fields(line) {
			if into[i] == nil {
				continue
			}
			n, err := strconv.ParseUint(field, 16, 64)
			if err != nil {
				return t, fmt.Errorf("/proc/net/stat/nf_conntrack: %w", err)
			}
			if into[i] == &t.entries {
				t.entries = n
				continue
			}
			*into[i] += n
		}
	}
	return t, nil
}

// trackedBetween returns the load of a namespace's conntrack table between two readings; nil if it is empty.
func trackedBetween(netns string, before, after trackLook) []facts.TrackLoad {
	l := facts.TrackLoad{Netns: netns, Entries: after.entries, Max: after.max,
		Dropped: facts.Increase(before.dropped, after.dropped), Evicted: facts.Increase(before.evicted, after.evicted),
		Chained: facts.Increase(before.chained, after.chained)}
	l.Clashes = facts.ConntrackClashes(l.Dropped, facts.Increase(before.failed, after.failed), l.Chained,
		after.hasChains, facts.ConntrackFull(l.Entries, l.Max))
	l.Dropped -= l.Clashes
	if l.Entries+l.Dropped+l.Evicted+l.Clashes+l.Chained == 0 {
		return nil
	}
	return []facts.TrackLoad{l}
}
