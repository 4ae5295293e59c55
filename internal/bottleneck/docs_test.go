package bottleneck

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumented: docs/diagnose.md has the table of all kinds as it is here. MPPS_UPDATE=1 writes it.
func TestDocumented(t *testing.T) {
	const file, begin, end = "../../docs/diagnose.md", "<!-- kinds -->\n", "<!-- /kinds -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %s … %s", file, strings.TrimSpace(begin), end)
	}
	var b strings.Builder
	b.WriteString("| kind | stage | what | recognised by | what helps | knobs |\n|---|---|---|---|---|---|\n")
	for _, m := range Kinds() {
		links := make([]string, 0, len(m.Knobs))
		for _, id := range m.Knobs {
			links = append(links, fmt.Sprintf("[%s](knobs/%s.md)", id, id))
		}
		if len(links) == 0 {
			links = []string{"–"}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Kind, m.Stage, m.Title, m.Seen, m.Advice, strings.Join(links, ", "))
	}
	want := head + begin + b.String() + end + tail
	if want == string(text) {
		return
	}
	if os.Getenv("MPPS_UPDATE") == "" {
		t.Fatalf("%s is not current: MPPS_UPDATE=1 go test -run TestDocumented ./internal/bottleneck writes it", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
