package lookup

import (
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"mpps/internal/advise/knob"
)

// document is what a search may find: a knob, or advice that is no knob.
type document struct {
	id, title string
	passages  []passage // its ID, values, title and names
	names     []phrase
	knob      *knob.Knob
	advice    Entry // where there is no knob
}

// passage is a part of what is said of a document.
type passage struct {
	field  string
	weight float64
	text   string
}

// phrase is one of the names of a document: the numbers of its keys, each once.
type phrase []int

// What a word weighs by where it stands. Traps weigh more than other prose: people search for advice that they have
// read somewhere, and a trap says what is wrong with it.
const (
	weightID     = 3
	weightName   = 3
	weightValue  = 2.5
	weightTitle  = 2.5
	weightWanted = 2.4
	weightTrap   = 2.4
	weightWhy    = 2
	weightVerify = 1.4
	weightCost   = 1.2
	weightSource = 0.8
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

// token is a word as it stands in the pages: each that is written alike is the same token.
type token struct {
	raw string
	key int // the number of its key
}

// use is a token that has a key, as its own or as one of its parts, and what that weighs beside the whole.
type use struct {
	token int
	share float64
}

// index finds the places of words in IDs, values, titles and names. Each process makes it, for a few words: so prose is
// not part of it, but is read where a word is searched for that no name has (prose.go).
type index struct {
	documents  []document
	text       []int // tokens of all passages, in their order, each passage ended by token 0
	passages   []stretch
	tokens     []token
	at         [][]int        // by token: where it stands in the text
	keys       map[string]int // numbers of keys
	names      []string       // keys, by their numbers
	uses       [][]use        // by key
	documented []int          // by key: how many documents have it
}

// stretch is a part of the text: a passage of a document.
type stretch struct{ document, passage, end int }

// catalogue returns the index of all knobs and of all advice.
var catalogue = sync.OnceValue(build)

func build() *index {
	b := builder{
		index: &index{keys: map[string]int{}, tokens: make([]token, 1)}, keysOf: make([][]int, 1),
		reader: newReader(), parts: newReader(),
	}
	names := knobNames()
	for _, k := range knob.Catalogue() {
		b.add(ofKnob(k, names[k.ID]))
	}
	for _, e := range Advice() {
		b.add(ofAdvice(e))
	}
	b.locate()
	return b.index
}

// builder adds documents to an index.
type builder struct {
	*index
	reader *reader
	parts  *reader // of the parts of names
	keysOf [][]int // by token: its key and those of its parts
	last   []int   // by key: the last document that has it
}

// add adds a document.
func (b *builder) add(d document) {
	at := len(b.documents)
	for i, p := range d.passages {
		all := b.reader.words(p.text)
		for _, w := range all {
			b.put(at, b.token(w))
		}
		b.text = append(b.text, 0)
		b.passages = append(b.passages, stretch{at, i, len(b.text)})
		if p.field == "name" {
			d.names = append(d.names, b.phrase(all))
		}
	}
	b.documents = append(b.documents, d)
}

// put adds a token to the text.
func (b *builder) put(document, token int) {
	b.text = append(b.text, token)
	for _, key := range b.keysOf[token] {
		if b.last[key] != document {
			b.last[key] = document
			b.documented[key]++
		}
	}
}

// locate notes where each token stands.
func (b *builder) locate() {
	counts := make([]int, len(b.tokens))
	for _, token := range b.text {
		counts[token]++
	}
	all := make([]int, len(b.text))
	b.at = make([][]int, len(b.tokens))
	for token, n := range counts {
		b.at[token], all = all[:0:n], all[n:]
	}
	for at, token := range b.text {
		b.at[token] = append(b.at[token], at)
	}
}

// token returns the number of a word's token, a new one if the word is new.
func (b *builder) token(w *word) int {
	if w.token > 0 {
		return w.token
	}
	t := len(b.tokens)
	w.token = t
	own := b.key(w.key)
	b.tokens = append(b.tokens, token{w.raw, own})
	b.uses[own] = append(b.uses[own], use{t, 1})
	keys := []int{own}
	for _, p := range partsOf(b.parts, w) {
		if key := b.key(p.key); key != own {
			keys = append(keys, key)
			b.uses[key] = append(b.uses[key], use{t, p.share})
		}
	}
	b.keysOf = append(b.keysOf, keys)
	return t
}

// key returns the number of a key, a new one if it is new.
func (b *builder) key(key string) int {
	if n, known := b.keys[key]; known {
		return n
	}
	n := len(b.names)
	b.keys[key] = n
	b.names = append(b.names, key)
	b.uses = append(b.uses, nil)
	b.documented = append(b.documented, 0)
	b.last = append(b.last, -1)
	return n
}

// phrase returns the keys of words that tell something, each once.
func (b *builder) phrase(all []*word) phrase {
	var keys phrase
	for _, w := range all {
		if key := b.keys[w.key]; !slices.Contains(keys, key) && (!isEmpty(w) || len(all) == 1) {
			keys = append(keys, key)
		}
	}
	return keys
}

// part is the key of a part of a name, and what it weighs beside the whole.
type part struct {
	key   string
	share float64
}

// partsOf returns the parts of a name, each once, the one at its end first; of a path all parts.
func partsOf(r *reader, w *word) []part {
	if strings.IndexFunc(w.raw, isSeparator) < 0 || w.key != keyOf(w.raw) {
		return nil
	}
	var all []part
	add := func(text string, share float64) {
		for _, p := range r.words(text) {
			if !slices.ContainsFunc(all, func(o part) bool { return o.key == p.key }) {
				all = append(all, part{p.key, share})
			}
		}
	}
	add(lastName(w.raw), lastPart)
	for name := range strings.FieldsFuncSeq(w.raw, isSeparator) {
		add(name, namePart)
	}
	return all
}

// lastName returns the name after the last dot or slash: halt_poll_ns of kvm.halt_poll_ns.
func lastName(name string) string { return name[strings.LastIndexAny(name, "./")+1:] }

// places returns the best place of a key in each document that has it, in their order.
func (x *index) places(key string) []posting {
	n, known := x.keys[key]
	if !known {
		return nil
	}
	var found []spot
	for _, u := range x.uses[n] {
		for _, at := range x.at[u.token] {
			found = append(found, spot{at, u.share})
		}
	}
	return x.postings(found)
}

// pairs returns the best place in each document of two keys side by side.
func (x *index) pairs(first, second string) []posting {
	a, knownA := x.keys[first]
	b, knownB := x.keys[second]
	if !knownA || !knownB {
		return nil
	}
	var found []spot
	for _, u := range x.uses[a] {
		if x.tokens[u.token].key != a {
			continue
		}
		for _, at := range x.at[u.token] {
			if x.tokens[x.text[at+1]].key == b {
				found = append(found, spot{at, 1})
			}
		}
	}
	return x.postings(found)
}

// halves returns the places of two words that are a key when they are joined: multi queue for multiqueue.
func (x *index) halves(key string) []posting {
	for i := 1; i < len(key); i++ {
		if found := x.pairs(key[:i], key[i:]); len(found) > 0 {
			return found
		}
	}
	return nil
}

// spot is a place in the text where something was found, and what it weighs there.
type spot struct {
	at    int
	share float64
}

// postings returns the best spot of each document.
func (x *index) postings(spots []spot) []posting {
	slices.SortFunc(spots, func(a, b spot) int { return a.at - b.at })
	var found []posting
	for _, s := range spots {
		p := x.passages[sort.Search(len(x.passages), func(i int) bool { return x.passages[i].end > s.at })]
		found = put(found, posting{
			document: p.document, passage: p.passage, raw: x.tokens[x.text[s.at]].raw,
			weight: s.share * x.documents[p.document].passages[p.passage].weight,
		})
	}
	return found
}

// put adds a posting, or keeps the better one of its document, which is the last. That one gains a share of the other's
// weight if it stands in another passage.
func put(all []posting, p posting) []posting {
	last := len(all) - 1
	if last < 0 || all[last].document != p.document {
		return append(all, p)
	}
	other := all[last]
	if other.weight >= p.weight {
		p, other = other, p
	}
	if p.passage != other.passage {
		p.weight += again * other.weight
	}
	all[last] = p
	return all
}

// tells returns how much places tell: the more, the fewer documents have them.
func (x *index) tells(documents int) float64 {
	if documents == 0 {
		return 0
	}
	return math.Log(1 + float64(len(x.documents))/float64(documents))
}

// keyTells returns how much a key tells.
func (x *index) keyTells(key string) float64 {
	if n, known := x.keys[key]; known {
		return x.tells(x.documented[n])
	}
	return 0
}

// ofKnob returns the document of a knob, with the names that are not on its page.
func ofKnob(k *knob.Knob, names []string) document {
	d := document{id: k.ID, title: k.Title, knob: k}
	d.say("id", weightID, k.ID)
	for _, v := range k.Values() {
		d.say("value", weightValue, v.Address)
	}
	d.say("title", weightTitle, k.Title)
	for _, name := range names {
		d.say("name", weightName, name)
	}
	return d
}

// ofAdvice returns the document of advice that is no knob.
func ofAdvice(e Entry) document {
	d := document{id: e.ID, title: e.Title, advice: e}
	d.say("id", weightID, e.ID)
	d.say("title", weightTitle, e.Title)
	for _, name := range e.Names {
		d.say("name", weightName, name)
	}
	return d
}

func (d *document) say(field string, weight float64, text string) {
	d.passages = append(d.passages, passage{field, weight, text})
}
