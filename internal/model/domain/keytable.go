package domain

import (
	"cmp"
	"slices"
)

// keyedAt identifies a keyTable: an element's children by the key of a step.
type keyedAt struct {
	at *element
	s  *step
}

// keyTable finds children by key. It keeps the cost of reading and editing all paths of a large (or hostile) domain
// from growing quadratically.
type keyTable struct {
	first  map[string]*element // by key
	times  map[string]int      // number of elements with a key
	member map[int]string      // for keys that are sets: the key that contains a number
}

// byKey returns the table of an element's children by the key of a step.
func (d *Doc) byKey(at *element, s *step) *keyTable {
	if table, ok := d.keyed[keyedAt{at, s}]; ok {
		return table
	}
	table := &keyTable{first: map[string]*element{}, times: map[string]int{}, member: map[int]string{}}
	for _, e := range at.all(s.name) {
		table.add(s, s.keyOf(e), e)
	}
	if d.keyed == nil {
		d.keyed = map[keyedAt]*keyTable{}
	}
	d.keyed[keyedAt{at, s}] = table
	return table
}

func (t *keyTable) add(s *step, key string, e *element) {
	if key == "" {
		return
	}
	if t.times[key]++; t.first[key] == nil {
		t.first[key] = e
	}
	if s.key == bySet {
		set, _ := ParseSet(key)
		for _, n := range set {
			t.member[n] = cmp.Or(t.member[n], key)
		}
	}
}

// dropTables drops the caches after an edit of anything.
func (d *Doc) dropTables() { d.keyed, d.nics = nil, nil }

// dropTablesOf drops the caches after an edit at a place. The table of interfaces stays if the place is none of what it
// holds: rebuilding it at each edit would cost the square of the interfaces.
func (d *Doc) dropTablesOf(p *place) {
	d.keyed = nil
	d.dropNICsOf(p)
}

func (d *Doc) dropNICsOf(p *place) {
	inside := slices.IndexFunc(p.rule.steps, func(s step) bool { return s.key == byNIC }) + 1
	if inside == 0 || inside == len(p.rule.steps) || slices.Contains(nicKeys, p.rule.steps[inside].name) {
		d.nics = nil
	}
}

// nicKeys are the elements of an interface that nicTable reads.
var nicKeys = []string{"mac", "teaming"}

// updateTables updates the caches for an edit that only added elements, each below the one before.
func (d *Doc) updateTables(made []*element, key string) {
	for _, e := range made {
		for at, table := range d.keyed {
			if at.at == e.parent && at.s.name == e.name && at.s.keyOf(e) == key {
				table.add(at.s, key, e)
			} else if at.at == e.parent && at.s.name == e.name {
				delete(d.keyed, at)
			}
		}
	}
}
