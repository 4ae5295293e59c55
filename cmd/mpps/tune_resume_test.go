package main

import (
	"reflect"
	"testing"

	"github.com/spf13/cobra"

	"mpps/internal/must"
)

// TestGivenAgain: the flags of a run that waits are given to the one that goes on as they were, and found there again
// for the next.
func TestGivenAgain(t *testing.T) {
	command := func() *cobra.Command { return (&app{}).tuneCommand() }
	first := command()
	must.Do(t, first.ParseFlags([]string{"--pps", "1M", "--only", "nic.channels,nic.xps", "--consent", "security",
		"--learned", "a", "--trial", "2s"}))
	second := command()
	for name, values := range givenFlags(first.Flags()) {
		must.Succeed(t, setAgain(second.Flags(), name, values), "--%s", name)
	}
	if got, want := givenFlags(second.Flags()), givenFlags(first.Flags()); !reflect.DeepEqual(got, want) ||
		len(want["only"]) != 2 {
		t.Errorf("given again: %v, expected %v", got, want)
	}
	must.Hold(t, setAgain(second.Flags(), "flavour", []string{"sweet"}) != nil &&
		setAgain(second.Flags(), "pps", nil) != nil, "a flag that is not there, and one without a value, are taken")
}
