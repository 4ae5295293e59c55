package lookup

import (
	"math"
	"slices"
	"strings"
	"sync"

	"mpps/internal/advise/knob"
	"mpps/internal/words"
)

// document is a knob, or advice that is no knob.
type document struct {
	id, title string
	passages  []passage // its ID, values, title and names
	names     []phrase
	rests     []phrase // names with a single word that is not empty: guests of too many guests
	knob      *knob.Knob
	advice    *Entry // where there is no knob
}

// passage is a part of a document: the ID, the title, a value, a name, or a paragraph of the page.
type passage struct {
	field  string
	weight float64
	text   string
}

// phrase is one of the names of a document: the numbers of its keys, each once.
type phrase []int

// Weights of a word by where it stands. Traps weigh more than other prose: people search for advice that they have read
// somewhere, and a trap says what is wrong with it.
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

// Factors of a weight where something else than the whole word is found.
const (
	besideNames = 0.5  // the word is only in prose, and other words of the text are in names
	ofPair      = 0.8  // two adjacent words
	lastPart    = 0.95 // the setting at the end of a name
	namePart    = 0.5  // another part of a name: budget of netdev_budget
	inside      = 0.5  // a word that contains it
	again       = 0.1  // the same word in another passage of the document
	oneOff      = 0.6  // misspelled by a letter
	twoOff      = 0.45
)

// posting is the best place of a key in a document.
type posting struct {
	document, passage int
	weight            float64
	raw               string // as it stands there
	near              bool   // found by a similar word
}

// token is a word as it is spelled in the pages.
type token struct {
	raw   string
	key   int
	parts []share
}

// share is the key of a token's part, with its weight; that of the whole is 1.
type share struct {
	key    int
	weight float64
}

// key is what words are compared by.
type key struct {
	text      string
	documents int // number of documents that have it
	last      int // the last document that was counted
}

// stretch is a part of the text: a passage of a document.
type stretch struct{ document, passage, from, to int }

// index finds the places of words in IDs, values, titles and names. A process makes it to search for a few words, so
// each search scans the whole text, and prose is left out: it is read only for a word that no name has (prose.go).
type index struct {
	documents []document
	text      []int32 // tokens of all passages, in their order
	passages  []stretch
	tokens    []token
	keys      []key
	numbers   map[string]int // of keys
}

// catalogue returns the index of all knobs and of all advice.
var catalogue = sync.OnceValue(build)

func build() *index {
	const many, more = 1 << 12, 1 << 14
	b := builder{
		index: &index{
			numbers: make(map[string]int, many), text: make([]int32, 0, more), tokens: make([]token, 0, many),
			keys: make([]key, 0, many), passages: make([]stretch, 0, many),
		}, reader: newReader(), parts: newReader(),
	}
	names := knobNames()
	for _, k := range knob.Catalogue() {
		b.add(ofKnob(k, names[k.ID]))
	}
	for _, e := range Advice() {
		b.add(ofAdvice(&e))
	}
	for i := range b.documents {
		d := &b.documents[i]
		for _, name := range d.rests {
			if b.keys[name[0]].documents <= commonFrom {
				d.names = append(d.names, name)
			}
		}
	}
	return b.index
}

// commonFrom is the number of documents above which a word is too common to be a name by itself.
const commonFrom = 24

// builder adds documents to an index.
type builder struct {
	*index
	reader *reader
	parts  *reader // of the parts of names
}

// add adds a document.
func (b *builder) add(d document) {
	at := len(b.documents)
	for i, p := range d.passages {
		all := b.reader.words(p.text)
		from := len(b.text)
		for _, w := range all {
			b.put(at, b.token(w))
		}
		b.passages = append(b.passages, stretch{at, i, from, len(b.text)})
		if p.field == "name" {
			if name := b.phrase(all); len(name) > 1 || len(all) == 1 {
				d.names = append(d.names, name)
			} else {
				d.rests = append(d.rests, name)
			}
		}
	}
	b.documents = append(b.documents, d)
}

// put adds a token to the text.
func (b *builder) put(document, token int) {
	b.text = append(b.text, int32(token))
	b.note(document, b.tokens[token].key)
	for _, p := range b.tokens[token].parts {
		b.note(document, p.key)
	}
}

