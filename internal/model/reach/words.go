package reach

import "strings"

// Words names kinds of path, for people: "Open vSwitch, vDPA".
func Words(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = About(k).Words
	}
	return strings.Join(names, ", ")
}
