package facts

import "strings"

// CompareVersions compares versions: runs of digits as numbers, the rest as text. Text sorts before a number, and a
// prefix before what extends it.
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

// versionRun splits off the leading run of digits or of non-digits.
func versionRun(text string) (run, rest string) {
	i := 1
	for i < len(text) && isDigit(text[i]) == isDigit(text[0]) {
		i++
	}
	return text[:i], text[i:]
}
