package realtime

import (
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestWord: a name that somebody chose stays one word of a command.
func TestWord(t *testing.T) {
	for _, name := range []string{"a;reboot", "a b", "$(reboot)", "`reboot`", "a\nreboot", "a'b", "a&b", "*"} {
		if got := word(name); got == name || !strings.ContainsAny(got, `'\`) {
			t.Errorf("%q becomes %q, expected it quoted", name, got)
		}
	}
	must.Equal(t, word("system.slice/cron.service"), "system.slice/cron.service", "a plain name")
}
