package lookup

import (
	_ "embed"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"mpps/internal/words"
)

// word is a word of a page, a name or a search.
type word struct {
	raw     string // in lower case, as it stands there
	key     string // by which it is compared: the stem, or that of a synonym
	longest int    // most words of a phrase that begins with it; 0: none does
	token   int    // its number in an index, counted from 1; 0 if it is in none
}

// readWords returns the words of a text. A name with dots, slashes, dashes or underscores is one word, and so is the
// option -g. Numbers that the table of synonyms does not know, masks and names of devices are no words. Words that mean
// the same have the same key.
func readWords(text string) []*word { return newReader().words(punctuation.Replace(text)) }

// reader reads many texts and remembers the words that it has read.
type reader struct {
	known    map[string]*word
	replaced map[[2]string]*word // by raw and key
	all, out []*word             // of the last text
}

func newReader() *reader { return &reader{known: map[string]*word{}, replaced: map[[2]string]*word{}} }

// words returns the words of a text, until the next one is read. Its quotation marks and dashes are those of ASCII.
func (r *reader) words(text string) []*word {
	r.all, r.out = r.all[:0], r.out[:0]
	for raw := range split(text) {
		w, known := r.known[raw]
		if !known {
			w = wordOf(raw)
			r.known[raw] = w
		}
		if w != nil {
			r.all = append(r.all, w)
		}
	}
	r.replaceSynonyms()
	return r.out
}

// wordOf returns the word of a name, nil for numbers, masks and devices.
func wordOf(raw string) *word {
	key := raw
	if len(raw) != 2 || raw[0] != '-' || !unicode.IsLetter(rune(raw[1])) {
		raw = strings.TrimPrefix(strings.Trim(raw, "-./_"), "proc/sys/")
		if name, pid, is := strings.Cut(raw, "-"); is && len(pid) > 2 && strings.Trim(pid, "0123456789") == "" {
			raw = name // a thread and its process: vhost of vhost-2345
		}
		if number, is := strings.CutSuffix(raw, "pps"); is && strings.Trim(number, "0123456789.km") == "" {
			raw = "pps" // of 300kpps
		}
		key = keyOf(raw)
		if !strings.ContainsFunc(key, unicode.IsLetter) && synonyms().longest[key] == 0 {
			return nil
		}
		if isOfOneHost(raw) {
			if raw = kindOf(raw); raw == "" {
				return nil
			}
			key = stem(raw)
		}
	}
	return &word{raw: raw, key: key, longest: synonyms().longest[key]}
}

// keyOf returns the key of a name. In a path, devices, masks and numbers do not count.
func keyOf(name string) string {
	if strings.Contains(name, "/") {
		parts := strings.Split(name, "/")
		name = strings.Join(slices.DeleteFunc(parts, func(part string) bool {
			return part == "" || isOfOneHost(part) || !strings.ContainsFunc(part, unicode.IsLetter)
		}), "/")
	}
	return stem(join(name))
}

// isInstance matches names that differ from host to host: devices, bit masks, guests such as vm1.
var isInstance = regexp.MustCompile(`^((eth|ens|enp|eno|enx|em|p\dp|vnet|tap|veth|br|virbr|vmbr|bond|team|wlan|ib|` +
	`hostnet|net|vm|web|guest|node|cpu|tx-|rx-|input|dpdk|vhu|fwbr|fwln|fwpr|macvtap|qvo|qbr)\d[\w.:-]*|0x[0-9a-f]+|f+[0-9ef]*)$`)

// isOfOneHost reports whether a name is that of a device, or a mask.
func isOfOneHost(name string) bool {
	return (strings.ContainsAny(name, "0123456789") || name[0] == 'f') && isInstance.MatchString(name)
}

// kindOf returns the kind of device by its name: tap of vnet0; empty if unknown.
func kindOf(name string) string {
	switch name[:max(0, strings.IndexAny(name, "0123456789"))] {
	case "vnet", "tap":
		return "tap"
	case "macvtap":
		return "macvtap"
	}
	return ""
}

// punctuation replaces typographic quotation marks and dashes.
var punctuation = strings.NewReplacer("‘", " ", "’", " ", "“", " ", "”", " ", "–", "-", "—", " ", "−", "-")

// split cuts a text in lower case into names. Chinese is cut into the longest words of the table of synonyms
// and, between these, into pairs of characters.
func split(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for field := range strings.FieldsFuncSeq(strings.ToLower(text), isBetween) {
			cut := 0 // bytes of the field that the last word had too
			for len(field) > 0 {
				end, step := strings.IndexFunc(field, isHan), 0
				switch end {
				case -1:
					end = len(field)
					step = end
				case 0:
					end, step = hanWord(field)
				default:
					step = end
				}
				if end > cut && !yield(field[:end]) {
					return
				}
				cut, field = end-step, field[step:]
			}
		}
	}
}

