package lab

import (
	"errors"
	"testing"
)

func TestEnoughDisk(t *testing.T) {
	if err := enoughDisk("/cache", treeBytes); err != nil {
		t.Errorf("just enough: %v", err)
	}
	err := enoughDisk("/cache", treeBytes-1)
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || hint.Hint() == "" {
		t.Fatalf("one byte short: found %v, expected an error with a hint", err)
	}
	if want := "lab: the root tree needs 2048 MiB in /cache, found 2047 MiB free"; err.Error() != want {
		t.Errorf("found %q, expected %q", err, want)
	}
}
