package realtime

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/golden"
)

// TestDocumented: docs/realtime.md has the table of all kinds as it is here. MPPS_UPDATE=1 writes it.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	for _, family := range []Family{Lists, Guests, Threads, Interrupts, Kernel, Cgroups, Housekeeping} {
		fmt.Fprintf(&b, "\n**%s**\n\n| finding | usually | what | why it matters | knob |\n|---|---|---|---|---|\n",
			titles[family])
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
	golden.Part(t, "../../../docs/realtime.md", "kinds", b.String()+"\n")
}

var titles = map[Family]string{
	Lists: "Lists of CPUs that must agree", Guests: "Guests: definitions, and threads that run",
	Threads: "What runs there", Interrupts: "What interrupts there",
	Kernel: "The kernel's own work", Cgroups: "Control groups", Housekeeping: "What is left for the host",
}
