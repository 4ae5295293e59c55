package realtime

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumented: docs/realtime.md has the table of all kinds as it is here. MPPS_UPDATE=1 writes it.
func TestDocumented(t *testing.T) {
	const file, begin, end = "../../docs/realtime.md", "<!-- kinds -->\n", "<!-- /kinds -->"
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
	for _, family := range []Family{Lists, Guests, Threads, Interrupts, Kernel, Cgroups, Housekeeping} {
		fmt.Fprintf(&b, "\n**%s**\n\n| finding | usually | what | why it matters | knob |\n|---|---|---|---|---|\n", titles[family])
		for _, k := range kinds {
			if k.Family == family {
				link := "–"
				if k.Knob != "" {
					link = fmt.Sprintf("[%s](knobs/%s.md)", k.Knob, k.Knob)
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.ID, k.Severity, k.Title, k.Why, link)
			}
		}
	}
	want := head + begin + b.String() + "\n" + end + tail
	if want == string(text) {
		return
	}
	if os.Getenv("MPPS_UPDATE") == "" {
		t.Fatalf("%s is not current: MPPS_UPDATE=1 go test -run TestDocumented ./internal/realtime writes it", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

var titles = map[Family]string{
	Lists: "Lists of CPUs that must agree", Guests: "Guests: definitions, and threads that run", Threads: "What runs there", Interrupts: "What interrupts there",
	Kernel: "The kernel's own work", Cgroups: "Control groups", Housekeeping: "What is left for the host",
}
