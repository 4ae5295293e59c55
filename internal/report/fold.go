package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Few lists the first of what is alike.
func Few(all []string, most int) string {
	n := fold(len(all), most, false)
	return strings.Join(all[:n], ", ") + words.If(n < len(all), ", and %d more", len(all)-n)
}

// folded is a change from one value to another one, at one address or at several.
type folded struct {
	plan.Change
	where string
}

// foldChanges puts together changes between the same two values whose addresses differ in one number, as those of all
// CPUs do: cpu{0-63}. Texts, of which a change shows the lines that differ, stay apart.
func foldChanges(changes []plan.Change) []folded {
	type key struct{ shape, from, to, owners string }
	var all []folded
	for _, group := range Group(changes, func(c plan.Change) key {
		return key{digits.ReplaceAllString(c.Address.String(), "#"), c.From.String(), c.To.String(),
			strings.Join(c.Owners, "\n")}
	}) {
		all = append(all, foldNumber(group)...)
	}
	at := map[setting.Address]int{}
	for i, c := range changes {
		at[c.Address] = i
	}
	slices.SortStableFunc(all, func(a, b folded) int { return at[a.Address] - at[b.Address] })
	return all
}

var digits = regexp.MustCompile(`[0-9]+`)

// split splits an address at its nth number. lists reports whether such numbers can be listed: those next to a colon
// are parts of MAC and PCI addresses or PIDs, and leading zeros would be lost.
func split(c plan.Change, n int) (before, middle, after string, lists bool) {
	text := c.Address.String()
	at := digits.FindAllStringIndex(text, -1)[n]
	before, middle, after = text[:at[0]], text[at[0]:at[1]], text[at[1]:]
	value, err := strconv.Atoi(middle)
	lists = err == nil && strconv.Itoa(value) == middle && !strings.HasSuffix(before, ":") &&
		!strings.HasPrefix(after, ":") && !c.Address.Kind.IsText()
	return before, middle, after, lists
}

// foldNumber folds changes whose addresses differ in numbers alone by that number which leaves the fewest.
func foldNumber(alike []plan.Change) []folded {
	best := Group(alike, func(c plan.Change) string { return c.Address.String() })
	by := -1
	for n := range digits.FindAllString(alike[0].Address.String(), -1) {
		groups := Group(alike, func(c plan.Change) [3]string {
			before, middle, after, lists := split(c, n)
			return [3]string{before, words.Either(lists, "", middle), after}
		})
		if len(groups) < len(best) {
			best, by = groups, n
		}
	}
	var all []folded
	for _, group := range best {
		f := folded{group[0], group[0].Address.String()}
		if len(group) > 1 {
			before, _, after, _ := split(group[0], by)
			var numbers []int
			for _, c := range group {
				_, middle, _, _ := split(c, by)
				n, _ := strconv.Atoi(middle) // it lists
				numbers = append(numbers, n)
			}
			f.where = before + "{" + setting.CPUs(numbers...).String() + "}" + after
		}
		all = append(all, f)
	}
	return all
}
