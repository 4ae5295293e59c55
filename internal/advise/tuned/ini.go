package tuned

import "strings"

// entry is one option of a profile.
type entry struct{ section, key, value string }

// parse reads a profile as TuneD does (Python's configparser with "=" as the delimiter). Comments are lines that begin
// with # or ; and the rest of a line from a # after white space. An indented line without "=" continues the previous
// value. Each section begins with an entry without a key.
func parse(text string) []entry {
	var all []entry
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		line = strings.TrimSpace(stripComment(strings.TrimSpace(line)))
		switch {
		case line == "":
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			all = append(all, entry{section: section})
		case indented && len(all) > 0 && all[len(all)-1].key != "" && all[len(all)-1].section == section &&
			!strings.Contains(line, "="):
			all[len(all)-1].value += " " + line
		case section == "":
		default:
			key, value, found := strings.Cut(line, "=")
			if key = strings.TrimSpace(key); found && key != "" {
				all = append(all, entry{section, key, strings.TrimSpace(value)})
			}
		}
	}
	return all
}

func stripComment(line string) string {
	if line != "" && (line[0] == '#' || line[0] == ';') {
		return ""
	}
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && (line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}
