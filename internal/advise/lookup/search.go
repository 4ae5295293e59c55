// Package lookup searches the catalogue for a text: a word of an article, a line of a script or of a definition, a
// symptom, old advice. It knows the knobs, and advice that is no knob.
package lookup

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/words"
)

// Hit is a knob, or advice that is no knob, that a search found.
type Hit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Field string `json:"field"` // where the text is from: trap, wanted, why, verify, cost, source, near or advice
	Text  string `json:"text"`  // a trap or a sentence about what was found, what a knob should be, or what to do instead
}

// Hits is the result of explain --search.
type Hits struct {
	Search  string   `json:"search"`
	Hits    []Hit    `json:"hits"`
	Nearest []string `json:"nearest"` // words that can be searched for instead, where nothing was found
}

// Fields of hits that are not parts of a page.
const (
	fieldNear   = "near"   // found by a misspelled word
	fieldAdvice = "advice" // no knob
)

const (
	maxSearch    = 400  // bytes of a text that are searched for
	maxHits      = 12   // hits that are shown
	worthShowing = 0.35 // the least score of a hit, as a share of the best one's
)

// Find searches for a text and offers the nearest words if nothing is found.
func Find(text string) Hits {
	h := Hits{Search: text, Hits: append([]Hit{}, Search(text)...), Nearest: []string{}}
	if len(h.Hits) == 0 {
		h.Nearest = append(h.Nearest, Nearest(text)...)
	}
	return h
}

// Search returns the documents that a text is about, best match first. A word counts more the fewer documents have it,
// and depending on where it stands there; two adjacent words count again, and a document whose name is in the text
// counts most. Unknown words are taken for misspelled ones, or else ignored.
func Search(text string) []Hit {
	x := catalogue()
	all := readWords(joinHan(x.settings(text[:min(maxSearch, len(text))])))
	framing := func(w *word) bool { return isEmpty(w) || frameWords[w.key] || plainWords[w.key] }
	if slices.ContainsFunc(all, func(w *word) bool { return !framing(w) && !isOption(w) }) {
		if hits := x.search(all, framing); len(hits) > 0 {
			return hits
		}
		return x.search(all, func(w *word) bool { return framing(w) && !programWords[w.key] })
	}
	framing = words.Either(areEmpty(all), func(*word) bool { return false }, func(w *word) bool {
		return isEmpty(w) || plainWords[w.key]
	})
	return slices.DeleteFunc(x.search(all, framing), func(h Hit) bool { return !x.hasOptions(h.ID, all) })
}

// isOption reports whether a word is an option: -K.
func isOption(w *word) bool { return w.raw[0] == '-' }

// hasOptions reports whether one of a document's names has all options among words: alone, an option is another
// one for each program.
func (x *index) hasOptions(id string, all []*word) bool {
	at := slices.IndexFunc(x.documents, func(d document) bool { return d.id == id })
	options := slices.DeleteFunc(slices.Clone(all), func(w *word) bool { return !isOption(w) })
	return len(options) == 0 || slices.ContainsFunc(x.documents[at].names, func(name phrase) bool {
		return !slices.ContainsFunc(all, func(w *word) bool {
			n, known := x.numbers[w.key]
			return !isEmpty(w) && (!known || !slices.Contains(name, n))
		})
	})
}

// anAssignment matches a setting and its value, and what ends that.
var anAssignment = regexp.MustCompile(`([A-Za-z][\w.:/-]*)\s*=\s*(?:"[\w.:/-]+"|'[\w.:/-]+'|[\w.:/-]+)([\s;,>]|$)`)

// settings returns a text without the values of unknown settings: auto of crashkernel=auto.
func (x *index) settings(text string) string {
	return anAssignment.ReplaceAllStringFunc(text, func(all string) string {
		parts := anAssignment.FindStringSubmatch(all)
		for _, w := range readWords(parts[1]) {
			if isEmpty(w) || frameWords[w.key] {
				return all
			}
			if found, _ := x.find(w); len(found) > 0 {
				return all
			}
		}
		return parts[1] + parts[2]
	})
}

