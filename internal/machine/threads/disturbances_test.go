package threads

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// disturbed returns a tree of a host with two measured CPUs out of four, and a guest.
var disturbed = map[string]string{
	"proc/stat": "cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu2 1 2 3 4 5 6 7 21 9 0\ncpu3 1 2 3 4 5 " +
		"6 7 31 9 0\nintr 5\n",
	"proc/cpuinfo": "vendor_id\t: AuthenticAMD\n",
	"proc/schedstat": "version 16\ntimestamp 4294942\ncpu2 0 0 0 0 0 0 700 800 92\ndomain0 f 1 2 3\ncpu3 0 0 0 0 0 0 " +
		"700 800 93\n",
	"proc/softirqs": "                    CPU0       CPU2       CPU3\n          HI:          1          2          " +
		"3\n       TIMER:         10         20         30\n",
	"proc/vmstat": "nr_free_pages 5\ncompact_stall 7\npswpin 0\n",
	"proc/interrupts": "           CPU0       CPU2       CPU3\n" +
		" 24:          1          0          9  IR-PCI-MSIX-0000:01:00.0    0-edge      eth0-rx-0\n" +
		"NMI:          4          5          6   Non-maskable interrupts\n" +
		"LOC:        100        200        300   Local timer interrupts\n" +
		"TLB:          7          8          0   TLB shootdowns\n" +
		"MCP:          1          1          2   Machine check polls\n" +
		"ERR:          0\n",
	"sys/kernel/debug/kvm/900-12/exits":                                "1234\n",
	"sys/kernel/debug/kvm/900-12/io_exits":                             "34\n",
	"sys/kernel/debug/kvm/900-12/halt_poll_success_ns":                 "9\n",
	"sys/kernel/debug/kvm/77-3/exits":                                  "5\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state0/name":                  "POLL\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state0/latency":               "0\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state0/usage":                 "99\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state3/name":                  "C6\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state3/latency":               "133\n",
	"sys/devices/system/cpu/cpu2/cpuidle/state3/usage":                 "41\n",
	"sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count": "3\n",
	"sys/devices/system/cpu/cpu3/cpufreq/stats/total_trans":            "17\n",
	"proc/900/task/901/comm":                                           "CPU 0/KVM\n",
	"proc/900/task/901/schedstat":                                      "5000 600 70\n",
	"proc/900/task/901/stat": "901 (CPU 0/KVM) S 1 1 1 0 -1 0 40 0 2 0 5 6 " +
		"0 0 20 0 3 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 2 0 0 0 0 0\n",
	"proc/812/task/812/comm":      "kworker/2:1\n",
	"proc/812/task/812/schedstat": "7777 1 2\n",
	"proc/812/task/812/stat": "812 (kworker/2:1) I 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 50 0 0 0 0 0 0 0 0 0 0 " +
		"0 0 0 0 0 17 2 0 0 0 0 0\n",
	"proc/813/task/813/stat": "813 (kworker/0:1) I 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 50 0 0 0 0 0 0 0 0 0 0 0 0 " +
		"0 0 0 17 0 0 0 0 0 0\n",
}

func disturbedTree(t *testing.T) (*tree.Tree, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range disturbed {
		put(t, dir, name, text)
	}
	m := must.Get(tree.Open(dir))(t)
	t.Cleanup(func() { m.Close() })
	return m, dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
}

