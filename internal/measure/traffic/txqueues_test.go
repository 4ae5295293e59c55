package traffic

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mpps/internal/must"
)

// TestWorkerCPUs: one worker for each queue, each on a CPU of its own, and of different queues where there is a choice.
func TestWorkerCPUs(t *testing.T) {
	many := make([]int, 2*MaxWorkers)
	for i := range many {
		many[i] = i
	}
	for _, c := range []struct {
		allowed []int
		queues  int
		want    []int
	}{
		{[]int{0, 1, 2, 3}, 1, []int{0}},
		{[]int{3, 4}, 0, []int{3}},
		{[]int{0, 1, 2, 3}, 2, []int{0, 1}},
		{[]int{0, 1}, 9, []int{0, 1}},
		{[]int{0, 2, 4, 5}, 2, []int{0, 5}},
		{[]int{0, 4, 8, 9}, 4, []int{0, 9, 4, 8}},
		{many, 4 * MaxWorkers, many[:MaxWorkers]},
	} {
		if got := WorkerCPUs(c.allowed, c.queues); !slices.Equal(got, c.want) {
			t.Errorf("%d queues, CPUs %v: %v, expected %v", c.queues, c.allowed[:min(8, len(c.allowed))], got, c.want)
		}
	}
}

// TestSysfsTxQueues: the directories count, unless they are those of another namespace's interface.
func TestSysfsTxQueues(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "class/net/eth0")
	for _, queue := range []string{"tx-0", "tx-1", "rx-0"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "queues", queue), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "ifindex"), []byte("7\n"), 0o644))
	for index, want := range map[int]int{7: 2, 8: 0} {
		if got := sysfsTxQueues(sys, Device{Endpoint: Endpoint{Iface: "eth0"}, Index: index}); got != want {
			t.Errorf("index %d: %d queues, expected %d", index, got, want)
		}
	}
	if got := sysfsTxQueues(sys, Device{Endpoint: Endpoint{Iface: "eth1"}, Index: 7}); got != 0 {
		t.Errorf("an interface that is not there: %d queues", got)
	}
}
