package realtime

import (
	"strings"
	"testing"
)

// TestWord: a name that somebody chose stays one word of a command.
func TestWord(t *testing.T) {
	for _, name := range []string{"a;reboot", "a b", "$(reboot)", "`reboot`", "a\nreboot", "a'b", "a&b", "*"} {
		if got := word(name); got == name || !strings.ContainsAny(got, `'\`) {
			t.Errorf("%q becomes %q, expected it quoted", name, got)
		}
	}
	if got := word("system.slice/cron.service"); got != "system.slice/cron.service" {
		t.Errorf("a plain name becomes %q", got)
	}
}
