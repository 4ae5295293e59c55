package survey

import (
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

var (
	menuLine    = regexp.MustCompile(`(?m)^\s*linux\S*\s+(\S+)(.*)$`)
	defaultLine = regexp.MustCompile(`(?m)^\s*set default="([^"$]+)"`)
	versionText = regexp.MustCompile(`\d+\.\d+\.\d+[\w.+~]*(?:-[\w.+~]+)*?-amd64`)
)

// argument is the value of a kernel argument in the first entry of GRUB's menu; several values, and the words of
// arguments whose order counts ("hugepagesz+hugepages"), divided by a space.
func argument(text, name string) (string, bool) {
	line := menuLine.FindStringSubmatch(text)
	if line == nil {
		return "", false
	}
	names := strings.Split(name, "+")
	var found []string
	for word := range strings.FieldsSeq(line[2]) {
		key, value, valued := strings.Cut(word, "=")
		switch {
		case !slices.Contains(names, key):
		case len(names) > 1:
			found = append(found, word)
		case valued:
			found = append(found, value)
		default:
			found = append(found, setting.Flag)
		}
	}
	return strings.Join(found, " "), len(found) > 0
}

// defaultKernel is the version of the entry that GRUB boots when nobody chooses one: 0 is the first.
func defaultKernel(text string) (string, bool) {
	chosen := defaultLine.FindStringSubmatch(text)
	if chosen == nil {
		return "", false
	}
	entry := chosen[1]
	if first := menuLine.FindStringSubmatch(text); entry == "0" && first != nil {
		entry = first[1]
	}
	versions := versionText.FindAllString(entry, -1)
	if len(versions) == 0 {
		return "", false
	}
	return versions[len(versions)-1], true
}
