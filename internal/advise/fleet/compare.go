package fleet

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// table has the values of a class: a row for each path, a column for each host.
type table struct {
	fleet *Fleet
	hosts int
	rows  map[uint32][]uint32 // numbers of texts; 0: the host has no such value
	most  map[uint32]uint32   // text that more than half of the hosts have, by path; missing: none
}

func (f *Fleet) table(members []int) *table {
	t := &table{fleet: f, hosts: len(members), rows: map[uint32][]uint32{}, most: map[uint32]uint32{}}
	none := f.number(absent)
	for i, m := range members {
		for _, p := range f.members[m].values {
			row := t.rows[p.path]
			if row == nil {
				row = make([]uint32, len(members))
				t.rows[p.path] = row
			}
			row[i] = p.text
		}
	}
	for path, row := range t.rows {
		if !isReading(f.texts[path]) { // of a part of the inventory that is not there
			for i, text := range row {
				if text == 0 {
					row[i] = none
				}
			}
		}
		if top, count, of := majority(row, nil); count*2 > of {
			t.most[path] = top
		}
	}
	return t
}

// isReading reports whether a path is the address of a reading. A host without one was not asked, or could not tell.
func isReading(path string) bool {
	kind, _, found := strings.Cut(path, ":")
	return found && !strings.ContainsAny(kind, "[.")
}

// majority returns the most common text of the hosts that are not left out, how many have it, and how many there are.
func majority(row []uint32, out []bool) (top uint32, count, of int) {
	counts := map[uint32]int{}
	for i, text := range row {
		if text == 0 || out != nil && out[i] {
			continue
		}
		of++
		counts[text]++
		if n := counts[text]; n > count || n == count && text < top {
			top, count = text, n
		}
	}
	return top, count, of
}

// same reports whether all texts of a row are one.
func same(row []uint32) bool {
	return !slices.ContainsFunc(row, func(text uint32) bool { return text != row[0] })
}

// compare returns what differs, with hosts by their names.
func (t *table) compare(class int, name func(int) string) ([]Outlier, []Split) {
	var outliers []Outlier
	var splits []Split
	texts := t.fleet.texts
	for _, path := range slices.SortedFunc(maps.Keys(t.rows), func(a, b uint32) int {
		return facts.CompareVersions(texts[a], texts[b])
	}) {
		row := t.rows[path]
		if same(row) {
			continue
		}
		out := t.decided(texts[path])
		top, count, of := majority(row, out)
		if count == of {
			continue
		}
		by := map[uint32][]string{}
		for i, text := range row {
			if text != 0 && !out[i] {
				by[text] = append(by[text], name(i))
			}
		}
		order := slices.SortedFunc(maps.Keys(by), func(a, b uint32) int {
			return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), strings.Compare(texts[a], texts[b]))
		})
		if count*2 <= of {
			s := Split{Class: class, Address: texts[path], Count: len(order)}
			for _, text := range order[:min(len(order), maxShared)] {
				s.Values = append(s.Values, Shared{texts[text], by[text]})
			}
			splits = append(splits, s)
			continue
		}
		for _, text := range order[1:] {
			outliers = append(outliers, Outlier{Class: class, Address: texts[path], Value: texts[text],
				Majority: texts[top], Hosts: by[text], Count: len(by[text]), Of: of})
		}
	}
	return alike(outliers), splits
}

// decided reports, for each host, whether another value that differs decides the value at a path.
func (t *table) decided(path string) []bool {
	out := make([]bool, t.hosts)
	for _, cause := range follows(path) {
		number, known := t.fleet.numbers[cause]
		row := t.rows[number]
		if !known || row == nil || cause == path {
			continue
		}
		most, clear := t.most[number]
		for i, text := range row {
			out[i] = out[i] || text != 0 && (!clear || text != most)
		}
	}
	return out
}

var numbered = regexp.MustCompile(`[0-9]+`)

// alike joins outliers of a host's CPUs or of a NIC's queues that differ in their number alone.
func alike(all []Outlier) []Outlier {
	type key struct{ address, value, majority, hosts string }
	at := map[key]int{}
	var joined []Outlier
	for _, o := range all {
		kind, rest, _ := strings.Cut(o.Address, ":")
		if !ofCPUs(kind, rest) && !strings.HasPrefix(o.Address, "topology.cpus[") && !ofQueues(o.Address) {
			joined = append(joined, o)
			continue
		}
		device := ""
		if name, is := nicOf(o.Address, kind, rest, isReading(o.Address)); is {
			device = name
		}
		k := key{device + " " + numbered.ReplaceAllString(o.Address, "*"), o.Value, o.Majority,
			strings.Join(o.Hosts, "\x00")}
		if i, known := at[k]; known {
			joined[i].Places = max(joined[i].Places, 1) + 1
			continue
		}
		at[k] = len(joined)
		joined = append(joined, o)
	}
	return joined
}

// Differences lists what differs between two hosts of one build, in terms that both share.
func Differences(a, b *facts.Host) (all []facts.Difference, compared int, err error) {
	f := New()
	for _, h := range []*facts.Host{a, b} {
		values, err := valuesOf(h)
		if err != nil {
			return nil, 0, err
		}
		m := &member{}
		for path, text := range values {
			m.values = append(m.values, pair{f.number(path), f.number(text)})
		}
		f.members = append(f.members, m)
	}
	t := f.table([]int{0, 1})
	_, splits := t.compare(0, func(i int) string { return [2]string{"a", "b"}[i] })
	for _, s := range splits {
		d := facts.Difference{Path: s.Address}
		for _, v := range s.Values {
			if v.Hosts[0] == "a" {
				d.Before = v.Value
			} else {
				d.After = v.Value
			}
		}
		all = append(all, d)
	}
	return all, len(t.rows), nil
}