// search returns the documents that words are about. Framing words count only in names that have other words of the
// text too, options only if another word is found as it is.
func (x *index) search(all []*word, framing func(*word) bool) []Hit {
	q := query{index: x, scores: make([]score, len(x.documents)), known: map[int]float64{}, frames: map[int]bool{},
		at: map[*word]places{}, counted: map[string]bool{}}
	var options, words []int
	for i, w := range all {
		switch {
		case framing(w):
			if n, there := x.numbers[w.key]; there && !isEmpty(w) && q.noteKey(w.key) {
				q.frames[n] = true
			}
		case isOption(w):
			options = append(options, i)
		default:
			words = append(words, i)
			q.found(w)
		}
	}
	if !q.any || q.isElsewhere(len(words)) {
		return nil
	}
	for _, i := range words {
		q.word(all[i:])
	}
	if q.sure {
		for _, i := range options {
			q.found(all[i])
			q.word(all[i:])
		}
	}
	q.countNames()
	return x.hits(q.scores)
}

// query is what a search has found so far.
type query struct {
	*index
	scores []score         // by document
	known  map[int]float64 // tells of each key of the text; numbers below 0 are words that no name has
	frames map[int]bool    // keys of framing words
	any    bool            // a word was found
	sure   bool            // one was found as it is spelled
	named  bool            // one was found in a name
	at     map[*word]places

	counted map[string]bool // keys counted so far: a repeated word counts once
}

// places are where a word was found, and how.
type places struct {
	all []posting
	how how
}

// isElsewhere reports whether a text of several words is of another field: no name has any of them, or at least twice
// as many of its words, not counting names of settings, are in no name as are in one.
func (q *query) isElsewhere(words int) bool {
	ours, strange := 0, 0
	for w, p := range q.at {
		switch {
		case len(p.all) > 0 && p.how == named:
			ours++
		case !isName(w.raw) && !strings.ContainsFunc(w.raw, isHan):
			strange++
		}
	}
	return words > 1 && (!q.named || strange > 1 && strange >= 2*ours)
}

// found finds a word and notes how.
func (q *query) found(w *word) {
	all, how := q.find(w)
	q.at[w] = places{all, how}
	q.any = q.any || len(all) > 0
	q.named = q.named || len(all) > 0 && (how == named || how == said && isName(w.raw))
	q.sure = q.sure || slices.ContainsFunc(all, func(p posting) bool { return !p.near })
}

// word counts the first of some words, and its pair with the next one.
func (q *query) word(all []*word) {
	w := all[0]
	found := q.at[w]
	if !q.counted[w.key] {
		q.count(found.all, words.Either(q.named && found.how == said, besideNames, 1))
	}
	q.counted[w.key] = true
	if len(all) > 1 {
		q.pair(w.key, all[1].key)
	}
	if !q.note(w) {
		q.known[-1-len(q.known)] = q.tells(len(found.all))
	}
}

// pair counts two words side by side.
func (q *query) pair(first, second string) {
	q.count(q.pairs(first, second), ofPair)
	q.count(q.places(first+second), ofPair) // multiqueue, of multi queue
	q.noteKey(first + second)
	if q.keyTells(first) == 0 {
		q.count(q.halves(first), ofPair)
	}
}

// note records tells for a word's key, and for those of its parts if it is a path or its key is unknown. It reports
// whether the index has any of them.
func (q *query) note(w *word) bool {
	if noted := q.noteKey(w.key); noted && !strings.Contains(w.raw, "/") {
		return true
	}
	noted := false
	for _, p := range partsOf(newReader(), w) {
		noted = q.noteKey(p.key) || noted
	}
	return noted
}

// noteKey records tells for a key and reports whether the index has it.
func (q *query) noteKey(key string) bool {
	n, there := q.numbers[key]
	if there {
		q.known[n] = q.tells(q.keys[n].documents)
	}
	return there
}

// score is what a search gives a document.
type score struct {
	sum  float64
	best float64 // the largest contribution of one word
	at   posting // where that word stands
}

