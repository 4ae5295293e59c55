package lookup

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// word is a word of a page, a name or a search.
type word struct {
	raw string // in lower case, as it stands there
	key string // what it is compared by
}

// words returns the words of a text. A name with dots, slashes, dashes or underscores is one word, and so is the option
// -g. Numbers, masks and names of devices are no words. Words that mean the same have the same key.
func words(text string) []word {
	var all []word
	for _, raw := range split(text) {
		option := len(raw) == 2 && raw[0] == '-' && unicode.IsLetter(rune(raw[1]))
		if option {
			all = append(all, word{raw, raw})
			continue
		}
		raw = strings.TrimPrefix(strings.Trim(raw, "-./_"), "proc/sys/")
		if key := stem(join(raw)); strings.ContainsFunc(key, unicode.IsLetter) && !isOfOneHost(raw) {
			all = append(all, word{raw, key})
		}
	}
	return replaceSynonyms(all)
}

// isInstance matches what is another on every host: devices, bit masks, and MODULE@NUMBER and vm1 and their like.
var isInstance = regexp.MustCompile(`^((eth|ens|enp|eno|enx|em|p\dp|vnet|tap|veth|br|virbr|vmbr|bond|team|wlan|ib|` +
	`hostnet|net|vm|web|guest|node|cpu|tx-|rx-|input)\d[\w.:-]*|0x[0-9a-f]+|f+[0-9ef]*)$`)

// isOfOneHost reports whether a name is that of a device, or a mask.
func isOfOneHost(name string) bool {
	return (strings.ContainsAny(name, "0123456789") || name[0] == 'f') && isInstance.MatchString(name)
}

// punctuation replaces what word processors make of quotation marks and dashes.
var punctuation = strings.NewReplacer("‘", " ", "’", " ", "“", " ", "”", " ", "–", "-", "—", " ", "−", "-")

// split cuts a text in lower case into names. Chinese is cut into the longest words of the table of synonyms.
func split(text string) []string {
	var all []string
	for _, field := range strings.FieldsFunc(punctuation.Replace(strings.ToLower(text)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./", r)
	}) {
		from := 0
		for from < len(field) {
			rest := field[from:]
			end := strings.IndexFunc(rest, isHan)
			switch end {
			case -1:
				end = len(rest)
			case 0:
				end = hanWord(rest)
			}
			all = append(all, rest[:end])
			from += end
		}
	}
	return all
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

// hanWord returns the length in bytes of the longest known word that a text begins with, or of its first character.
func hanWord(text string) int {
	length := len(string([]rune(text)[:1]))
	for han := range synonyms().han {
		if strings.HasPrefix(text, han) {
			length = max(length, len(han))
		}
	}
	return length
}

func isSeparator(r rune) bool { return strings.ContainsRune("_-./ ", r) }

// join returns a name without its separators: kvmclock of kvm-clock.
func join(name string) string { return strings.Join(strings.FieldsFunc(name, isSeparator), "") }

// stem returns a word without the ending that does not change what is meant: pin of pinned, pins and pinning. It need
// not be a word: it is compared with other stems only.
func stem(name string) string {
	for _, end := range []string{"ing", "ed"} {
		if len(name) >= len(end)+4 {
			name = strings.TrimSuffix(name, end)
		}
	}
	if before, is := strings.CutSuffix(name, "s"); is && len(name) > 3 && !strings.HasSuffix(before, "s") &&
		!strings.HasSuffix(before, "u") {
		name = before
	}
	if len(name) > 4 {
		name = strings.TrimSuffix(name, "e")
	}
	if n := len(name); n > 3 && name[n-1] == name[n-2] && unicode.IsLetter(rune(name[n-1])) {
		name = name[:n-1]
	}
	return name
}

//go:embed synonyms.txt
var synonymText string

// synonymTable says which words mean the same.
type synonymTable struct {
	keys map[string]string // the keys of a phrase, with spaces between → the key that stands for it
	han  map[string]bool   // Chinese phrases
	long []string          // single words of five letters and more, which can be misspelled
}

// maxPhrase is the most words of a phrase in the table.
const maxPhrase = 4

// synonyms reads the table: a line is "word = phrase, phrase".
var synonyms = sync.OnceValue(func() synonymTable {
	t := synonymTable{keys: map[string]string{}, han: map[string]bool{}}
	for line := range strings.Lines(synonymText) {
		to, all, found := strings.Cut(strings.TrimSpace(line), " = ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		for phrase := range strings.SplitSeq(all, ", ") {
			if strings.ContainsFunc(phrase, isHan) {
				t.han[phrase] = true
				t.keys[phrase] = to
				continue
			}
			parts := strings.Fields(strings.ToLower(phrase))
			for i, part := range parts {
				parts[i] = stem(join(part))
			}
			t.keys[strings.Join(parts, " ")] = to
		}
	}
	for phrase, to := range t.keys { // what a phrase stands for may be several words: "page cache"
		parts := strings.Fields(to)
		for i, part := range parts {
			parts[i] = stem(join(part))
		}
		t.keys[phrase] = strings.Join(parts, " ")
		if len(phrase) >= 5 && !strings.ContainsFunc(phrase, isHan) && !strings.Contains(phrase, " ") {
			t.long = append(t.long, phrase)
		}
	}
	slices.Sort(t.long)
	return t
})

// replaceSynonyms replaces phrases, the longest first, by the words that stand for them.
func replaceSynonyms(all []word) []word {
	table := synonyms()
	var out []word
	for i := 0; i < len(all); {
		n := min(maxPhrase, len(all)-i)
		for ; n > 0; n-- {
			keys := make([]string, n)
			for j := range keys {
				keys[j] = all[i+j].key
			}
			if to, found := table.keys[strings.Join(keys, " ")]; found {
				for _, key := range strings.Fields(to) {
					out = append(out, word{all[i].raw, key})
				}
				break
			}
		}
		if n == 0 {
			out = append(out, all[i])
			n = 1
		}
		i += n
	}
	return out
}
