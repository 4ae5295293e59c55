package report

import (
	"fmt"
	"strings"
	"time"

	"mpps/internal/watch"
)

// Event is an event in one line, for a log.
func Event(e watch.Event) string {
	parts := []string{e.Time.UTC().Format(time.RFC3339), e.Event, e.Severity.String(), e.Code, e.Object + ":"}
	switch {
	case e.From != "" && e.To != "":
		parts = append(parts, e.From+" → "+e.To)
	case e.From+e.To != "":
		parts = append(parts, e.From+e.To)
		if e.Event == watch.Changed && e.To == "" {
			parts[len(parts)-1] += " → nothing"
		}
	default:
		parts[len(parts)-1] = e.Object
	}
	if e.Since != nil {
		parts = append(parts, fmt.Sprintf("(after %v)", e.Time.Sub(*e.Since).Round(time.Second)))
	}
	if e.Found {
		parts = append(parts, "(it stood when the watch began)")
	}
	if e.Hint != "" {
		parts = append(parts, "— "+e.Hint)
	}
	return tame(strings.ReplaceAll(strings.Join(parts, " "), "\n", " "), false)
}
