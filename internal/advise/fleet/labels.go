package fleet

import (
	"path"
	"strconv"
	"strings"
)

// labels returns what members are called: the host's name, the name of the file where several hosts have that name or
// none (a scrubbed snapshot has none of its own), and its whole path where several files have that name.
func labels(members []*member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = plain(m.name)
	}
	for _, of := range []func(*member) string{
		func(m *member) string { return strings.TrimSuffix(path.Base(m.file), ".json") },
		func(m *member) string { return m.file },
	} {
		count := map[string]int{"": 2}
		for _, name := range names {
			count[name]++
		}
		for i, m := range members {
			if count[names[i]] > 1 {
				names[i] = plain(of(m))
			}
		}
	}
	return names
}

// plain returns a name as it is, or quoted if it could be taken for several, or for another column.
func plain(name string) string {
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("-._:@/", r) {
			return strconv.QuoteToASCII(name)
		}
	}
	return name
}
