package lookup

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"mpps/internal/words"
)

// how is the way in which a word was found.
type how int

const (
	named   how = iota // in an ID, a value, a title or a name, as it is or by its parts
	said               // in prose only
	guessed            // as a part of another word, or misspelled
)

// find returns the places of a word, the best one of each document, and how it was found: the whole word, or else the
// parts of a path, the setting at the end of a name, all parts of the name, the word in prose, words that contain it,
// or words with a similar spelling.
func (x *index) find(w *word) ([]posting, how) {
	if found := x.places(w.key); len(found) > 0 {
		return found, named
	}
	if strings.Contains(w.raw, "/") {
		return x.findPath(w.raw), named
	}
	if last := lastName(w.raw); last != w.raw && len(last) >= leastPart {
		if found := x.findAny(last); len(found) > 0 {
			return found, named
		}
	}
	if found := x.findParts(w.raw); len(found) > 0 {
		return found, named
	}
	if at := aVersion.FindStringIndex(w.raw); at != nil {
		if found := x.findAny(w.raw[:at[0]]); len(found) > 0 {
			return found, named
		}
	}
	if found := x.inProse(w); len(found) > 0 {
		return found, said
	}
	if len(w.raw) < leastNear || len(w.key) < leastNear-1 {
		return nil, guessed
	}
	if found := x.collect(func(key string) float64 {
		return words.Either(strings.Contains(key, w.key), inside, 0.0)
	}); len(found) > 0 {
		return found, guessed
	}
	if found := x.misspelled(w); len(found) > 0 {
		return found, guessed
	}
	return x.ownParts(w.raw), guessed
}

const (
	leastPart = 3 // fewest letters of the last part of a name that is searched for alone: not io of crio.io
	leastNear = 5 // fewest letters of a word that may be misspelled: rice is neither RoCE nor ice
)

// aVersion matches the version at the end of a package's name: linux-image-5.10.0-28-amd64.
var aVersion = regexp.MustCompile(`-v?[0-9]+[.][0-9].*$`)

// ownParts returns the documents whose ID ends with a part of an unknown name: domain.hugepages of
// vm.nr_overcommit_hugepages.
func (x *index) ownParts(name string) []posting {
	var found []posting
	for part := range strings.FieldsFuncSeq(name, isSeparator) {
		key := stem(part)
		if len(part) < leastNear || part == name || emptyWords[key] || frameWords[key] || x.isFamily(part) {
			continue
		}
		found = merge(found, slices.DeleteFunc(x.places(key), func(p posting) bool {
			return keyOf(lastName(x.documents[p.document].id)) != key
		}))
	}
	return markNear(weigh(found, namePart))
}

// isFamily reports whether a word is the first one of IDs.
func (x *index) isFamily(name string) bool {
	return slices.ContainsFunc(x.documents, func(d document) bool { return strings.HasPrefix(d.id, name+".") })
}

// markNear marks postings as found by a similar word.
func markNear(all []posting) []posting {
	for i := range all {
		all[i].near = true
	}
	return all
}

// findAny returns the places of the words of a text, added up.
func (x *index) findAny(text string) []posting {
	var found []posting
	for _, w := range readWords(text) {
		found = merge(found, x.places(w.key))
	}
	return found
}

// findPath returns the places of the parts of a path, weighed by how rare they are; the last part counts in full, those
// before it less.
func (x *index) findPath(path string) []posting {
	var found []posting
	parts := strings.Split(path, "/")
	for i, part := range parts {
		for _, w := range readWords(part) {
			at := x.places(w.key)
			if len(at) == 0 || isEmpty(w) {
				continue
			}
			share := x.tells(len(at)) / 5 * words.Either(i == len(parts)-1, 1.0, namePart)
			found = sum(found, weigh(at, share))
		}
	}
	return found
}

// findParts returns the documents that have all parts of a name.
func (x *index) findParts(name string) []posting {
	parts := strings.FieldsFunc(name, isSeparator)
	if len(parts) < 2 {
		return nil
	}
	found := x.findAny(parts[0])
	for _, part := range parts[1:] {
		at := x.findAny(part)
		found = slices.DeleteFunc(slices.Clone(found), func(p posting) bool {
			return !slices.ContainsFunc(at, func(o posting) bool { return o.document == p.document })
		})
	}
	return weigh(found, namePart)
}

// misspelled returns the places of words that are one letter off, or two if they are long. A word with digits is a
// name.
func (x *index) misspelled(w *word) []posting {
	if strings.ContainsFunc(w.raw, unicode.IsDigit) {
		return nil
	}
	found := x.collect(func(key string) float64 {
		if len(w.key) < leastNear || abs(len(w.key)-len(key)) > 2 || key[0] == '-' {
			return 0
		}
		switch d := words.Distance(w.key, key); {
		case d <= 1:
			return oneOff
		case d == 2 && min(len(w.key), len(key)) >= 8:
			return twoOff
		}
		return 0
	})
	long := synonyms().long
	for _, other := range slices.Sorted(maps.Keys(long)) {
		if abs(len(w.key)-len(other)) > 2 || words.Distance(w.key, other) > words.Either(len(other) >= 8, 2, 1) {
			continue
		}
		for _, key := range long[other] {
			found = merge(found, weigh(x.places(key), oneOff))
		}
	}
	return markNear(found)
}

