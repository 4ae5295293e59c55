package trust

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
)

func TestParseStat(t *testing.T) {
	for text, want := range map[string]Stat{
		treetest.StatVCPU:  {TID: 297, Comm: "CPU 0/KVM", Parent: 1, CPU: 1, Started: 1789, Flags: 138412224},
		treetest.StatVhost: {TID: 294, Comm: "vhost-289", Parent: 1, CPU: 3, Started: 1787, Flags: 138428608},
		treetest.Stat(5, "a) S (b (c", 7, 2, 99, 1): {TID: 5, Comm: "a) S (b (c", Parent: 1, CPU: 2, Started: 7,
			Priority: 99, Policy: 1, Flags: 138428608},
	} {
		if found, err := ParseStat(text); err != nil || found != want {
			t.Errorf("%.20s: expected %+v, found %+v, %v", text, want, found, err)
		}
	}
	for _, text := range []string{"", "1", "1 (x", "x (y) S 1 2", "1 (x) S", ")(",
		strings.Replace(treetest.StatVCPU, " 1789 ", " soon ", 1)} {
		if found, err := ParseStat(text); err == nil {
			t.Errorf("%q was read as %+v", text, found)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(treetest.StatVCPU)
	f.Add(treetest.Stat(1, ") (", 0, 0, 0, 0))
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseStat(text) })
}

// TestWhoseThread: the kernel's threads and workers are known by flags that no process can set.
func TestWhoseThread(t *testing.T) {
	for text, want := range map[string][2]bool{ // Kernel, UserWorker
		treetest.StatVCPU:  {false, false},
		treetest.StatVhost: {false, true},
		treetest.KernelStat(15, "ksoftirqd/0", 0, 0): {true, false},
		treetest.StatLine(15, "ksoftirqd/0", 0, 0):   {false, false},
		treetest.OfKernel(treetest.StatVhost):        {true, false},
	} {
		found, err := ParseStat(text)
		if err != nil || [2]bool{found.Kernel(), found.UserWorker()} != want {
			t.Errorf("%.30s: kernel %v, worker %v, %v", text, found.Kernel(), found.UserWorker(), err)
		}
	}
}