// TestTally reads every counter of the measured CPUs and of the guest, and no others.
func TestTally(t *testing.T) {
	m, dir := disturbedTree(t)
	d := WatchDisturbances(m, setting.CPUs(2, 3), 900, []int{901})
	defer d.Close()
	const vcpu = "CPU 0/KVM (901)"
	want := facts.Tally{
		{Kind: facts.Steal, CPU: 2}: 210_000_000, {Kind: facts.Steal, CPU: 3}: 310_000_000,
		{Kind: facts.ContextSwitch, CPU: 2}: 92, {Kind: facts.ContextSwitch, CPU: 3}: 93,
		{Kind: facts.SoftIRQ, Name: "HI", CPU: 2}: 2, {Kind: facts.SoftIRQ, Name: "HI", CPU: 3}: 3,
		{Kind: facts.SoftIRQ, Name: "TIMER", CPU: 2}: 20, {Kind: facts.SoftIRQ, Name: "TIMER", CPU: 3}: 30,
		{Kind: facts.Memory, Name: "compact_stall", CPU: -1}: 7, {Kind: facts.Memory, Name: "pswpin", CPU: -1}: 0,
		{Kind: facts.Interrupt, Name: "24 eth0-rx-0", CPU: 3}:               9,
		{Kind: facts.Interrupt, Name: "LOC Local timer interrupts", CPU: 2}: 200,
		{Kind: facts.Interrupt, Name: "LOC Local timer interrupts", CPU: 3}: 300,
		{Kind: facts.NMI, Name: "NMI Non-maskable interrupts", CPU: 2}:      5,
		{Kind: facts.NMI, Name: "NMI Non-maskable interrupts", CPU: 3}:      6,
		{Kind: facts.IPI, Name: "TLB TLB shootdowns", CPU: 2}:               8,
		{Kind: facts.MachineCheck, Name: "MCP Machine check polls", CPU: 2}: 1,
		{Kind: facts.MachineCheck, Name: "MCP Machine check polls", CPU: 3}: 2,
		{Kind: facts.VMExit, Name: "exits", CPU: -1}:                        1234,
		{Kind: facts.VMExit, Name: "io_exits", CPU: -1}:                     34,
		{Kind: facts.IdleEntry, Name: "C6 (133 µs to leave)", CPU: 2}:       41,
		{Kind: facts.Throttle, Name: "core", CPU: 3}:                        3, {Kind: facts.Frequency, CPU: 3}: 17,
		{Kind: facts.RunDelay, Name: vcpu, CPU: -1}: 600, {Kind: facts.PageFault, Name: vcpu, CPU: -1}: 42,
		{Kind: facts.Migration, Name: vcpu, CPU: -1}:                 0,
		{Kind: facts.OtherThread, Name: "kworker/2:1 (812)", CPU: 2}: 7777,
	}
	must.NoDiff(t, cmp.Diff(want, d.Tally()), "difference")
	// The vCPU's thread migrates.
	put(t, dir, "proc/900/task/901/stat", strings.Replace(disturbed["proc/900/task/901/stat"], " 17 2 0", " 17 3 0", 1))
	must.Equal(t, d.Tally()[facts.Counter{Kind: facts.Migration, Name: vcpu, CPU: -1}], 1, "times moved")
}

// TestTallyUnseen: a host without any of the files is no error; each missing counter is reported.
func TestTallyUnseen(t *testing.T) {
	m := must.Get(tree.Open(t.TempDir()))(t)
	defer m.Close()
	d := WatchDisturbances(m, setting.CPUs(1), 5, []int{6})
	if got := d.Tally(); len(got) > 0 {
		t.Errorf("%v", got)
	}
	text := strings.Join(d.Unseen(), "\n")
	must.Contain(t, text, "context switches", "idle states", "exits of the guest")
}

// TestTallyLive reads this machine twice: nothing goes backwards.
func TestTallyLive(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	defer m.Close()
	d := WatchDisturbances(m, setting.CPUs(0), 0, nil)
	defer d.Close()
	first := d.Tally()
	must.Hold(t, len(first) >= 5, "%v", first)
	second := d.Tally()
	for _, c := range slices.Collect(maps.Keys(first)) {
		if n, there := second[c]; there && n < first[c] {
			t.Errorf("%v: %d, then %d", c, first[c], n)
		}
	}
}

func FuzzDisturbances(f *testing.F) {
	for _, name := range []string{"proc/interrupts", "proc/softirqs", "proc/vmstat", "proc/900/task/901/stat"} {
		f.Add(disturbed[name])
	}
	f.Fuzz(func(_ *testing.T, text string) {
		t, cpus := facts.Tally{}, setting.CPUs(2)
		addInterrupts(text, cpus, t)
		addSoftIRQs(text, cpus, t)
		addMemory(text, t)
		parseFaults(text)
		_, _ = parseRuns(text)
	})
}
