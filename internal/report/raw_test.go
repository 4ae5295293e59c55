package report

import (
	"bytes"
	"io"
	"testing"

	"mpps/internal/must"
)

// TestRawIsTame: what is printed in another program's format steers no terminal, and keeps its lines.
func TestRawIsTame(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, NewPrinter(&out, io.Discard, Options{}).Raw([]byte("a\x1b[2J\rb\u202ec,\t1\r\n网\n"), nil))
	if got := out.String(); got != "a?[2J?b?c,\t1\r\n网\n" {
		t.Errorf("found %q", got)
	}
}
