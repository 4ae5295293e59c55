package knob

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// passage is a part of a knob's prose, also in lower case.
type passage struct {
	field      string
	weight     float64
	prose, low string
}

// What a word weighs by where it stands. Traps weigh more than other prose: people search for advice that they have
// read somewhere, and a trap says what is wrong with it.
const (
	weightID     = 3
	weightValue  = 2.5
	weightTitle  = 2.5
	weightWanted = 1.5
	weightTrap   = 1.2
	weightWhy    = 1
	weightVerify = 0.8
	weightCost   = 0.7
	weightSource = 0.5
)

// What a word weighs that is not quite the one searched for.
const (
	kindred  = 0.9 // another form of the word, or another word for the same
	lastPart = 0.95
	namePart = 0.7 // a part of a name: budget of netdev_budget, vcpu of vcpupin
	inside   = 0.5
	again    = 0.1 // what another passage with the word adds
	oneOff   = 0.6 // misspelled by a letter
	twoOff   = 0.45
)

// synonyms are words of the field that mean the same. Pages have one of them.
var synonyms = [][]string{
	{"multiqueue", "multi-queue", "queues"},
	{"hyperthreading", "hyper-threading", "ht", "smt"},
	{"tso", "gso", "segmentation"},
	{"smp_affinity", "smp_affinity_list", "irq_affinity"},
	{"drop", "drops", "dropped", "lost", "loss", "missed"},
}

// posting is the best place of a word at a knob.
type posting struct {
	knob, passage int
	weight        float64
	word          string // as it stands there
	near          bool   // spelled otherwise than what is searched for
}

// index finds the places of words.
type index struct {
	knobs    []*Knob
	passages [][]passage          // of each knob
	words    map[string][]posting // and pairs of words; one for each knob, in their order
	joined   map[string][]string  // words without their separators → words
	names    map[string][]posting // parts of the IDs

	// the keys of words that are not pairs, of joined and of names, sorted: order counts where weights are added up
	singles, plain, parts []string
}

// searchIndex returns the index of the catalogue.
var searchIndex = sync.OnceValue(func() *index {
	x := &index{knobs: Catalogue(), words: map[string][]posting{}, joined: map[string][]string{},
		names: map[string][]posting{}}
	for i, k := range x.knobs {
		x.passages = append(x.passages, passagesOf(k))
		for _, part := range strings.FieldsFunc(k.ID, isSeparator) {
			put(x.names, part, posting{knob: i, weight: weightID, word: part})
		}
		for j, p := range x.passages[i] {
			x.addPassage(i, j, p)
		}
	}
	for _, alike := range synonyms {
		all := map[string][]posting{}
		for _, word := range alike {
			all[word] = x.words[word]
		}
		for _, word := range alike {
			for _, other := range alike {
				x.words[word] = merge(x.words[word], weigh(all[other], kindred))
			}
		}
	}
	for word := range x.words {
		plain := join(word)
		x.joined[plain] = append(x.joined[plain], word)
	}
	for _, alike := range x.joined {
		slices.Sort(alike)
	}
	x.plain, x.parts = slices.Sorted(maps.Keys(x.joined)), slices.Sorted(maps.Keys(x.names))
	x.singles = slices.DeleteFunc(slices.Sorted(maps.Keys(x.words)),
		func(word string) bool { return strings.Contains(word, " ") })
	return x
})

// addPassage adds the words of a passage, their parts, and pairs of words.
func (x *index) addPassage(knob, at int, p passage) {
	words := searchWords(p.low)
	for i, word := range words {
		add := func(text string, weight float64) {
			put(x.words, text, posting{knob: knob, passage: at, weight: weight, word: word})
		}
		add(word, p.weight)
		if parts := strings.FieldsFunc(word, isSeparator); len(parts) > 1 {
			for _, part := range parts {
				add(part, p.weight*namePart)
			}
			add(lastName(word), p.weight*lastPart)
		}
		if i+1 < len(words) {
			add(pair(word, words[i+1]), p.weight)
		}
	}
}

// put adds a posting, or keeps the better one of its knob, which is the last. That one gains a share of the other's
// weight if it stands in another passage.
func put(into map[string][]posting, word string, p posting) {
	all := into[word]
	last := len(all) - 1
	if last < 0 || all[last].knob != p.knob {
		into[word] = append(all, p)
		return
	}
	other := all[last]
	if other.better(p) {
		p, other = other, p
	}
	if p.passage != other.passage {
		p.weight += again * other.weight
	}
	all[last] = p
}

// better reports whether a posting is to be shown rather than another one of its knob.
func (p posting) better(o posting) bool {
	return cmp.Or(cmp.Compare(o.weight, p.weight), cmp.Compare(p.passage, o.passage), cmp.Compare(p.word, o.word)) < 0
}

// merge returns the better posting of each knob.
func merge(a, b []posting) []posting {
	all := map[string][]posting{}
	both := slices.Concat(a, b)
	slices.SortStableFunc(both, func(a, b posting) int { return a.knob - b.knob })
	for _, p := range both {
		put(all, "", p)
	}
	return all[""]
}

// weigh returns postings with their weight times a factor.
func weigh(all []posting, factor float64) []posting {
	all = slices.Clone(all)
	for i := range all {
		all[i].weight *= factor
	}
	return all
}

func pair(a, b string) string { return a + " " + b }

func isSeparator(r rune) bool { return strings.ContainsRune("_-./ ", r) }

// join returns a word without its separators: kvmclock of kvm-clock.
func join(word string) string { return strings.Join(strings.FieldsFunc(word, isSeparator), "") }

// lastName returns the name behind the last dot or slash: halt_poll_ns of kvm.halt_poll_ns.
func lastName(word string) string { return word[strings.LastIndexAny(word, "./")+1:] }

// passagesOf returns the prose of a knob.
func passagesOf(k *Knob) []passage {
	var all []passage
	add := func(field string, weight float64, prose string) {
		all = append(all, passage{field, weight, prose, strings.ToLower(prose)})
	}
	add("id", weightID, k.ID)
	for _, v := range k.Values() {
		add("value", weightValue, v.Address+" "+strings.ReplaceAll(v.Address, "/", ".")) // MODULE.PARAMETER too
	}
	add("title", weightTitle, k.Title)
	doc := k.Doc()
	for _, trap := range doc.Traps {
		add("trap", weightTrap, trap)
	}
	add("wanted", weightWanted, doc.Want)
	add("why", weightWhy, doc.Why)
	add("cost", weightCost, doc.Cost)
	add("verify", weightVerify, doc.Verify)
	for _, s := range doc.Sources {
		add("source", weightSource, s.Fact+": "+s.Where)
	}
	return all
}
