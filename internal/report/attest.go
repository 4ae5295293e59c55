package report

import (
	"fmt"
	"strings"

	"mpps/internal/knob"
)

// Attested draws what persons said: all that can be said, or what was said now.
func Attested(t *Text, rows []knob.Attestation, all bool) {
	if all {
		table := [][]string{{"check", "attested", "one of, as it should be first"}}
		for _, r := range rows {
			said := "–"
			if r.Value != "" {
				said = fmt.Sprintf("%s (%s, %s)", r.Value, r.By, r.Age)
			}
			table = append(table, []string{r.ID, said, strings.Join(r.Values, ", ")})
		}
		t.Table(table)
		return
	}
	for _, r := range rows {
		line := fmt.Sprintf("%s: %s (%s)", r.ID, r.Value, r.By)
		if r.Value == "" {
			line = r.ID + ": nothing is attested any more"
		}
		if r.Before != "" && r.Before != r.Value {
			line += ", until now " + r.Before
		}
		t.Line("%s", line)
	}
}
