package facts

import (
	"testing"

	"mpps/internal/must"
)

func TestCompareVersions(t *testing.T) {
	ordered := []string{"", "3.10.0-957.el7", "5.4.17-2011.el7uek", "5.10.0", "5.14.0-362.24.1.el9_3",
		"5.14.0-427.13.1.el9_4", "6.1.0-9", "6.1.0-40", "6.12.43+deb13", "6.12.48+deb13"}
	for i, older := range ordered {
		for _, newer := range ordered[i+1:] {
			must.Hold(t, CompareVersions(older, newer) < 0 && CompareVersions(newer, older) > 0,
				"%q is not older than %q", older, newer)
		}
		must.Equal(t, CompareVersions(older, older), 0, "%q is not as old as itself", older)
	}
	must.Equal(t, CompareVersions("6.01", "6.1"), 0, "a leading zero makes a version newer or older")
}