// isBetween reports whether a letter stands between names.
func isBetween(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9', '-' <= r && r <= '/', r == '_': // - . /
		return false
	case r < unicode.MaxASCII:
		return true
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func isHan(r rune) bool { return r > unicode.MaxLatin1 && unicode.Is(unicode.Han, r) }

// hanWord returns the length in bytes of the first word of a Chinese text, and the offset of the next word: the longest
// word of the table, or else a pair of characters, whose second one also begins the next word, or a single character
// before a word of the table.
func hanWord(text string) (length, step int) {
	if length = knownHan(text); length > 0 {
		return length, length
	}
	_, first := utf8.DecodeRuneInString(text)
	second, size := utf8.DecodeRuneInString(text[first:])
	if isHan(second) && knownHan(text[first:]) == 0 {
		return first + size, first
	}
	return first, first
}

// longestHan is the most bytes of a Chinese phrase in the table.
const longestHan = 24

// knownHan returns the length in bytes of the longest phrase of the table that a text begins with.
func knownHan(text string) int {
	end, length := 0, 0
	for end < len(text) && end < longestHan {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
		if synonyms().han[text[:end]] {
			length = end
		}
	}
	return length
}

// joinHan returns a text without the spaces between Chinese words: a phrase of the table may be typed with them.
func joinHan(text string) string {
	var out strings.Builder
	last := ' '
	for field := range strings.FieldsSeq(text) {
		if first, _ := utf8.DecodeRuneInString(field); !isHan(last) || !isHan(first) {
			out.WriteByte(' ')
		}
		out.WriteString(field)
		last, _ = utf8.DecodeLastRuneInString(field)
	}
	return out.String()
}

func isSeparator(r rune) bool { return r == '_' || r == '-' || r == '.' || r == '/' || r == ' ' }

// join returns a name without its separators: kvmclock of kvm-clock.
func join(name string) string {
	return strings.Map(func(r rune) rune { return words.Either(isSeparator(r), -1, r) }, name)
}

// stem returns a word without its inflection: pin of pinned, pins and pinning. A stem is compared only with other
// stems; it need not be a word.
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
	keys    map[string]string   // the keys of a phrase, with spaces between → the key that stands for it
	longest map[string]int      // the key of a first word → the most words of a phrase that begins with it
	han     map[string]bool     // Chinese phrases
	long    map[string][]string // words of five letters and more, which can be misspelled → the keys of their phrases
}

// synonyms reads the table: a line is "word = phrase, phrase".
var synonyms = sync.OnceValue(readSynonyms)

func readSynonyms() synonymTable {
	t := synonymTable{keys: map[string]string{}, longest: map[string]int{}, han: map[string]bool{},
		long: map[string][]string{}}
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
	for _, phrase := range slices.Sorted(maps.Keys(t.keys)) {
		parts := strings.Fields(t.keys[phrase]) // may be several words: "page cache"
		for i, part := range parts {
			parts[i] = stem(join(part))
		}
		t.keys[phrase] = strings.Join(parts, " ")
		first, _, _ := strings.Cut(phrase, " ")
		t.longest[first] = max(t.longest[first], 1+strings.Count(phrase, " "))
		for word := range strings.FieldsSeq(phrase) {
			if len(word) >= 5 && !strings.ContainsFunc(word, isHan) {
				t.long[word] = append(t.long[word], parts...)
			}
		}
	}
	return t
}

// replaceSynonyms replaces phrases, the longest first, by the words that stand for them.
func (r *reader) replaceSynonyms() {
	table := synonyms()
	for rest := r.all; len(rest) > 0; {
		to, n := table.replacement(rest)
		if n == 0 {
			r.out = append(r.out, rest[0])
			n = 1
		}
		for _, key := range to {
			r.out = append(r.out, r.replacement(rest[0].raw, key))
		}
		rest = rest[n:]
	}
}

// replacement returns the word with a key that replaces what stands there.
func (r *reader) replacement(raw, key string) *word {
	w, known := r.replaced[[2]string{raw, key}]
	if !known {
		w = &word{raw: raw, key: key}
		r.replaced[[2]string{raw, key}] = w
	}
	return w
}

// longestPhrase is the most words of a phrase in the table.
const longestPhrase = 8

// replacement returns the keys for the longest phrase that words begin with, and how many words it has; none and 0 if
// they begin with no phrase.
func (t synonymTable) replacement(all []*word) (to []string, n int) {
	var keys [longestPhrase]string
	for n := min(all[0].longest, len(all)); n > 0; n-- {
		for i, w := range all[:n] {
			keys[i] = w.key
		}
		if to, found := t.keys[strings.Join(keys[:n], " ")]; found {
			return strings.Fields(to), n
		}
	}
	return nil, 0
}
