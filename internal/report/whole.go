package report

import (
	"strings"

	"mpps/internal/setting"
)

// maxDiff is how many lines of a whole file's change are drawn.
const maxDiff = 14

// values draws what a value was and is to be: a line each, or of a whole file the lines that differ.
func values(t *Text, indent string, a setting.Address, from, to string) {
	if !a.Kind.Whole() {
		t.Value(Red, indent+"- ", shown(from))
		t.Value(Green, indent+"+ ", shown(to))
		return
	}
	removed, added := lineDiff(lines(from), lines(to))
	left := maxDiff
	for _, part := range []struct {
		style Style
		sign  string
		lines []string
	}{{Red, "- ", removed}, {Green, "+ ", added}} {
		for i, line := range part.lines {
			if left--; left < 0 {
				t.Line("%s… and %s more (--json has them)", indent, count(len(part.lines)-i, "line"))
				break
			}
			t.Value(part.style, indent+part.sign, line)
		}
	}
}

// lines are those of a text; none of one that is absent.
func lines(text string) []string {
	if text == "" || text == setting.Absent.String() {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// lineDiff lists the lines that only the first text has and those that only the second has, each as often as it is so.
func lineDiff(from, to []string) (removed, added []string) {
	counts := map[string]int{}
	for _, line := range to {
		counts[line]++
	}
	for _, line := range from {
		if counts[line]--; counts[line] < 0 {
			removed = append(removed, line)
		}
	}
	counts = map[string]int{}
	for _, line := range from {
		counts[line]++
	}
	for _, line := range to {
		if counts[line]--; counts[line] < 0 {
			added = append(added, line)
		}
	}
	return removed, added
}
