package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// Report compares the hosts of a fleet.
type Report struct {
	Tier     goal.Tier `json:"tier"`
	Compared int       `json:"values_compared"` // distinct paths over all classes
	Hosts    []Host    `json:"hosts"`           // in the order of their names
	Classes  []Class   `json:"classes"`         // largest first
	Outliers []Outlier `json:"outliers"`
	Split    []Split   `json:"split"` // values that hosts of a class share in no majority
	Findings []Finding `json:"findings"`
	Refused  []Refused `json:"refused"` // files that could not be used
}

// Host is a snapshot that was compared.
type Host struct {
	Name  string `json:"name"` // the file where two hosts have one name; quoted if it is no plain name
	File  string `json:"file"`
	Class int    `json:"class"`
}

// Class is hosts of one build, which should be alike.
type Class struct {
	ID     int    `json:"id"` // from 1
	CPU    string `json:"cpu"`
	NICs   string `json:"nics"`   // drivers, without virtual functions
	Kernel string `json:"kernel"` // series: 6.12
	Role   string `json:"role"`   // facts.Role; hosts with and without running guests are one role
	Hosts  int    `json:"hosts"`
}

// Outlier is a value that most hosts of a class do not have.
type Outlier struct {
	Class    int      `json:"class"`
	Address  string   `json:"address"` // address of a reading, or place in the inventory, with NICs by role and slot
	Value    string   `json:"value"`
	Majority string   `json:"majority"`
	Hosts    []string `json:"hosts"`
	Count    int      `json:"count"`            // of hosts
	Of       int      `json:"of"`               // hosts that could be compared
	Places   int      `json:"places,omitempty"` // CPUs or queues that differ alike; 0: one
}

// Split is a value that no majority of a class shares.
type Split struct {
	Class   int      `json:"class"`
	Address string   `json:"address"`
	Values  []Shared `json:"values"` // most common first, at most maxShared
	Count   int      `json:"count"`  // of different values
}

// Shared is a value, and how many hosts have it.
type Shared struct {
	Value string   `json:"value"`
	Hosts []string `json:"hosts"`
}

// maxShared is how many values of a split are listed.
const maxShared = 8

// Finding is a setting that limits the target on some hosts.
type Finding struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Severity knob.Severity `json:"severity"` // the worst
	Places   int           `json:"places"`   // values, over all hosts
	Hosts    []string      `json:"hosts"`
}

// Refused is a file that could not be used.
type Refused struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Failed reports whether a finding has a severity, or a worse one.
func (r *Report) Failed(least knob.Severity) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity >= least })
}

// Fleet collects hosts. Its methods may be called at the same time.
type Fleet struct {
	lock    sync.Mutex
	tier    goal.Tier
	members []*member
	refused []Refused
	texts   []string          // by number; 0 is no text
	numbers map[string]uint32 // of texts
}

// member is one host, whose values are numbers of texts.
type member struct {
	file, name string
	class      Class // without ID and Hosts
	values     []pair
	found      []found
}

type pair struct{ path, text uint32 }

// found is what an audit found for a setting.
type found struct{ finding Finding } // without hosts

// New returns an empty fleet.
func New() *Fleet { return &Fleet{texts: []string{""}, numbers: map[string]uint32{"": 0}} }

// Add adds a host and its audit.
func (f *Fleet) Add(file string, h *facts.Host, r audit.Report) {
	all, err := valuesOf(h)
	if err != nil {
		f.Refuse(file, err.Error())
		return
	}
	m := &member{file: file, name: h.Name, class: classOf(h), found: findings(r)}
	f.lock.Lock()
	defer f.lock.Unlock()
	m.values = make([]pair, 0, len(all))
	for path, text := range all {
		m.values = append(m.values, pair{f.number(path), f.number(text)})
	}
	f.tier = r.Tier
	f.members = append(f.members, m)
}

// Refuse records a file that could not be used, and why.
func (f *Fleet) Refuse(file, why string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.refused = append(f.refused, Refused{file, why})
}

func (f *Fleet) number(text string) uint32 {
	n, known := f.numbers[text]
	if !known {
		n = uint32(len(f.texts))
		text = strings.Clone(text)
		f.texts, f.numbers[text] = append(f.texts, text), n
	}
	return n
}

