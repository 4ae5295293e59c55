package spaces

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestOpensNamespacesAlone: by now a descriptor's link may lead to a pipe that is not open at its other end.
func TestOpensNamespacesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	for file, is := range map[string]bool{pipe: false, "/proc/self/stat": false, "/proc/self/ns/net": true} {
		opened := make(chan error, 1)
		go func() {
			s, err := open(file)
			if err == nil {
				s.close()
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			must.Equal(t, err == nil, is, "%s: %v", file, err)
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it is waited for", file)
		}
	}
}
