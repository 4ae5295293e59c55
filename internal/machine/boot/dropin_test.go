package boot

import (
	"testing"

	"mpps/internal/must"
)

// TestDropInOfEarlierVersions: our file is known by its first lines, whichever version wrote it.
func TestDropInOfEarlierVersions(t *testing.T) {
	_, _, err := parseDropIn("# Written by mpps; 'mpps rollback' takes it away. Do not edit: it is written anew with " +
		"every change.\n# It takes some arguments out of what /etc/default/grub says, and adds those that mpps has set.\n")
	must.Do(t, err)
}