// classOf returns what hosts of one build have in common.
func classOf(h *facts.Host) Class {
	c := Class{CPU: cmp.Or(h.Topology.Model, h.Topology.Vendor, h.Kernel.Arch, "unknown"), Role: string(h.Role())}
	if n := h.Topology.Counts.Packages; n > 1 {
		c.CPU = fmt.Sprintf("%d × %s", n, c.CPU)
	}
	switch h.Role() {
	case facts.RoleIdle, facts.RoleEmpty, facts.RoleUnseen:
		c.Role = string(facts.RoleHost)
	}
	if !h.AsRoot {
		c.Role += ", seen without root"
	}
	drivers := map[string]int{}
	for _, n := range h.NICs {
		if n.PhysFn == "" && !n.Representor() {
			drivers[cmp.Or(n.Driver, "unknown")]++
		}
	}
	var nics []string
	for _, d := range slices.Sorted(maps.Keys(drivers)) {
		nics = append(nics, fmt.Sprintf("%d %s", drivers[d], d))
	}
	c.NICs = cmp.Or(strings.Join(nics, ", "), "none")
	parts := strings.FieldsFunc(h.Kernel.Release, func(r rune) bool { return r == '.' || r == '-' })
	c.Kernel = cmp.Or(strings.Join(parts[:min(len(parts), 2)], "."), "unknown")
	return c
}

// findings sums up what an audit found, by setting.
func findings(r audit.Report) []found {
	at := map[string]int{}
	var all []found
	for _, f := range r.AtLeast(knob.Low) {
		i, known := at[f.ID]
		if !known {
			i = len(all)
			at[f.ID], all = i, append(all, found{Finding{ID: f.ID, Title: f.Title}})
		}
		all[i].finding.Severity = max(all[i].finding.Severity, f.Severity)
		all[i].finding.Places++
	}
	return all
}

// Report compares all hosts that were added. The same hosts give the same report, in whatever order they were added.
func (f *Fleet) Report() Report {
	f.lock.Lock()
	defer f.lock.Unlock()
	slices.SortFunc(f.members, func(a, b *member) int {
		return cmp.Or(facts.CompareVersions(a.name, b.name), strings.Compare(a.file, b.file))
	})
	slices.SortFunc(f.refused, func(a, b Refused) int { return strings.Compare(a.File, b.File) })
	r := Report{Tier: f.tier, Hosts: []Host{}, Classes: []Class{}, Outliers: []Outlier{}, Split: []Split{},
		Findings: []Finding{}, Refused: slices.Concat([]Refused{}, f.refused)}
	names := labels(f.members)
	paths := map[uint32]bool{}
	classes := f.classes()
	of := make([]int, len(f.members))
	for i, members := range classes {
		c := f.members[members[0]].class
		c.ID, c.Hosts = i+1, len(members)
		r.Classes = append(r.Classes, c)
		t := f.table(members)
		for path := range t.rows {
			paths[path] = true
		}
		outliers, split := t.compare(c.ID, func(i int) string { return names[members[i]] })
		r.Outliers, r.Split = append(r.Outliers, outliers...), append(r.Split, split...)
		for _, m := range members {
			of[m] = c.ID
		}
	}
	for i, m := range f.members {
		r.Hosts = append(r.Hosts, Host{names[i], m.file, of[i]})
	}
	r.Compared, r.Findings = len(paths), f.sumUp(names)
	return r
}

// classes returns the members of each class, the largest class first.
func (f *Fleet) classes() [][]int {
	by := map[Class][]int{}
	for i, m := range f.members {
		by[m.class] = append(by[m.class], i)
	}
	return slices.SortedFunc(maps.Values(by), func(a, b []int) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a[0], b[0]))
	})
}

// sumUp returns the findings of all hosts by setting, the worst first, then those of most hosts.
func (f *Fleet) sumUp(names []string) []Finding {
	at, all := map[string]*Finding{}, []*Finding{}
	for i, m := range f.members {
		for _, one := range m.found {
			sum := at[one.finding.ID]
			if sum == nil {
				sum = &Finding{ID: one.finding.ID, Title: one.finding.Title}
				at[sum.ID], all = sum, append(all, sum)
			}
			sum.Severity = max(sum.Severity, one.finding.Severity)
			sum.Places += one.finding.Places
			sum.Hosts = append(sum.Hosts, names[i])
		}
	}
	slices.SortFunc(all, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(len(b.Hosts), len(a.Hosts)),
			strings.Compare(a.ID, b.ID))
	})
	sums := make([]Finding, len(all))
	for i, sum := range all {
		sums[i] = *sum
	}
	return sums
}
