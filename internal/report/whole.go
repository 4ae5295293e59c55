package report

import (
	"strings"

	"mpps/internal/report/words"
	"mpps/internal/setting"
)

// values draws what a value was and is to be: a line each, or of a whole file the lines that differ.
func values(t *Text, indent string, a setting.Address, from, to string) {
	if !a.Kind.Whole() {
		t.Diff(indent, words.Or(from), words.Or(to))
		return
	}
	left := 14 // lines that are drawn
	for _, part := range []struct {
		style Style
		sign  string
		lines []string
	}{{Red, "- ", missing(from, to)}, {Green, "+ ", missing(to, from)}} {
		for i, line := range part.lines {
			if left--; left < 0 {
				t.Line("%s… and %s more (--json has them)", indent, words.Count(len(part.lines)-i, "line"))
				break
			}
			t.Value(part.style, indent+part.sign, line)
		}
	}
}

// missing are the lines of a text that another one has not, each as often as it is missing there.
func missing(text, other string) []string {
	counts := map[string]int{}
	for _, line := range lines(other) {
		counts[line]++
	}
	var missing []string
	for _, line := range lines(text) {
		if counts[line]--; counts[line] < 0 {
			missing = append(missing, line)
		}
	}
	return missing
}

// lines are those of a text; none of one that is absent.
func lines(text string) []string {
	if text == "" || text == setting.Absent.String() {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
