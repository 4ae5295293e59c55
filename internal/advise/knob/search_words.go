package knob

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// find returns where a word stands, the best place of each knob: the word, its other forms and spellings, or else words
// that contain it, the setting at the end of a path, all parts of a name, or words that are spelled nearly so.
func (x *index) find(word string) []posting {
	found := x.alike(word)
	plain := join(word)
	for _, other := range x.plain {
		if other != plain && isFormOf(plain, other) {
			for _, form := range x.joined[other] {
				found = merge(found, weigh(x.words[form], kindred))
			}
		}
	}
	if len(word) >= 4 {
		for _, part := range x.parts {
			if part != word && (strings.HasPrefix(part, word) || strings.HasSuffix(part, word)) {
				found = merge(found, weigh(x.names[part], namePart))
			}
		}
	}
	if len(found) == 0 && len(word) >= 4 {
		found = x.collect(func(other string) float64 {
			if strings.Contains(other, word) {
				return inside
			}
			return 0
		})
	}
	if last := lastName(word); len(found) == 0 && last != word && last != "" {
		return x.find(last)
	}
	if len(found) == 0 {
		found = x.findParts(word)
	}
	if len(found) == 0 {
		found = x.misspelled(word)
	}
	return found
}

// alike returns the places of a word or a pair of words, with whatever separators.
func (x *index) alike(word string) []posting {
	found := x.words[word]
	for _, other := range x.joined[join(word)] {
		if other != word {
			found = merge(found, weigh(x.words[other], kindred))
		}
	}
	return found
}

// findParts returns the knobs that have all parts of a name.
func (x *index) findParts(word string) []posting {
	parts := strings.FieldsFunc(word, isSeparator)
	if len(parts) < 2 {
		return nil
	}
	found := x.find(parts[0])
	for _, part := range parts[1:] {
		at := x.find(part)
		found = slices.DeleteFunc(slices.Clone(found), func(p posting) bool {
			return !slices.ContainsFunc(at, func(o posting) bool { return o.knob == p.knob })
		})
	}
	return weigh(found, namePart)
}

// misspelled returns the places of words that are one letter off, or two if they are long.
func (x *index) misspelled(word string) []posting {
	if len(word) < 4 {
		return nil
	}
	stem, isForm := strings.CutSuffix(word, "ing")
	isForm = isForm && len(stem) >= 5
	found := x.collect(func(other string) float64 {
		if max(len(word)-len(other), len(other)-len(word)) <= 2 {
			switch d := Distance(word, other); {
			case d <= 1:
				return oneOff
			case d == 2 && min(len(word), len(other)) >= 8:
				return twoOff
			}
		}
		if isForm && strings.HasPrefix(other, stem) {
			return twoOff
		}
		return 0
	})
	for i := range found {
		found[i].near = true
	}
	return found
}

// collect returns the places of all words, weighed by a factor; 0 leaves a word out.
func (x *index) collect(factor func(word string) float64) []posting {
	var found []posting
	for _, word := range x.singles {
		if f := factor(word); f > 0 {
			found = merge(found, weigh(x.words[word], f))
		}
	}
	return found
}

// phrase returns where a text stands as it is, from the beginning of a word on.
func (x *index) phrase(text string) []posting {
	found := map[string][]posting{}
	for i, all := range x.passages {
		for j, p := range all {
			if beginsIn(p.low, text) {
				put(found, "", posting{knob: i, passage: j, weight: p.weight, word: text})
			}
		}
	}
	return found[""]
}

// beginsIn reports whether a text occurs in another at the beginning of a word.
func beginsIn(all, text string) bool {
	for from := 0; ; {
		at := strings.Index(all[from:], text)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(all[:at])
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return true
		}
		from = at + 1
	}
}

// endings are those of English words that do not change what is meant, none included.
var endings = []string{"", "s", "es", "d", "ed", "n", "ned", "er", "ing", "ning"}

// isFormOf reports whether two words differ by their endings only: pin, pins, pinned, pinning.
func isFormOf(a, b string) bool {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	return same >= 3 && slices.Contains(endings, a[same:]) && slices.Contains(endings, b[same:])
}
