package knob

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Hit is a knob that a search found.
type Hit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Field string `json:"field"` // id, value, title, trap, wanted, why, verify, cost, source or near
	Text  string `json:"text"`  // the trap or the sentence that contains what was found
}

// fieldNear is the field of hits that are found by a misspelled word.
const fieldNear = "near"

// maxSearch bounds what is searched for, in bytes.
const maxSearch = 200

// worthShowing is the least score of a hit, as a share of the best one's.
const worthShowing = 0.35

// Search finds the knobs that a text is about, best match first: a name, a line of a script or of a definition, a
// symptom, old advice. Each word counts by how few knobs it occurs at and by where it stands there, two words side by
// side count again, and the text as a whole once more. So old advice is found by its own name ("pcie_asmp", "sdnf"),
// and a line of a script by what it sets ("sysctl -w net.core.dev_weight=6000"). Words that no knob has are taken for
// misspelled ones, then left out.
func Search(text string) []Hit {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || len(text) > maxSearch {
		return nil
	}
	x := searchIndex()
	scores := make([]score, len(x.knobs))
	words := searchWords(text)
	isEmpty := func(word string) bool { return slices.Contains(emptyWords, word) }
	for i, word := range words {
		if isEmpty(word) && len(words) > 1 {
			continue
		}
		x.add(scores, x.find(word), 1)
		if i+1 < len(words) && !isEmpty(words[i+1]) {
			x.add(scores, x.alike(pair(word, words[i+1])), 0.8)
		}
	}
	if len(text) >= 3 && !slices.Contains(words, text) { // more than the one word that was counted
		x.add(scores, x.phrase(text), 2)
	}
	return x.hits(scores)
}

// score is what the words of a search give a knob.
type score struct {
	sum  float64
	best float64 // the most that one word has given
	at   posting // where that word stands
}

// add adds a word's places to the scores: the fewer knobs have it, the more it tells.
func (x *index) add(scores []score, found []posting, factor float64) {
	if len(found) == 0 {
		return
	}
	factor *= math.Log(1 + float64(len(x.knobs))/float64(len(found)))
	for _, p := range found {
		s := &scores[p.knob]
		s.sum += factor * p.weight
		if gives := factor * p.weight; gives > s.best {
			s.best, s.at = gives, p
		}
	}
}

// hits returns the knobs whose scores are worth showing, best first.
func (x *index) hits(scores []score) []Hit {
	var order []int
	most := 0.0
	for i, s := range scores {
		if s.sum > 0 {
			order, most = append(order, i), max(most, s.sum)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].sum, scores[a].sum) })
	var hits []Hit
	for _, i := range order {
		if scores[i].sum < worthShowing*most {
			break
		}
		at := scores[i].at
		p := x.passages[i][at.passage]
		h := Hit{ID: x.knobs[i].ID, Title: x.knobs[i].Title, Field: p.field, Text: excerpt(p.field, p.prose, at.word)}
		if at.near {
			h.Field = fieldNear
		}
		hits = append(hits, h)
	}
	return hits
}

// excerpt returns what is shown of a passage: a trap as a whole, because it ends with what is right; the address of a
// value; otherwise the sentence.
func excerpt(field, prose, part string) string {
	switch field {
	case "trap":
		return prose
	case "value":
		address, _, _ := strings.Cut(prose, " ")
		return address
	}
	return sentence(prose, part)
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

// searchWords returns the words of a text in lower case. A name with dots, slashes, dashes or underscores is one word;
// so is the option -g.
func searchWords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./", r)
	})
	kept := words[:0]
	for _, w := range words {
		option := len(w) == 2 && w[0] == '-' && unicode.IsLetter(rune(w[1]))
		if w = strings.TrimRight(w, "-./"); !option {
			w = strings.TrimLeft(w, "-./")
		}
		if strings.ContainsFunc(w, unicode.IsLetter) {
			kept = append(kept, w)
		}
	}
	return kept
}

// emptyWords tell nothing by themselves.
var emptyWords = strings.Fields(`a an and at by dev do does for from how in into is it my no not of off on or set the to
	what when why with`)

// Distance returns how many letters must be inserted, deleted, replaced or swapped with their neighbour to turn a into
// b (optimal string alignment). For texts longer than 200 bytes it is their length.
func Distance(a, b string) int {
	if len(a) > 200 || len(b) > 200 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// isPartOf reports whether part occurs in an ID ("bridge", "ring.rx").
func isPartOf(part, id string) bool { return len(part) >= 3 && strings.Contains(id, part) }
