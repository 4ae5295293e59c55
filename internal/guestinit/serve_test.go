package guestinit

import "testing"

func TestSecret(t *testing.T) {
	for cmdline, want := range map[string]string{
		"console=ttyS0 mpps.secret=demo quiet": "demo", "mpps.secret=": "", "quiet": "",
		"xmpps.secret=a mpps.secret=b": "b",
	} {
		if got := string(secretIn(cmdline)); got != want {
			t.Errorf("%q: %q, expected %q", cmdline, got, want)
		}
	}
}
