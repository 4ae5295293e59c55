package knob

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Hit is a knob that a search found.
type Hit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Field string `json:"field"` // id, value, title, trap, wanted, why, verify, cost, source or near
	Text  string `json:"text"`  // the trap or the sentence that contains the text
	rank  int
}

// What a search looks at, best match first. Traps come early: people search for advice that they have read somewhere,
// and a trap says what is wrong with it.
const (
	rankID = iota
	rankTrap
	rankValue
	rankTitle
	rankWhy
	rankOther
	rankLoose // found after the value behind an equals sign was left out
	rankNear  // a word of the prose that is spelled nearly so
)

// maxSearch bounds what is searched for, in bytes.
const maxSearch = 200

// Search finds the knobs that mention a text, best match first: in IDs, prose and names of values. If none does, it
// tries the setting names in the text without their values, then all its words, and last words of similar spelling. So
// old advice is found by its own name ("pcie_asmp", "sched_rt_period_us=-1", "tx_queue_size=1024", "sdnf"), and a line
// of a script by what it sets ("sysctl -w net.core.dev_weight=6000").
func Search(text string) []Hit {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || len(text) > maxSearch {
		return nil
	}
	hits := searchFor(0, text)
	named := settingNames(text)
	for _, name := range named {
		if len(hits) == 0 {
			hits = searchFor(rankLoose, name)
		}
	}
	if words := strings.Fields(text); len(hits) == 0 && len(words) > 1 {
		hits = searchFor(0, words...)
	}
	for _, name := range named {
		if len(hits) == 0 {
			hits = searchNear(name)
		}
	}
	return hits
}

// settingNames returns the words of a text that look like names of settings, without values, also as spelled in paths:
// net.core.x of "sysctl -w net.core.x=1", kernel.x and x of "echo 0 > /proc/sys/kernel/x". A single word is always a
// name.
func settingNames(text string) []string {
	words := strings.FieldsFunc(text,
		func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("'\";<>", r) })
	var all []string
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case len(words) > 1 && (!strings.ContainsAny(name, "._/-") || name[0] == '-'):
			continue
		case strings.HasPrefix(name, "/proc/sys/"):
			name = strings.ReplaceAll(strings.TrimPrefix(name, "/proc/sys/"), "/", ".")
		case strings.HasPrefix(name, "/sys/"):
			name = strings.TrimPrefix(name, "/sys/")
		}
		if len(name) >= 3 {
			all = append(all, name)
		}
		if last := name[strings.LastIndexAny(name, "./")+1:]; last != name && len(last) >= 4 {
			all = append(all, last)
		}
	}
	return all
}

// searchFor finds the knobs whose prose contains all texts, anywhere. No hit ranks better than rank.
func searchFor(rank int, texts ...string) []Hit {
	var hits []Hit
	for _, k := range Catalogue() {
		best := Hit{rank: rankNear + 1}
		missing := slices.Clone(texts)
		for _, p := range passages()[k.ID] {
			missing = slices.DeleteFunc(missing, func(text string) bool {
				found := strings.Contains(p.low, text)
				if found && p.rank < best.rank {
					best = Hit{ID: k.ID, Title: k.Title, Field: p.field, Text: excerpt(p.field, p.prose, text),
						rank: p.rank}
				}
				return found
			})
		}
		if len(missing) == 0 {
			best.rank = max(best.rank, rank)
			hits = append(hits, best)
		}
	}
	return sortHits(hits)
}

// searchNear finds knobs with a word in ID or traps that is one letter off, or two if it is long.
func searchNear(text string) []Hit {
	if len(text) < 4 {
		return nil
	}
	var hits []Hit
	for _, k := range Catalogue() {
		if p, word, found := nearIn(passages()[k.ID], text); found {
			hits = append(hits,
				Hit{ID: k.ID, Title: k.Title, Field: "near", Text: excerpt(p.field, p.prose, word), rank: rankNear})
		}
	}
	return sortHits(hits)
}

// nearIn returns the first of ID and traps that has a word similar to text, and the word.
func nearIn(all []passage, text string) (p passage, word string, found bool) {
	for _, p := range all {
		if p.rank > rankTrap {
			continue
		}
		for _, word := range words(p.low) {
			longer := max(len(word)-len(text), len(text)-len(word))
			if longer > 2 {
				continue
			}
			if d := Distance(text, word); d <= 1 || d <= 2 && len(word) >= 8 {
				return p, word, true
			}
		}
	}
	return p, "", false
}

// passage is a part of a knob's prose, also in lower case.
type passage struct {
	field      string
	rank       int
	prose, low string
}

// passages maps the ID of each knob to its passages, best rank first.
var passages = sync.OnceValue(func() map[string][]passage {
	all := map[string][]passage{}
	for _, k := range Catalogue() {
		look := func(field string, rank int, prose string) {
			all[k.ID] = append(all[k.ID], passage{field, rank, prose, strings.ToLower(prose)})
		}
		look("id", rankID, k.ID)
		for _, v := range k.Values() {
			look("value", rankValue, v.Address+" "+strings.ReplaceAll(v.Address, "/", ".")) // MODULE.PARAMETER too
		}
		look("title", rankTitle, k.Title)
		doc := k.Doc()
		for _, trap := range doc.Traps {
			look("trap", rankTrap, trap)
		}
		look("wanted", rankWhy, doc.Want)
		look("why", rankWhy, doc.Why)
		look("cost", rankOther, doc.Cost)
		look("verify", rankOther, doc.Verify)
		for _, s := range doc.Sources {
			look("source", rankOther, s.Fact+": "+s.Where)
		}
		slices.SortStableFunc(all[k.ID], func(a, b passage) int { return a.rank - b.rank })
	}
	return all
})

// words returns the words of a text in lower case: letters, digits, and the signs that occur in names.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
	})
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

func sortHits(hits []Hit) []Hit {
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(a.rank, b.rank) })
	return hits
}

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
