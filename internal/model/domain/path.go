package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// place is a path resolved in a document.
type place struct {
	path  string
	rule  *rule
	key   string     // canonical
	chain []*element // the existing elements of rule.steps, from the top; fewer than rule.steps if some are missing
}

// leaf returns the element that holds the value, nil if it does not exist.
func (p *place) leaf() *element {
	if len(p.chain) < len(p.rule.steps) {
		return nil
	}
	return p.chain[len(p.chain)-1]
}

// find resolves a path as far as its elements exist.
func (d *Doc) find(path string) (*place, error) {
	r, key, err := ruleFor(path)
	if err != nil {
		return nil, err
	}
	p := &place{path: strings.Replace(r.path, "*", key, 1), rule: r, key: key}
	at := d.root
	for i := range r.steps {
		next, err := d.follow(at, &r.steps[i], p)
		if err != nil {
			return nil, err
		}
		if next == nil {
			if r.steps[i].must {
				return nil, d.missing(p, &r.steps[i])
			}
			return p, nil
		}
		p.chain = append(p.chain, next)
		at = next
	}
	if last := at.parent; r.sole && len(last.all(at.name)) > 1 {
		return nil, &PathError{Path: p.path, Problem: fmt.Sprintf("there are %d <%s> elements, expected one",
			len(last.all(at.name)), at.name),
			Advice: "a trunk of several VLANs is left alone"}
	}
	return p, nil
}

// ruleFor returns the rule of a path and its key in canonical form.
func ruleFor(path string) (*rule, string, error) {
	r, key := match(path)
	if r == nil {
		return nil, "", &PathError{Path: clip(path), Problem: "is not a path that can be read or set",
			Advice: nearest(path)}
	}
	key, err := r.canonKey(path, key)
	return r, key, err
}

// match returns the rule of a path, and the part that stands for the rule's *.
func match(path string) (*rule, string) {
	for i := range rules {
		r := &rules[i]
		front, back, keyed := strings.Cut(r.path, "*")
		if !keyed {
			if r.path == path {
				return r, ""
			}
			continue
		}
		key, ok := strings.CutPrefix(path, front)
		if !ok {
			continue
		}
		if key, ok = strings.CutSuffix(key, back); ok && r.takes(key) {
			return r, key
		}
	}
	return nil, ""
}

// takes reports whether a text can be a key of the rule. canonKey interprets it.
func (r *rule) takes(key string) bool {
	if r.last().key == byPCI {
		return key != "" && !strings.Contains(key, "/")
	}
	return key != "" && !strings.ContainsAny(key, "/.")
}

// nearest lists the known paths that begin like a wrong one.
func nearest(path string) string {
	first, _, _ := strings.Cut(path, "/")
	first, _, _ = strings.Cut(first, ".")
	var like []string
	for i := range rules {
		if strings.HasPrefix(rules[i].path, first) {
			like = append(like, rules[i].path)
		}
	}
	if len(like) == 0 || first == "" {
		return "paths look like vcpupin/0, emulatorpin, interface/52:54:00:00:00:01/driver.queues"
	}
	return "known: " + strings.Join(like, ", ")
}

// canonKey returns the canonical spelling of a path's key.
func (r *rule) canonKey(path, key string) (string, error) {
	bad := func(expected string) error {
		return &PathError{Path: clip(path), Problem: fmt.Sprintf("found %q, expected %s", clip(key), expected)}
	}
	for i := range r.steps {
		var canon func(string) (string, bool)
		expected := ""
		switch r.steps[i].key {
		case noKey:
			continue
		case byNumber:
			canon, expected = canonIndex, "a number"
		case bySet:
			canon, expected = canonSet, "a set of vCPU numbers such as 0-3"
		case byWord:
			canon, expected = oneOf(timerNames)
		case byName:
			canon, expected = oneOf(childOrder[r.steps[i-1].name])
		case byPCI:
			canon, expected = CanonPCI, "a PCI address such as 0000:01:10.0"
		case byWholeNIC:
			canon, expected = canonNICKey, "a MAC address such as 52:54:00:00:00:01, of a failover pair with "+
				"@persistent or @transient behind it"
		case byNIC:
			canon, expected = canonIndex, "a MAC address such as 52:54:00:00:00:01, or an index from 0"
			if _, isMAC := canonNICKey(key); isMAC && r.byIndex {
				return "", bad("an index from 0: the MAC address is what changes")
			} else if isMAC {
				canon = canonNICKey
			}
		}
		v, ok := canon(key)
		if !ok {
			return "", bad(expected)
		}
		return v, nil
	}
	return key, nil
}

// oneOf accepts the words of a list.
func oneOf(words []string) (canon func(string) (string, bool), expected string) {
	return func(key string) (string, bool) { return key, slices.Contains(words, key) },
		"one of " + strings.Join(words, ", ")
}

// canonIndex is canonInt without a sign or white space.
func canonIndex(key string) (string, bool) {
	n, ok := canonInt(key)
	return n, ok && strings.TrimLeft(key, "0123456789") == ""
}

// canonNICKey returns a canonical MAC address, with the half of a failover pair (@persistent or @transient) if the key
// names one: both halves have the same address.
func canonNICKey(key string) (string, bool) {
	address, half, paired := strings.Cut(key, "@")
	mac, ok := CanonMAC(address)
	if paired {
		mac += "@" + half
	}
	return mac, ok && (!paired || half == "persistent" || half == "transient")
}

// follow returns the child that a step of a path selects, nil if there is none.
func (d *Doc) follow(at *element, s *step, p *place) (*element, error) {
	switch s.key {
	case noKey:
		return at.first(s.name), nil
	case byName:
		return at.first(p.key), nil
	case byNIC:
		return d.nic(p)
	case byWholeNIC:
		return d.wholeNIC(p)
	}
	return d.byKey(at, s).first[p.key], nil
}

