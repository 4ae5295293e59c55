package report

import (
	"fmt"
	"strings"
	"time"

	"mpps/internal/change/watch"
	"mpps/internal/words"
)

// Event returns an event in one line, for a log.
func Event(e watch.Event) string {
	values := words.Join(" → ", e.From, e.To)
	if e.From != "" && e.To == "" && e.Event == watch.Changed {
		values += " → nothing"
	}
	object, since := e.Object, ""
	if values != "" {
		object += ":"
	}
	if e.Since != nil {
		since = fmt.Sprintf("(after %v)", e.Time.Sub(*e.Since).Round(time.Second))
	}
	line := strings.Join([]string{e.Time.UTC().Format(time.RFC3339), e.Event, e.Severity.String(), e.Code, object}, " ")
	line = words.Join(" ", line, values, since, words.If(e.Found, "(it stood when the watch began)"),
		words.If(e.Hint != "", "— %s", e.Hint))
	return sanitize(strings.ReplaceAll(line, "\n", " "), false)
}