// collect returns the places of all words, weighed by a factor; 0 leaves a word out.
func (x *index) collect(factor func(key string) float64) []posting {
	var found []posting
	for _, key := range x.keys {
		if f := factor(key.text); f > 0 {
			found = merge(found, weigh(x.places(key.text), f))
		}
	}
	return found
}

// merge returns the better posting of each document.
func merge(a, b []posting) []posting {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b posting) int {
		return cmp.Or(cmp.Compare(a.document, b.document), cmp.Compare(b.weight, a.weight))
	})
	return slices.CompactFunc(all, func(a, b posting) bool { return a.document == b.document })
}

// sum returns the postings of each document as one, with their weights added up.
func sum(a, b []posting) []posting {
	all := map[int]posting{}
	for _, p := range slices.Concat(a, b) {
		o, there := all[p.document]
		if !there {
			all[p.document] = p
			continue
		}
		total := o.weight + p.weight
		if p.weight > o.weight {
			o = p
		}
		o.weight = total
		all[p.document] = o
	}
	var found []posting
	for _, p := range slices.Concat(a, b) {
		if best, there := all[p.document]; there {
			found = append(found, best)
			delete(all, p.document)
		}
	}
	slices.SortFunc(found, func(a, b posting) int { return a.document - b.document })
	return found
}

// weigh returns postings with their weight times a factor.
func weigh(all []posting, factor float64) []posting {
	all = slices.Clone(all)
	for i := range all {
		all[i].weight *= factor
	}
	return all
}

func abs(n int) int { return max(n, -n) }

// emptyWords do not distinguish documents.
var emptyWords = stems(`
	a an and any are at been best better by can cannot cat could couldn dev did didn do does doesn don each echo
	enable ever every few for from get gets good got grep guide had happens has have help high host how i id if
	improve in increase into is isn it just keeps kvm linux makes many me minutes my name never no not of off on
	only optimization optimize options or our performance please proxmox qemu s see seems set setting should show
	shows slow some sudo sysctl sysctlconf t tee than that the their then there they this to too tuning type
	use using versus very virsh vs want was we were what when which why will with won yes yesterday you`)

// frameWords surround settings, or are their values: they count only if no word between them does. programWords are
// programs that serve one thing, which the settings around them are about.
var (
	frameWords = stems(`allow auto default device disable disabled enabled ethtool false feature hw mode name nova pci
		pvesh qm required service start state stop systemctl true ` + programs)
	programWords = stems(programs)

	// plainWords are said of anything: they count only together with other words of a name.
	plainWords = stems(`apt apt-get dnf yum zypper install installation list write create query select users user
		table file log size password reset status error invalid failed cannot find`)
)

const programs = "open_vswitch other_config ovs-vsctl"

func stems(text string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(text) {
		all[stem(join(w))] = true
	}
	return all
}

// areEmpty reports whether all words are empty.
func areEmpty(all []*word) bool {
	return !slices.ContainsFunc(all, func(w *word) bool { return !isEmpty(w) })
}

// isEmpty reports whether a word does not distinguish documents.
func isEmpty(w *word) bool { return emptyWords[w.key] || w.raw == "-w" || w.raw == "-i" }

// nearestWords is the number of words that Nearest offers.
const nearestWords = 5

// offered returns the words of IDs and names, options left out.
func (x *index) offered() map[string]bool {
	all := map[string]bool{}
	for _, p := range x.passages {
		field := x.documents[p.document].passages[p.passage].field
		for _, token := range x.text[p.from:p.to] {
			if raw := x.tokens[token].raw; (field == "name" || field == "id") && raw[0] != '-' {
				all[raw] = true
			}
		}
	}
	return all
}

// Nearest returns the words of IDs and names that are spelled most like those of a text.
func Nearest(text string) []string {
	x := catalogue()
	type near struct {
		raw string
		off float64 // letters off, as a share of the longer one
	}
	var all []near
	offered := x.offered()
	for asked := range split(punctuation.Replace(text[:min(maxSearch, len(text))])) {
		for raw := range offered {
			// A Chinese character is a word: it has no similar spelling.
			if !strings.ContainsFunc(asked+raw, isHan) {
				off := float64(words.Distance(asked, raw)) / float64(max(len(asked), len(raw)))
				all = append(all, near{raw, off})
			}
		}
	}
	slices.SortFunc(all, func(a, b near) int { return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.raw, b.raw)) })
	var found []string
	for _, n := range all {
		if !slices.Contains(found, n.raw) {
			found = append(found, n.raw)
		}
		if len(found) == nearestWords {
			break
		}
	}
	return found
}
