package report

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestRawIsTame: what is printed in another program's format steers no terminal, and keeps its lines.
func TestRawIsTame(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, NewPrinter(&out, io.Discard, Options{}).Raw([]byte("a\x1b[2J\rb\u202ec,\t1\r\n网\n"), nil))
	must.Equal(t, out.String(), "a?[2J?b?c,\t1\r\n网\n", "out.String()")
}

// TestJSONIsTame: a name in JSON steers no terminal either, and whoever reads the JSON finds the name as it is.
func TestJSONIsTame(t *testing.T) {
	const name = "a\x1b[2J\x7f\u0085\u009b2J\u202egnp\u2028\u00ad\U000e0061<b>网"
	var out bytes.Buffer
	must.Do(t, NewPrinter(&out, io.Discard, Options{JSON: true}).Line(map[string]string{name: name}, ""))
	if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && steers(r) }); i >= 0 {
		t.Errorf("a character that steers: %q", out.String()[i:])
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[name] != name {
		t.Errorf("read back: %q, %v", back, err)
	}
	must.Hold(t, strings.Contains(out.String(), "<b>网"), "other characters: %s", &out)
}
