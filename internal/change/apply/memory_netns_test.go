//go:build netns

package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

// memoryGroup makes a control group that may have 48 MiB, and returns it with the file that counts its processes that
// were ended for want of memory (Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1/memory.rst).
func memoryGroup(t *testing.T) (group, counts string) {
	t.Helper()
	for _, version := range []struct{ mount, limit, swap, counts string }{
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.events"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.swappiness", "memory.oom_control"},
	} {
		group = filepath.Join(version.mount, "mpps-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		made := group
		t.Cleanup(func() {
			must.Try(t, os.Remove(made))
		})
		if setInGroup(group, version.limit, 48<<20) != nil {
			continue
		}
		_ = setInGroup(group, version.swap, 0) // there is none without swap
		return group, filepath.Join(group, version.counts)
	}
	t.Skip("no control group of memory can be made here")
	return "", ""
}

// setInGroup sets a number of a control group if it has the file.
func setInGroup(group, file string, n int) error {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(n))
	return errors.Join(err, f.Close())
}

// TestOutOfMemoryAnywhere: the kernel ends an apply for want of memory, at every point that it passes. What is said of
// a kill is true of that too.
func TestOutOfMemoryAnywhere(t *testing.T) {
	group, counts := memoryGroup(t)
	kills := killAnywhere(t, []string{"apply"}, "MPPS_VICTIM_GROUP="+group)
	text, err := os.ReadFile(counts)
	_, after, _ := strings.Cut(string(text), "oom_kill ")
	counted, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	must.Hold(t, err == nil && counted == kills, "%d of %d ends were for want of memory, %v", counted, kills, err)
	t.Logf("%d ends for want of memory, 0 states lost", kills)
}