// note notes that a document has a key.
func (b *builder) note(document, key int) {
	if k := &b.keys[key]; k.documents == 0 || k.last != document {
		k.documents, k.last = k.documents+1, document
	}
}

// token returns the number of a word's token, a new one if the word is new.
func (b *builder) token(w *word) int {
	if w.token > 0 {
		return w.token - 1
	}
	t := token{raw: w.raw, key: b.key(w.key)}
	for _, p := range partsOf(b.parts, w) {
		if key := b.key(p.key); key != t.key {
			t.parts = append(t.parts, share{key, p.share})
		}
	}
	b.tokens = append(b.tokens, t)
	w.token = len(b.tokens)
	return w.token - 1
}

// key returns the number of a key, a new one if it is new.
func (b *builder) key(text string) int {
	n, known := b.numbers[text]
	if !known {
		n = len(b.keys)
		b.numbers[text] = n
		b.keys = append(b.keys, key{text: text})
	}
	return n
}

// phrase returns the keys of words, each once, without empty words unless all are.
func (b *builder) phrase(all []*word) phrase {
	keys := make(phrase, 0, len(all))
	allEmpty := areEmpty(all)
	for _, w := range all {
		if key := b.numbers[w.key]; !slices.Contains(keys, key) && (!isEmpty(w) || allEmpty) {
			keys = append(keys, key)
		}
	}
	return keys
}

// part is the key of a part of a name, with its weight; that of the whole name is 1.
type part struct {
	key   string
	share float64
}

// partsOf returns the parts of a name or path, each once, the last one first.
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
	n, known := x.numbers[key]
	if !known {
		return nil
	}
	shares := make([]float64, len(x.tokens))
	for i, t := range x.tokens {
		shares[i] = t.shareOf(n)
	}
	return x.postings(func(at int) float64 { return shares[x.text[at]] })
}

// shareOf returns the weight of a key in a token, 0 if the token does not have it.
func (t *token) shareOf(key int) float64 {
	if t.key == key {
		return 1
	}
	for _, p := range t.parts {
		if p.key == key {
			return p.weight
		}
	}
	return 0
}

// pairs returns the best place in each document of two keys side by side.
func (x *index) pairs(first, second string) []posting {
	a, knownA := x.numbers[first]
	b, knownB := x.numbers[second]
	if !knownA || !knownB {
		return nil
	}
	return x.postings(func(at int) float64 {
		is := x.tokens[x.text[at]].key == a && at+1 < len(x.text) && x.tokens[x.text[at+1]].key == b
		return words.Either(is, 1.0, 0)
	})
}

// halves returns the places of two adjacent words that make up a key: multi queue for multiqueue.
func (x *index) halves(key string) []posting {
	for i := 1; i < len(key); i++ {
		if found := x.pairs(key[:i], key[i:]); len(found) > 0 {
			return found
		}
	}
	return nil
}

// postings returns the best place of each document, given the weight of each place in the text.
func (x *index) postings(weight func(at int) float64) []posting {
	var found []posting
	for _, p := range x.passages {
		for at := p.from; at < p.to; at++ {
			if w := weight(at); w > 0 {
				found = put(found, posting{
					document: p.document, passage: p.passage, raw: x.tokens[x.text[at]].raw,
					weight: w * x.documents[p.document].passages[p.passage].weight,
				})
			}
		}
	}
	return found
}

// put adds a posting. If the last one is of the same document, it keeps the better of the two, plus a share of the
// other's weight if that is of another passage.
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

// tells returns how much a word distinguishes documents, given the number of those that have it.
func (x *index) tells(documents int) float64 {
	if documents == 0 {
		return 0
	}
	return math.Log(1 + float64(len(x.documents))/float64(documents))
}

// keyTells returns tells for a key.
func (x *index) keyTells(key string) float64 {
	if n, known := x.numbers[key]; known {
		return x.tells(x.keys[n].documents)
	}
	return 0
}

// ofKnob returns the document of a knob, with the names that are not on its page.
func ofKnob(k *knob.Knob, names []string) document {
	d := document{id: k.ID, title: k.Title, knob: k, passages: make([]passage, 0, len(names)+4)}
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
func ofAdvice(e *Entry) document {
	d := document{id: e.ID, title: e.Title, advice: e, passages: make([]passage, 0, len(e.Names)+2)}
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
