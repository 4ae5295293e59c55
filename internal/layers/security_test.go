package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestSecurityPage: each test that docs/security.md names is there, and the numbers of its attacks are those of its
// table.
func TestSecurityPage(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/security.md"))(t)
	page, there := string(text), map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	must.Do(t, filepath.WalkDir("../..", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(name)
			for _, found := range function.FindAllStringSubmatch(string(text), -1) {
				there[found[1]] = true
			}
			there[filepath.Base(name)] = true
			return err
		}
		there[filepath.Base(name)] = there[filepath.Base(name)] || strings.HasSuffix(name, ".txtar")
		return err
	}))
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+|\b\w+(?:_test\.go|\.txtar)\b`).FindAllString(page, -1) {
		must.Hold(t, there[name], "there is no %s", name)
	}

	_, log, _ := strings.Cut(page, "\n## Attacks played\n")
	log, _, _ = strings.Cut(log, "\n## ")
	var sums [2]int
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| ([0-9]+) \\| ([0-9]+) \\| (?:`Test|by hand).*\\|$")
	for _, found := range row.FindAllStringSubmatch(log, -1) {
		for i := range sums {
			n, _ := strconv.Atoi(found[i+1])
			sums[i] += n
		}
	}
	said := regexp.MustCompile(`(\d+) attacks .* (\d+) succeeded`).FindStringSubmatch(log)
	must.Hold(t, said != nil && said[1] == strconv.Itoa(sums[0]) && said[2] == strconv.Itoa(sums[1]),
		"the table has %d attacks of which %d succeeded, the text says %q", sums[0], sums[1], said)
}
