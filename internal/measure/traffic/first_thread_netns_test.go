//go:build netns

package traffic

import (
	"os"
	"sync"
	"testing"

	"mpps/internal/must"
)

// TestProcessStaysInItsNamespace: what /proc/self and /proc/net show is the namespace that this process began in, also
// while and after threads of it are in others.
func TestProcessStaysInItsNamespace(t *testing.T) {
	was := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	for range 50 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				name, release, err := NewNetns()
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				err = Endpoint{Netns: name}.Do(func() error {
					if is, err := os.Readlink("/proc/self/ns/net"); err != nil || is != was {
						t.Errorf("while a thread is in another: %s, %v, was %s", is, err, was)
					}
					return nil
				})
				must.Try(t, err)
			})
		}
		all.Wait()
	}
	if is, err := os.Readlink("/proc/self/ns/net"); err != nil || is != was {
		t.Errorf("afterwards: %s, %v, was %s", is, err, was)
	}
}
