package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestSecretFile: what others can read, or guess, is no secret.
func TestSecretFile(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	for name, c := range map[string]struct {
		text  string
		mode  os.FileMode
		owner int
		want  string // in the error
	}{
		"good":              {text: " " + secret + "\n", mode: 0o600},
		"read-only":         {text: secret, mode: 0o400},
		"for the group":     {text: secret, mode: 0o640, want: "mode 0640 lets others read or write it"},
		"for all":           {text: secret, mode: 0o644, want: "mode 0644"},
		"written by others": {text: secret, mode: 0o602, want: "mode 0602"},
		"another's":         {text: secret, mode: 0o600, owner: 65534, want: "belongs to user 65534"},
		"short":             {text: secret[1:] + "  \n\n", mode: 0o600, want: "15 bytes, expected 16 to 65536"},
		"empty":             {mode: 0o600, want: "0 bytes"},
		"huge":              {text: strings.Repeat("x", maxSecret+1), mode: 0o600, want: "expected 16 to"},
	} {
		file := filepath.Join(t.TempDir(), "secret")
		must.Do(t, os.WriteFile(file, []byte(c.text), 0o600))
		must.Do(t, os.Chmod(file, c.mode))
		if c.owner != 0 {
			if os.Geteuid() != 0 {
				continue
			}
			must.Do(t, os.Chown(file, c.owner, -1))
		}
		got, err := Secret(file)
		if c.want == "" {
			must.Hold(t, err == nil && string(got) == secret, "%s: %q, %v", name, got, err)
			continue
		}
		if err == nil {
			t.Errorf("%s was accepted", name)
			continue
		}
		if code, hint := outcome.Of(err); code != outcome.CodeUsage || hint == "" ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, code %d, hint %q", name, err, code, hint)
		}
	}
}
