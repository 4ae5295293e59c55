package domain

// keyedAt names one look-up table: the children of an element by the key of one step.
type keyedAt struct {
	at *element
	s  *step
}

// keyTable finds children by key. It keeps the cost of reading and editing all paths of a large (or hostile) domain
// from growing with its square.
type keyTable struct {
	first  map[string]*element // for each key
	times  map[string]int      // how many have it
	member map[int]string      // of keys that are sets: the key that has a number
}

// byKey gives the children of an element by the keys of a step.
func (d *Doc) byKey(at *element, s *step) *keyTable {
	if table, ok := d.keyed[keyedAt{at, s}]; ok {
		return table
	}
	table := &keyTable{first: map[string]*element{}, times: map[string]int{}, member: map[int]string{}}
	for _, e := range at.all(s.name) {
		table.add(s, s.keyOf(d, e), e)
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
			if t.member[n] == "" {
				t.member[n] = key
			}
		}
	}
}

// edited drops what was looked up before an edit.
func (d *Doc) edited() { d.keyed, d.nics = nil, nil }

// grown drops what was looked up before an edit that made nothing but some elements, one below the other, and keeps
// tables by adding them.
func (d *Doc) grown(made []*element, key string) {
	d.nics = nil
	for _, e := range made {
		for at, table := range d.keyed {
			if at.at == e.parent && at.s.name == e.name && at.s.keyOf(d, e) == key {
				table.add(at.s, key, e)
			} else if at.at == e.parent && at.s.name == e.name {
				delete(d.keyed, at)
			}
		}
	}
}
