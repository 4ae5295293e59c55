package lookup

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/docs/advice"
	"mpps/internal/advise/knob"
	"mpps/internal/must"
)

// listed is a search and the answers of which one is expected first.
type listed struct {
	text string
	want []string
}

// readList returns the searches of a list: "ID|ID | TEXT", with "-" for an ID where nothing may be found.
func readList(t *testing.T, name string) []listed {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/" + name))(t)
	var all []listed
	for line := range strings.Lines(string(text)) {
		if want, what, found := strings.Cut(strings.TrimSpace(line), " | "); found && line[0] != '#' {
			all = append(all, listed{what, strings.Split(want, "|")})
		}
	}
	return all
}

// TestLists asks all lists. Of the first two the rule was developed on every other line; the lines between only measure
// it, so that one figure says what was built and the other what a stranger finds. Of the last six it
// was developed on all.
func TestLists(t *testing.T) {
	for _, list := range []struct {
		name                 string
		developed, unseen, n int // least that find their answer first; lines
	}{{"queries.txt", 102, 101, 203}, {"commands.txt", 58, 57, 115}, {"articles.txt", 82, 82, 164},
		{"founding.txt", 131, 130, 261}, {"symptoms.txt", 113, 110, 229}, {"pasted.txt", 32, 32, 64},
		{"pasted_first.txt", 78, 73, 159}, {"guides.txt", 78, 77, 155}} {
		all := readList(t, list.name)
		right := [2]int{}
		for i, a := range all {
			hits := Search(a.text)
			if len(hits) > 0 && slices.Contains(a.want, hits[0].ID) || len(hits) == 0 && a.want[0] == "-" {
				right[i%2]++
			} else {
				t.Logf("%s: %q finds %v, expected %v", list.name, a.text, ids(hits), a.want)
			}
		}
		t.Logf("%s: developed on %d of %d, measured only %d of %d", list.name, right[0], (len(all)+1)/2, right[1], len(all)/2)
		must.Hold(t, right[0] >= list.developed && right[1] >= list.unseen && len(all) == list.n,
			"%s: %v right of %d", list.name, right, len(all))
	}
}

func ids(hits []Hit) []string {
	var all []string
	for _, h := range hits[:min(3, len(hits))] {
		all = append(all, h.ID)
	}
	return all
}

// BenchmarkSearch measures a search, the index of the catalogue left out.
func BenchmarkSearch(b *testing.B) {
	for b.Loop() {
		Search("sudo ethtool -G ens3f0 rx 4096 tx 4096 && sysctl -w net.core.nosuchvalue=1")
	}
}

// TestAdvice: every page parses, and every entry has a unique name, a text, and only references that exist.
func TestAdvice(t *testing.T) {
	n := 0
	for _, page := range advice.Pages() {
		entries, err := parseAdvice(page)
		must.Hold(t, err == nil && len(entries) != 0, "%d entries: %v", len(entries), err)
		n += len(entries)
	}
	seen := map[string]bool{}
	for _, e := range Advice() {
		must.Hold(t, !seen[e.ID] && strings.HasPrefix(e.ID, advicePrefix) && len(e.Names) != 0,
			"%q stands twice, or has a wrong ID or no name", e.ID)
		seen[e.ID] = true
		if hits := Search(e.Names[0]); len(hits) == 0 || hits[0].ID != e.ID {
			t.Errorf("%q does not find %s first but %v", e.Names[0], e.ID, ids(hits))
		}
	}
	for _, e := range Advice() {
		title, answer := e.Chinese()
		must.Hold(t, title != "" && answer != "", "%s has no title or no answer in Chinese", e.ID)
		for _, id := range aName.FindAllString(e.NotHere+" "+e.Instead+" "+answer, -1) {
			if knob.Find(id) == nil && !seen[id] {
				t.Errorf("%s speaks of %s, which there is not", e.ID, id)
			}
		}
	}
	must.Hold(t, n == len(seen) && n >= 60, "%d entries, %d of them different", n, len(seen))
	for id := range knobNames() {
		must.Hold(t, knob.Find(id) != nil, "names.txt: there is no knob %s", id)
	}
}

// TestIndexIsCheap: each process makes the index for one answer, within 20 ms. Memory tells what time would, and is the
// same on each machine.
func TestIndexIsCheap(t *testing.T) {
	if n := testing.AllocsPerRun(3, func() { build() }); n > 40_000 {
		t.Errorf("the index is made in %.0f allocations, which takes too long", n)
	}
}

// TestSynonyms: a phrase of the table fits into what is compared, and stands there once.
func TestSynonyms(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(synonymText) {
		_, all, found := strings.Cut(strings.TrimSpace(line), " = ")
		must.Hold(t, found != strings.HasPrefix(line, "#"), "%q is no line of the table", line)
		for phrase := range strings.SplitSeq(all, ", ") {
			if seen[phrase] && found {
				t.Errorf("%q stands twice", phrase)
			}
			seen[phrase] = true
			han := strings.ContainsFunc(phrase, isHan)
			if len(strings.Fields(phrase)) > longestPhrase || han && len(phrase) > longestHan {
				t.Errorf("%q is too long", phrase)
			}
		}
	}
}

// aName matches IDs of knobs and of advice.
var aName = regexp.MustCompile(`\b(advice|boot|bridge|cpu|domain|firmware|guest|kernel|kvm|memory|netfilter|nic|overlay|` +
	`ovs|pci|placement|route|rt|softirq|sriov|vhost)\.[a-z][a-z0-9_.]*[a-z0-9]`)

// TestNearest: where nothing is found, words are offered that find something.
func TestNearest(t *testing.T) {
	for _, text := range []string{"qqqqzzzz", "completely-other-word", "网", "12345 67890", "zzzz qqqq"} {
		found := Find(text)
		if len(found.Hits) == 0 && len(found.Nearest) == 0 {
			t.Errorf("%q finds nothing and offers nothing", text)
		}
		for _, word := range found.Nearest {
			must.Hold(t, len(Search(word)) != 0, "%q is offered for %q and finds nothing", word, text)
		}
	}
}
