package threads

import (
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// kernelLine returns a line of /proc/PID/stat of a child of kthreadd with flags.
func kernelLine(pid int, comm, flags string) string {
	head, rest, _ := strings.Cut(treetest.KernelStat(pid, comm, 0, 0), ") ")
	fields := strings.Fields(rest)
	fields[6] = flags
	return head + ") " + strings.Join(fields, " ") + "\n"
}

const (
	moves = "2129984"  // 0x208040: PF_KTHREAD
	stays = "69238880" // 0x4208060: PF_KTHREAD and PF_NO_SETAFFINITY
)

func kernelTree() map[string]string {
	files := map[string]string{"sys/devices/system/cpu/online": "0-3\n"}
	files["proc/44/comm"], files["proc/44/status"] = "sugov:3\n", "Cpus_allowed_list:\t3\n"
	files["proc/44/stat"] = strings.Replace(kernelLine(44, "sugov:3", moves), " 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		" 0 6 0 0 0 0 0 0 0 0 0 0 0\n", 1)
	for pid, t := range map[string]struct{ comm, flags, cpus string }{
		"2": {"kthreadd", moves, "0-7"}, "14": {"rcu_preempt", moves, "0-7"}, "15": {"migration/0", stays, "0"},
		"16": {"ksoftirqd/3", stays, "3"},
		"40": {"kswapd1", moves, "2-3"}, "41": {"kworker/u8:1", stays, "0-3"}, "42": {"irq/24-eth0", moves, "3"},
		"43":  {"vhost-900", moves, "3"},
		"45":  {"kvm-nx-lpage-re", moves, "3"},
		"900": {"qemu", "4194560", "0-3"},
	} {
		number := 0
		for _, digit := range pid {
			number = number*10 + int(digit-'0')
		}
		files["proc/"+pid+"/comm"] = t.comm + "\n"
		files["proc/"+pid+"/stat"] = kernelLine(number, t.comm, t.flags)
		files["proc/"+pid+"/status"] = "Name:\t" + t.comm + "\nCpus_allowed_list:\t" + t.cpus + "\n"
	}
	return files
}

// TestKernelThreadsAreOneValue: the value covers all movable kernel threads and their online CPUs; offline CPUs are
// kept for a rollback.
func TestKernelThreadsAreOneValue(t *testing.T) {
	a := setting.Of(setting.ThreadCPUs, "kernel")
	m := treetest.Recorded(t, kernelTree())
	r := (threadCPUs{m}).Read(t.Context(), a)
	if want := "2 0-7 kthreadd\n14 0-7 rcu_preempt\n40 2-3 kswapd1"; r.State != setting.Known || r.Value != "0-3" ||
		r.Verbatim != want {
		t.Errorf("found %s with %q; expected 0-3 with %q", r, r.Verbatim, want)
	}
	must.Refuse(t, (threadCPUs{m}).Write(t.Context(), a, setting.Value("0-1")), "threads of a recording were moved")
	if r := Mechanisms(treetest.Recorded(t, map[string]string{"proc/900/comm": "qemu\n"}))[setting.ThreadCPUs].Read(
		t.Context(), a); r.State != setting.Unknown {
		t.Errorf("where no kernel thread can be seen: %s", r)
	}
	must.Equal(t, (threadCPUs{m}).Read(t.Context(), setting.Of(setting.ThreadCPUs, "kswapd1")).State, setting.Unknown,
		"another object")
}

// TestPlacesOfKernelThreads: each thread keeps its wanted CPUs. A rollback restores each thread's former CPUs, by TID
// or, after a reboot, by name; threads started since get the whole value.
func TestPlacesOfKernelThreads(t *testing.T) {
	set := func(text string) setting.CPUSet {
		cpus := must.Get(setting.ParseCPUs(text))(t)
		return cpus
	}
	all := []movable{{2, "kthreadd", set("0-3")}, {14, "rcu_preempt", set("0-3")}, {40, "kswapd0", set("1-2")},
		{41, "kswapd1", set("3")}}
	join := func(sets []setting.CPUSet) string {
		var words []string
		for _, s := range sets {
			words = append(words, s.String())
		}
		return strings.Join(words, " ")
	}
	must.Equal(t, join(places(all, set("0-1"), nil, set("0-3"))), "0-1 0-1 1 0-1", "moved to")
	before := parsePlaces(formatPlaces(all))
	must.Need(t, len(before) == len(all) && before[2].name == "kswapd0" && before[2].cpus.Equal(all[2].cpus),
		"read back as %+v", before)
	now := []movable{{2, "kthreadd", set("0-1")}, {15, "rcu_preempt", set("0-1")}, {40, "kswapd0", set("1")},
		{41, "other", set("0")}, {42, "kswapd1", set("0-1")}}
	must.Equal(t, join(places(now, set("0-3"), before, set("0-3"))), "0-3 0-3 1-2 0-3 3", "put back to")
	must.Equal(t, join(places([]movable{{9, "a", set("0")}, {10, "b", set("0")}}, set("0-1"), nil, nil)), "0 0-1",
		"without the parent of all")
	// Threads of one name get their own CPUs back, those with unchanged TIDs first; an additional thread gets what the
	// first had.
	twins := []movable{{2, "kthreadd", set("0-3")}, {20, "md", set("0")}, {21, "md", set("1")}, {22, "md", set("2")}}
	now = []movable{{2, "kthreadd", set("0-1")}, {21, "md", set("0-1")}, {30, "md", set("0-1")}, {31, "md", set("0-1")},
		{32, "md", set("0-1")}}
	must.Equal(t, join(places(now, set("0-3"), twins, set("0-3"))), "0-3 1 0 2 0", "several of one name")
	// Offline siblings: unwanted CPUs are removed, the value is the online ones, and a rollback restores all.
	siblings := []movable{{2, "kthreadd", set("0-7")}, {14, "rcu_preempt", set("0-7")}, {15, "other", set("2,6")},
		{16, "another", set("1,5")}}
	must.Equal(t, join(places(siblings, set("0-1"), nil, set("0-3"))), "0-1 0-1 0-1 1",
		"with siblings offline moved to")
	now = []movable{{2, "kthreadd", set("0-1")}, {14, "rcu_preempt", set("0-1")}, {15, "other", set("0-1")},
		{16, "another", set("1")}}
	must.Equal(t, join(places(now, set("0-3"), parsePlaces(formatPlaces(siblings)), set("0-3"))), "0-7 0-7 2,6 1,5",
		"with siblings offline put back to")
}
