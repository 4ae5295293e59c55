package apply

import (
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestNewThreads: a kernel thread that came since is put in its place; one that was there and has moved was moved by
// somebody.
func TestNewThreads(t *testing.T) {
	a, wanted := setting.Of(setting.ThreadCPUs, "kernel"), setting.Value("0-1")
	const seen = "2 0-1 kthreadd\n40 1 kswapd0"
	for name, c := range map[string]struct {
		found string
		want  bool
	}{
		"another came":             {seen + "\n77 0-3 loop0", true},
		"another came, in place":   {seen + "\n77 0 loop0", false},
		"one was moved":            {"2 0-1 kthreadd\n40 2 kswapd0", false},
		"one came, one was moved":  {"2 0-1 kthreadd\n40 2 kswapd0\n77 0-3 loop0", false},
		"a number that begins so":  {seen + "\n400 2 loop0", true},
		"nothing is known of them": {"", false},
	} {
		found := setting.Value("0-3")
		found.Verbatim = c.found
		must.Equal(t, newThreads(a, wanted, seen, found), c.want, "%s", name)
		if newThreads(a, wanted, "", found) || newThreads(setting.Of(setting.Sysctl, "a"), wanted, seen, found) {
			t.Errorf("%s: without knowing what there was, or of another kind", name)
		}
	}
}
