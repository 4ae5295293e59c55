package facts

import "strings"

// CompareVersions orders versions as people do: runs of digits by their number, everything else as text. A text is
// older than a number at the same place, and a beginning older than what goes on.
func CompareVersions(a, b string) int {
	for a != "" && b != "" {
		x, restA := versionRun(a)
		y, restB := versionRun(b)
		a, b = restA, restB
		if x == y {
			continue
		}
		switch digitsX, digitsY := isDigit(x[0]), isDigit(y[0]); {
		case digitsX && digitsY:
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
		case digitsX:
			return 1
		case digitsY:
			return -1
		default:
			return strings.Compare(x, y)
		}
	}
	return len(a) - len(b)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// versionRun cuts the first run of digits or of anything else off a text.
func versionRun(text string) (run, rest string) {
	i := 1
	for i < len(text) && isDigit(text[i]) == isDigit(text[0]) {
		i++
	}
	return text[:i], text[i:]
}
