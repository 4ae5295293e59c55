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
	Text  string `json:"text"`  // the trap, or the sentence, that holds what was searched for
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

// Search finds the knobs that mention a text, best match first: in IDs, prose and names of values; if none does, by the
// setting names in the text without their values, then by all its words, and last by words that are spelled similarly.
// So old advice is found by its own name ("pcie_asmp", "sched_rt_period_us=-1", "tx_queue_size=1024", "sdnf"), and a
// line of a script by what it sets ("sysctl -w net.core.dev_weight=6000").
func Search(text string) []Hit {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" || len(text) > maxSearch {
		return nil
	}
	hits := searchFor(text, 0)
	named := names(text)
	for _, name := range named {
		if len(hits) == 0 {
			hits = searchFor(name, rankLoose)
		}
	}
	if words := strings.Fields(text); len(hits) == 0 && len(words) > 1 {
		hits = searchAll(words)
	}
	for _, name := range named {
		if len(hits) == 0 {
			hits = searchNear(name)
		}
	}
	return hits
}

// names returns the words of a text that look like names of settings, without values, as an address or a sentence may
// spell them: net.core.x of "sysctl -w net.core.x=1", kernel.x and x of "echo 0 > /proc/sys/kernel/x". A text of one
// word is a name.
func names(text string) []string {
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

// searchFor finds one text literally. No hit ranks better than rank.
func searchFor(text string, rank int) []Hit {
	var hits []Hit
	for _, k := range Catalogue() {
		best := Hit{rank: rankNear + 1}
		for _, p := range passages()[k.ID] {
			if p.rank < best.rank && strings.Contains(p.low, text) {
				best = Hit{ID: k.ID, Title: k.Title, Field: p.field, Text: excerpt(p.field, p.prose, text),
					rank: p.rank}
			}
		}
		if best.ID != "" {
			best.rank = max(best.rank, rank)
			hits = append(hits, best)
		}
	}
	return sorted(hits)
}

// searchAll finds knobs whose prose has all words, anywhere.
func searchAll(words []string) []Hit {
	var hits []Hit
	for _, k := range Catalogue() {
		missing := slices.Clone(words)
		best := Hit{rank: rankNear + 1}
		for _, p := range passages()[k.ID] {
			missing = slices.DeleteFunc(missing, func(word string) bool {
				if !strings.Contains(p.low, word) {
					return false
				}
				if p.rank < best.rank {
					best = Hit{ID: k.ID, Title: k.Title, Field: p.field, Text: excerpt(p.field, p.prose, word),
						rank: p.rank}
				}
				return true
			})
		}
		if len(missing) == 0 && best.ID != "" {
			hits = append(hits, best)
		}
	}
	return sorted(hits)
}

// searchNear finds knobs with a word in ID or traps that differs from the text in one letter, or in two if it is long.
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
	return sorted(hits)
}

// nearIn returns the first passage among ID and traps with a word similar to a text, and that word.
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

// passage is a part of a knob's prose, and the same in lower case.
type passage struct {
	field      string
	rank       int
	prose, low string
}

// passages are those of each knob by ID, collected at the first search.
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
	}
	return all
})

// words returns the words of a text in lower case: letters, digits, and the signs that occur in names.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
	})
}

// excerpt returns what is shown of a passage: all of a trap, because it ends with what is right; of a value the
// address.
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

// sentence returns the sentence of a text that contains a part; a full stop inside a name ends none.
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

func sorted(hits []Hit) []Hit {
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

// contained reports whether part is a part of an ID ("bridge", "ring.rx").
func contained(part, id string) bool { return len(part) >= 3 && strings.Contains(id, part) }