// keyOf returns the canonical key of an element, "" if it has none.
func (s *step) keyOf(e *element) string {
	switch s.key {
	case byName:
		return e.name
	case byPCI:
		return hostdevKey(e)
	}
	v, ok := e.get(s.attr), true
	switch s.key {
	case byNumber:
		v, ok = canonInt(v)
	case bySet:
		v, ok = canonSet(v)
	}
	if !ok {
		return ""
	}
	return v
}

// nicTable is the list of interfaces in document order.
type nicTable struct {
	all   []*element
	macs  []string       // canonical, "" for none
	half  []string       // MAC address with @persistent or @transient; "" outside a failover pair
	times map[string]int // number of interfaces with a MAC address, or with an entry of half
	first map[string]*element
}

func (d *Doc) interfaces() *nicTable {
	if d.nics != nil {
		return d.nics
	}
	t := &nicTable{times: map[string]int{}, first: map[string]*element{}}
	for _, devices := range d.root.all("devices") {
		for _, e := range devices.all("interface") {
			mac, _ := CanonMAC(e.first("mac").get("address"))
			if t.times[mac]++; t.first[mac] == nil {
				t.first[mac] = e
			}
			half, paired := canonNICKey(mac + "@" + e.first("teaming").get("type"))
			if !paired {
				half = ""
			} else if t.times[half]++; t.first[half] == nil {
				t.first[half] = e
			}
			t.all, t.macs, t.half = append(t.all, e), append(t.macs, mac), append(t.half, half)
		}
	}
	d.nics = t
	return t
}

// key returns the key that Paths uses for an interface: its MAC address, with its half of a failover pair, if that is
// unique; else its index.
func (t *nicTable) key(i int) string {
	if half := t.half[i]; half != "" && t.times[half] == 1 {
		return half
	}
	if t.macs[i] == "" || t.times[t.macs[i]] > 1 {
		return strconv.Itoa(i)
	}
	return t.macs[i]
}

func (t *nicTable) keys() []string {
	var keys []string
	for i := range t.all {
		keys = append(keys, t.key(i))
	}
	return keys
}

// nic returns the interface that the key of a path selects.
func (d *Doc) nic(p *place) (*element, error) {
	t := d.interfaces()
	if i, err := strconv.Atoi(p.key); err == nil {
		if i < len(t.all) {
			return t.all[i], nil
		}
		return nil, nil
	}
	if n := t.times[p.key]; n > 1 {
		return nil, &PathError{Path: p.path, Problem: fmt.Sprintf("%d interfaces have this MAC address", n),
			Advice: "name the interface by its index instead: interface/0 is the first; a half of a failover pair by " +
				"@persistent or @transient behind the address"}
	}
	return t.first[p.key], nil
}

// missing returns the error for a required element that is not there.
func (d *Doc) missing(p *place, s *step) error {
	err := &PathError{Path: p.path, Problem: fmt.Sprintf("the domain has no <%s>", s.name)}
	switch s.key {
	case byNIC:
		err.Problem = "the domain has no such interface"
		err.Advice = "it has no interfaces"
		if names := d.interfaces().keys(); len(names) > 0 {
			const most = 16
			err.Advice = "it has " + strings.Join(names[:min(len(names), most)], ", ")
		}
	case byNumber:
		err.Problem = fmt.Sprintf("the domain has no <%s> with %s %s", s.name, s.attr, p.key)
	}
	return err
}

// canonical reports whether a MAC address is in libvirt's spelling, as it is in nearly all definitions.
func canonical(mac string) bool {
	for i := range len(mac) {
		if c := mac[i]; i%3 == 2 && c != ':' || i%3 != 2 && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(mac) == 17
}

// CanonMAC returns a MAC address in libvirt's spelling: lower case, two digits a byte. It reads what libvirt reads: one
// or two hexadecimal digits a byte, separated by colons (src/util/virmacaddr.c, virMacAddrParse).
func CanonMAC(s string) (string, bool) {
	if canonical(s) {
		return s, true
	}
	parts := strings.Split(strings.TrimSpace(s), ":")
	if len(parts) != 6 {
		return "", false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) > 2 {
			return "", false
		}
		parts[i] = fmt.Sprintf("%02x", n)
	}
	return strings.Join(parts, ":"), true
}

// Paths returns every path that has a value in the document, in a fixed order.
func (d *Doc) Paths() []string {
	var out []string
	seen := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		if r.whole {
			continue
		}
		for _, key := range d.keys(r) {
			path := strings.Replace(r.path, "*", key, 1)
			if seen[path] {
				continue
			}
			seen[path] = true
			if p, err := d.find(path); err == nil && d.present(p) {
				out = append(out, path)
			}
		}
	}
	return out
}

// keys returns the keys that a rule's * can stand for here, or one empty key if it has no *.
func (d *Doc) keys(r *rule) []string {
	at := d.root
	for i := range r.steps {
		s := &r.steps[i]
		var keys []string
		switch s.key {
		case noKey:
			if at = at.first(s.name); at == nil {
				return nil
			}
			continue
		case byNIC:
			if keys = d.interfaces().keys(); r.byIndex {
				for i := range keys {
					keys[i] = strconv.Itoa(i)
				}
			}
		case byName:
			for _, e := range at.elements() {
				keys = append(keys, e.name)
			}
		default:
			for _, e := range at.all(s.name) {
				if k := s.keyOf(e); k != "" {
					keys = append(keys, k)
				}
			}
		}
		return keys
	}
	return []string{""}
}
