package words

import "strings"

// Near reports whether a name may be what a person meant who typed another: one letter is wrong, or at most a third of
// them. Parts that both begin with, such as "nic.", do not count.
func Near(typed, name string) bool {
	same := 0
	for i := range min(len(typed), len(name)) {
		if typed[i] != name[i] {
			break
		}
		if typed[i] == '.' {
			same = i + 1
		}
	}
	return Distance(typed, name) <= max(1, (max(len(typed), len(name))-same)/3)
}

// Nearest returns the name that a person may have meant, the first of those with the fewest wrong letters, or else
// the only one that begins so; empty if there is none.
func Nearest(typed string, names []string) string {
	best, begins := "", []string{}
	for _, name := range names {
		if Near(typed, name) && (best == "" || Distance(typed, name) < Distance(typed, best)) {
			best = name
		}
		if typed != "" && strings.HasPrefix(name, typed) {
			begins = append(begins, name)
		}
	}
	if best == "" && len(begins) == 1 {
		return begins[0]
	}
	return best
}

// Distance returns how many letters must be inserted, deleted, replaced or swapped with their neighbour to turn a into
// b (optimal string alignment). For texts longer than 200 bytes it is their length.
func Distance(a, b string) int {
	const longest = 200
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	var rows [3][longest + 1]int
	before, last, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
