package lab

import (
	"testing"

	"mpps/internal/must"
)

// TestReadHeart: a heart that beats may leave CPUs out, which it names; one that does not beat says why.
func TestReadHeart(t *testing.T) {
	for said, want := range map[string]string{
		"visited=0,1,2,3\nisolated=\nrefused=\n":     "",
		"visited=0,1\nisolated=2,3\nrefused=\n":      "the heart does not watch the isolated CPUs 2,3",
		"visited=0,1,2\nisolated=\nrefused=3 (busy)": "the heart does not watch CPU 3 (busy), which it cannot visit",
	} {
		blind := must.Get(readHeart(said))(t)
		must.Equal(t, blind, want, "%q", said)
	}
	must.Say(t, must.Err(readHeart("ended=modprobe: not found\n")), "modprobe: not found", "ended")
	must.Refuse(t, must.Err(readHeart("visited=\nisolated=\nrefused=0 (busy)\n")), "no CPU is visited")
}
