package lookup

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"mpps/internal/advise/knob"
)

// document is what a search may find: a knob, or advice that is no knob.
type document struct {
	id, title string
	answer    string // of advice: what is shown whatever was found by
	passages  []passage
	names     []phrase
}

// passage is a part of a page.
type passage struct {
	field  string
	weight float64
	prose  string
}

// phrase is one of the names of a document: its keys, each once.
type phrase []string

// What a word weighs by where it stands. Traps weigh more than other prose: people search for advice that they have
// read somewhere, and a trap says what is wrong with it.
const (
	weightID     = 3
	weightName   = 3
	weightValue  = 2.5
	weightTitle  = 2.5
	weightWanted = 1.2
	weightTrap   = 1.2
	weightWhy    = 1
	weightVerify = 0.7
	weightCost   = 0.6
	weightSource = 0.4
)

// What a word weighs that is not quite the one searched for.
const (
	ofPair   = 0.8  // two words that stand side by side
	lastPart = 0.95 // the setting at the end of a name
	namePart = 0.5  // another part of a name: budget of netdev_budget
	inside   = 0.5
	again    = 0.1 // what another passage with the word adds
	oneOff   = 0.6 // misspelled by a letter
	twoOff   = 0.45
)

// posting is the best place of a key in a document.
type posting struct {
	document, passage int
	weight            float64
	raw               string // as it stands there
	near              bool   // spelled otherwise than what is searched for
}

// index finds the places of words.
type index struct {
	documents []document
	keys      map[string][]posting // one for each document, in their order
	pairs     map[string][]posting // of two keys side by side, joined
	inNames   map[string]string    // keys of IDs and names → as they stand there: what can be offered
	sorted    []string             // keys, in order, so that sums are always the same
}

// catalogue returns the index of all knobs and of all advice.
var catalogue = sync.OnceValue(buildIndex)

func buildIndex() *index {
	x := &index{keys: map[string][]posting{}, pairs: map[string][]posting{}, inNames: map[string]string{}}
	names := knobNames()
	for _, k := range knob.Catalogue() {
		x.add(ofKnob(k, names[k.ID]))
	}
	for _, e := range Advice() {
		x.add(ofAdvice(e))
	}
	x.sorted = slices.Sorted(maps.Keys(x.keys))
	return x
}

// add adds a document.
func (x *index) add(d document) {
	at := len(x.documents)
	for j, p := range d.passages {
		all := words(p.prose)
		for i, w := range all {
			add := func(key string, weight float64) {
				put(x.keys, key, posting{document: at, passage: j, weight: weight, raw: w.raw})
			}
			add(w.key, p.weight)
			for part, share := range partsOf(w) {
				add(part, p.weight*share)
			}
			if p.field == "name" || p.field == "id" {
				x.offer(w)
			}
			if i+1 < len(all) {
				put(x.pairs, w.key+all[i+1].key, posting{document: at, passage: j, weight: p.weight, raw: w.raw})
			}
		}
		if p.field == "name" {
			d.names = append(d.names, keysOf(all))
		}
	}
	x.documents = append(x.documents, d)
}

// offer remembers a word, or the parts of an ID, as one that a search can be told of.
func (x *index) offer(w word) {
	if w.raw[0] == '-' {
		return
	}
	if _, known := x.inNames[w.key]; !known {
		x.inNames[w.key] = w.raw
	}
}

// keysOf returns the keys of words that tell something, each once.
func keysOf(all []word) phrase {
	var keys phrase
	for _, w := range all {
		if !slices.Contains(keys, w.key) && (!isEmpty(w) || len(all) == 1) {
			keys = append(keys, w.key)
		}
	}
	return keys
}

// partsOf returns the keys of the parts of a name and what they weigh beside the whole; of a path all parts.
func partsOf(w word) map[string]float64 {
	parts := strings.FieldsFunc(w.raw, isSeparator)
	if len(parts) < 2 || w.key != stem(join(w.raw)) {
		return nil
	}
	all := map[string]float64{}
	for _, part := range parts {
		for _, p := range words(part) {
			all[p.key] = namePart
		}
	}
	for _, p := range words(lastName(w.raw)) {
		all[p.key] = lastPart
	}
	return all
}

// lastName returns the name after the last dot or slash: halt_poll_ns of kvm.halt_poll_ns.
func lastName(name string) string { return name[strings.LastIndexAny(name, "./")+1:] }

// put adds a posting, or keeps the better one of its document, which is the last. That one gains a share of the other's
// weight if it stands in another passage.
func put(into map[string][]posting, key string, p posting) {
	all := into[key]
	last := len(all) - 1
	if last < 0 || all[last].document != p.document {
		into[key] = append(all, p)
		return
	}
	other := all[last]
	if other.weight >= p.weight {
		p, other = other, p
	}
	if p.passage != other.passage {
		p.weight += again * other.weight
	}
	all[last] = p
}

// tells returns how much a key tells: the more, the fewer documents have it.
func (x *index) tells(found []posting) float64 {
	if len(found) == 0 {
		return 0
	}
	return math.Log(1 + float64(len(x.documents))/float64(len(found)))
}

// ofKnob returns the document of a knob, with the names that are not on its page.
func ofKnob(k *knob.Knob, names []string) document {
	d := document{id: k.ID, title: k.Title}
	d.say("id", weightID, k.ID)
	for _, v := range k.Values() {
		d.say("value", weightValue, v.Address)
	}
	d.say("title", weightTitle, k.Title)
	for _, name := range names {
		d.say("name", weightName, name)
	}
	doc := k.Doc()
	for _, trap := range doc.Traps {
		d.say("trap", weightTrap, trap)
	}
	d.say("wanted", weightWanted, doc.Want)
	d.say("why", weightWhy, doc.Why)
	d.say("cost", weightCost, doc.Cost)
	d.say("verify", weightVerify, doc.Verify)
	for _, s := range doc.Sources {
		d.say("source", weightSource, s.Fact+": "+s.Where)
	}
	return d
}

// ofAdvice returns the document of advice that is no knob.
func ofAdvice(e Entry) document {
	d := document{id: e.ID, title: e.Title, answer: e.NotHere + " " + e.Instead}
	d.say("id", weightID, e.ID)
	d.say("title", weightTitle, e.Title)
	for _, name := range e.Names {
		d.say("name", weightName, name)
	}
	d.say("does", weightWhy, e.Does)
	d.say("for", weightCost, e.For)
	d.say("not here", weightSource, e.NotHere)
	d.say("instead", weightSource, e.Instead)
	return d
}

func (d *document) say(field string, weight float64, prose string) {
	d.passages = append(d.passages, passage{field, weight, prose})
}
