package ops

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// said keeps what is said.
type said struct {
	Listener
	lines []string
}

func (s *said) Progress(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// TestCountdown: each second what is under way, how far it is and how long it takes, and nothing once it is over.
func TestCountdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := &said{}
		done := (&Env{Out: heard}).Countdown("watching", 5*time.Second)
		time.Sleep(2500 * time.Millisecond)
		done()
		time.Sleep(5 * time.Second)
		if want := []string{"watching for 5s", "watching: 1 of 5 s", "watching: 2 of 5 s"}; !slices.Equal(heard.lines, want) {
			t.Errorf("said %q, expected %q", heard.lines, want)
		}
	})
}
