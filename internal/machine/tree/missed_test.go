package tree

import (
	"slices"
	"syscall"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestMissed: what cannot be opened for want of descriptors is named, and not taken for what is not there.
func TestMissed(t *testing.T) {
	m := must.Get(Open("/"))(t)
	defer m.Close()
	within := m.Within(t.Context())
	must.Equal(t, within.Line("proc/no-such-file"), "", "a file that is not there")
	none := &facts.Host{}
	within.NoteMissed(none)
	must.Empty(t, none.Unseen, "missed")
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
	names, line, folder := within.List("proc/self"), within.Line("proc/uptime"), within.Folder("sys")
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if len(names) > 0 || line != "" || folder != nil {
		t.Fatalf("%v, %q and %v were read without descriptors", names, line, folder)
	}
	h := &facts.Host{}
	within.NoteMissed(h)
	want := facts.Unseen{What: "files and folders (3, first /proc/self)", Why: "too many open files"}
	must.Hold(t, slices.Equal(h.Unseen, []facts.Unseen{want}), "%+v, expected %+v", h.Unseen, want)
}
