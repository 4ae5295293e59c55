package bottleneck

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/golden"
)

// TestDocumented compares the table of kinds in docs/diagnose.md with this package. MPPS_UPDATE=1 writes it.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| kind | stage | what | recognised by | what helps | knobs |\n|---|---|---|---|---|---|\n")
	for _, m := range meanings {
		links := make([]string, 0, len(m.Knobs))
		for _, id := range m.Knobs {
			links = append(links, fmt.Sprintf("[%s](knobs/%s.md)", id, id))
		}
		if len(links) == 0 {
			links = []string{"–"}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Kind, m.Stage, m.Title, m.Seen, m.Advice,
			strings.Join(links, ", "))
	}
	golden.Part(t, "../../../docs/diagnose.md", "kinds", b.String())
}