// count adds a word's places to the scores.
func (q *query) count(found []posting, factor float64) {
	factor *= q.tells(len(found))
	for _, p := range found {
		s := &q.scores[p.document]
		s.sum += factor * p.weight
		if gives := factor * p.weight; gives > s.best {
			s.best, s.at = gives, p
		}
	}
}

// countNames adds, for each document, the name of which the text has the largest share. A complete name counts most,
// and more if it makes up most of the text.
func (q *query) countNames() {
	total := 0.0
	for _, key := range slices.Sorted(maps.Keys(q.known)) { // so that the sum is the same each time
		total += q.known[key]
	}
	if total == 0 {
		return
	}
	for i, d := range q.documents {
		most := 0.0
		for _, name := range d.names {
			there, whole, framed := 0.0, 0.0, true
			for _, key := range name {
				whole += q.tells(q.keys[key].documents)
				there += q.known[key]
				framed = framed && (q.known[key] == 0 || q.frames[key])
			}
			share := there / whole
			if whole == 0 || share < leastOfName || framed {
				continue
			}
			most = max(most, there*share*share*share*(1+2*there/total))
		}
		q.scores[i].sum += nameInText * most
	}
}

const (
	leastOfName = 0.5 // the least share of a name that counts
	nameInText  = 2   // weight of a name in addition to its words
)

// hits returns the documents whose scores are worth showing, best first.
func (x *index) hits(scores []score) []Hit {
	var order []int
	most := 0.0
	for i, s := range scores {
		if s.best > 0 {
			order, most = append(order, i), max(most, s.sum)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].sum, scores[a].sum) })
	var hits []Hit
	for _, i := range order[:min(maxHits, len(order))] {
		if scores[i].sum < worthShowing*most {
			break
		}
		hits = append(hits, x.hit(x.documents[i], scores[i].at))
	}
	return hits
}

// hit returns what is shown of a document.
func (x *index) hit(d document, at posting) Hit {
	p := x.passage(at)
	h := Hit{ID: d.id, Title: d.title, Field: p.field, Text: excerpt(p, at.raw)}
	switch {
	case at.near:
		h.Field = fieldNear
	case d.knob == nil:
		h.Field, h.Text = fieldAdvice, d.advice.NotHere+" "+d.advice.Instead
	case at.passage < len(d.passages) || p.field == "title": // a name, or the title in Chinese
		if p := d.toShow(at.raw); p.text != "" {
			h.Field, h.Text = p.field, p.text
		}
	}
	return h
}

// toShow returns the passage to show of a knob found by a name: its first trap with that name, or what it should be.
func (d *document) toShow(name string) passage {
	var wanted passage
	for _, p := range d.prose() {
		switch {
		case p.field == "trap" && isName(name) && hasWord(strings.ToLower(p.text), &word{raw: name, key: name}):
			return p
		case p.field == "wanted" && wanted.text == "":
			wanted = p
		}
	}
	return wanted
}

// excerpt returns the sentence of a passage that contains part; a trap as a whole, because it ends with what is right.
func excerpt(p passage, part string) string {
	if p.field == "trap" {
		return p.text
	}
	return sentence(p.text, part)
}

// sentence returns the sentence of a text that contains part. A full stop inside a name ends no sentence.
func sentence(text, part string) string {
	at := strings.Index(strings.ToLower(text), strings.ToLower(part))
	if at < 0 || at > len(text) {
		return text
	}
	from := 0
	if end := strings.LastIndex(text[:at], ". "); end >= 0 {
		from = end + 2
	}
	to := len(text)
	if end := strings.Index(text[at:], ". "); end >= 0 {
		to = at + end + 1
	}
	return text[from:to]
}

// Suggest returns up to three IDs in place of an unknown one, best first: those with a similar spelling, or else what a
// search for it finds.
func Suggest(id string) []string {
	near := knob.Near(id)
	for _, e := range Advice() {
		short := strings.TrimPrefix(e.ID, advicePrefix)
		if id == short || words.Near(id, e.ID) {
			near = append([]string{e.ID}, near...)
		}
	}
	if len(near) == 0 {
		for _, hit := range Search(id) {
			near = append(near, hit.ID)
		}
	}
	return near[:min(3, len(near))]
}
