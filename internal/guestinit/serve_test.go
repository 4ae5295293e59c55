package guestinit

import (
	"testing"

	"mpps/internal/must"
)

func TestSecret(t *testing.T) {
	for cmdline, want := range map[string]string{
		"console=ttyS0 mpps.secret=demo quiet": "demo", "mpps.secret=": "", "quiet": "",
		"xmpps.secret=a mpps.secret=b": "b",
	} {
		must.Equal(t, string(secretIn(cmdline)), want, "%q", cmdline)
	}
}
