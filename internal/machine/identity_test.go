package machine

import (
	"os"
	"testing"
	"time"
)

func TestProcessBegan(t *testing.T) {
	m := live(t)
	// This test's process started a moment ago; btime is in whole seconds.
	if began := m.ProcessBegan(os.Getpid()); time.Since(began) > 10*time.Minute || time.Until(began) > 2*time.Second {
		t.Errorf("this process began %v ago", time.Since(began))
	}
	if began := m.ProcessBegan(1 << 30); !began.IsZero() {
		t.Errorf("a process that is not there began at %v", began)
	}
}
