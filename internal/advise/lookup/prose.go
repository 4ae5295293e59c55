package lookup

import (
	"strings"
	"sync"
	"unicode"

	"mpps/internal/words"
)

// prose returns the prose passages by document, as they are and in lower case.
var prose = sync.OnceValues(func() (all [][]passage, lower [][]string) {
	for _, d := range catalogue().documents {
		passages := d.prose()
		texts := make([]string, len(passages))
		for i, p := range passages {
			texts[i] = strings.ToLower(p.text)
		}
		all, lower = append(all, passages), append(lower, texts)
	}
	return all, lower
})

// prose returns the passages of a document's page.
func (d *document) prose() []passage {
	if d.knob == nil {
		e := d.advice
		return []passage{{"does", weightWhy, e.Does}, {"for", weightCost, e.For}, {"not here", weightSource, e.NotHere},
			{"instead", weightSource, e.Instead}}
	}
	doc := d.knob.Doc()
	var all []passage
	for _, trap := range doc.Traps {
		all = append(all, passage{"trap", weightTrap, trap})
	}
	all = append(all, passage{"wanted", weightWanted, doc.Want}, passage{"why", weightWhy, doc.Why},
		passage{"cost", weightCost, doc.Cost}, passage{"verify", weightVerify, doc.Verify})
	for _, s := range doc.Sources {
		all = append(all, passage{"source", weightSource, s.Fact + ": " + s.Where})
	}
	if zh, is := d.knob.Chinese(); is {
		all = append(all, passage{"title", weightTitle, zh.Title}, passage{"wanted", weightWanted, zh.Want},
			passage{"why", weightWhy, zh.Why})
	}
	return all
}

// inProse returns the best place of a word in the prose of each document.
func (x *index) inProse(w *word) []posting {
	var found []posting
	all, lower := prose()
	for i, passages := range all {
		for j, p := range passages {
			if hasWord(lower[i][j], w) {
				found = put(found, posting{document: i, passage: len(x.documents[i].passages) + j, weight: p.weight,
					raw: w.raw})
			}
		}
	}
	return found
}

// passage returns where a posting is.
func (x *index) passage(p posting) passage {
	d := x.documents[p.document]
	if n := len(d.passages); p.passage >= n {
		all, _ := prose()
		return all[p.document][p.passage-n]
	}
	return d.passages[p.passage]
}

// longestEnding is how many letters may follow the stem of a word: ing.
const longestEnding = 3

// hasWord reports whether a text in lower case has a word: a name as it is, another word with any ending, Chinese
// anywhere, since it has no spaces.
func hasWord(text string, w *word) bool {
	if strings.ContainsFunc(w.raw, isHan) {
		return strings.Contains(text, w.raw)
	}
	part, ending := w.key, longestEnding
	if isName(w.raw) || w.raw == w.key {
		part, ending = w.raw, words.Either(isName(w.raw), 0, 1)
	}
	for from := 0; ; {
		at := strings.Index(text[from:], part)
		if at < 0 {
			return false
		}
		at += from
		from = at + len(part)
		more := strings.IndexFunc(text[from:]+" ", isEndOfWord)
		if more <= ending && (at == 0 || isEndOfWord(rune(text[at-1]))) {
			return true
		}
	}
}

// isName reports whether a word is the name of a setting rather than one of a language.
func isName(raw string) bool {
	return strings.ContainsFunc(raw, func(r rune) bool { return isSeparator(r) || unicode.IsDigit(r) })
}

func isEndOfWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
