package threads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// kernelThread is PF_KTHREAD (include/linux/sched.h).
const kernelThread = 0x00200000

// runLine returns a stat file of a thread with the fields that an observation reads.
func runLine(tid int, comm string, flags uint64, started, cpu, priority, policy int) string {
	fields := strings.Fields(strings.Repeat("0 ", 50))
	fields[0], fields[6] = "S", fmt.Sprint(flags)
	if flags&kernelThread != 0 {
		fields[1] = "2" // kthreadd
	}
	fields[19], fields[36], fields[37], fields[38] = fmt.Sprint(started), fmt.Sprint(cpu), fmt.Sprint(priority),
		fmt.Sprint(policy)
	return fmt.Sprintf("%d (%s) %s\n", tid, comm, strings.Join(fields, " "))
}

// threadFiles returns the files of one thread.
func threadFiles(pid, tid int, comm string, flags uint64, started, cpu int, allowed,
	schedstat string) map[string]string {
	dir := fmt.Sprintf("proc/%d/task/%d/", pid, tid)
	return map[string]string{
		dir + "stat": runLine(tid, comm, flags, started, cpu, 0, 0),
		dir + "status": "Name:\t" + comm + "\nCpus_allowed:\tff\nCpus_allowed_list:\t" + allowed +
			"\nMems_allowed:\t1\n",
		dir + "schedstat": schedstat + "\n",
	}
}

// TestObservation compares two recorded readings of a machine with four CPUs, of which 2 and 3 are watched.
func TestObservation(t *testing.T) {
	interrupts := func(timer, disk, loc int) string {
		return fmt.Sprintf("           CPU0       CPU1       CPU2       CPU3       \n%4d: %10d %10d %10d %10d  "+
			"IO-APIC   2-edge      timer\n%4d: %10d %10d %10d %10d  PCI-MSI 1-edge      nvme0q1\n LOC: %10d %10d "+
			"%10d %10d   Local timer interrupts\n ERR:          7\n",
			0, timer, 0, 0, timer, 40, 5, 5, disk, 5, loc, loc, loc, loc)
	}
	stat := func(busy int) string {
		return fmt.Sprintf("cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 %d 0 0 100 0 0 0 0 0 0\ncpu2 %d 1 2 500 9 3 4 5 6 0\nctxt "+
			"5\n", busy, busy)
	}
	schedstat := func(turns int) string {
		return fmt.Sprintf("version 16\ntimestamp 1\ncpu0 0 0 0 0 0 0 0 0 %d\ndomain0 f 0 0\ncpu2 0 0 0 0 0 0 1 2 %d\n",
			turns, turns)
	}
	before := treetest.Recorded(t, treetest.Merged(map[string]string{
		"proc/uptime": "1000.00 1.00\n", "proc/interrupts": interrupts(1, 100, 1000), "proc/stat": stat(100),
		"proc/schedstat": schedstat(10),
	},
		threadFiles(30, 30, "ksoftirqd/2", kernelThread|fixedAffinity, 5, 2, "2", "1000 5 10"),
		threadFiles(400, 400, "main", 0, 6, 0, "0-3", "100 0 1"),
		threadFiles(400, 401, "worker) x", 0, 6, 2, "0-3", "5000000 0 7"),
		threadFiles(500, 500, "elsewhere", 0, 6, 0, "0-1", "9 9 9"),
		threadFiles(700, 700, "moves", 0, 6, 1, "0-1", "70 0 7"),
		threadFiles(800, 800, "ends", 0, 6, 1, "2", "70 0 7"),
	))
	after := treetest.Recorded(t, treetest.Merged(map[string]string{
		"proc/uptime": "1005.00 1.00\n", "proc/interrupts": interrupts(5_000_000_000, 142, 1250),
		"proc/stat": stat(350), "proc/schedstat": schedstat(60),
	},
		threadFiles(30, 30, "ksoftirqd/2", kernelThread|fixedAffinity, 5, 2, "2", "3000 5 14"),
		threadFiles(400, 400, "main", 0, 6, 0, "0-3", "100 0 1"),
		threadFiles(400, 401, "worker) x", 0, 6, 3, "0-3", "25000000 0 27"),
		threadFiles(500, 500, "elsewhere", 0, 6, 0, "0-1", "99 9 99"),
		threadFiles(600, 600, "young", 0, 100200, 3, "3", "4000 0 2"),
		threadFiles(700, 700, "moves", 0, 6, 2, "2", "90 0 9"),
	))
	cpus := setting.CPUs(2, 3)
	h := &facts.Host{Topology: facts.Topology{Online: setting.CPUs(0, 1, 2, 3)}}
	never := func() bool { return false }
	one, two := takeMoment(before, cpus, nil, nil, never), takeMoment(after, cpus, []int{600}, nil, never)
	two.at = one.at.Add(5 * time.Second)
	o := compare(after, one, two, h, cpus, limit{Budget, never})

	must.Hold(t, o.Seconds == 5 && o.Looked == 6 && len(o.Unseen) == 0 && o.Omitted == 0,
		"%v s, %d threads, %d omitted, %v", o.Seconds, o.Looked, o.Omitted, o.Unseen)
	var threads []string
	for _, r := range o.Threads {
		threads = append(threads, fmt.Sprintf("%d/%d %s kernel=%v fixed=%v on %s last %d: %d ns %d turns new=%v", r.PID,
			r.TID, r.Comm, r.Kernel, r.Fixed, r.Affinity, r.CPU, r.RunNS, r.Switches, r.New))
	}
	if want := []string{
		"400/401 worker) x kernel=false fixed=false on 0-3 last 3: 20000000 ns 20 turns new=false",
		"600/600 young kernel=false fixed=false on 3 last 3: 4000 ns 2 turns new=true",
		"30/30 ksoftirqd/2 kernel=true fixed=true on 2 last 2: 2000 ns 4 turns new=false",
		"700/700 moves kernel=false fixed=false on 2 last 2: 0 ns 0 turns new=false",
		"400/400 main kernel=false fixed=false on 0-3 last 0: 0 ns 0 turns new=false",
	}; !slices.Equal(threads, want) {
		t.Errorf("expected\n%s\nfound\n%s", strings.Join(want, "\n"), strings.Join(threads, "\n"))
	}
	var irqs []string
	for _, r := range o.IRQs {
		irqs = append(irqs, fmt.Sprintf("%d %s %v", r.Number, r.Name, r.Counts))
	}
	if want := []string{"0 timer map[3:4999999999]", "40 nvme0q1 map[2:42]", "-1 LOC map[2:250 3:250]"}; !slices.Equal(
		irqs, want) {
		t.Errorf("expected %q, found %q", want, irqs)
	}
	if want := []facts.CPUTime{{CPU: 0, Busy: 2500, Switches: 50}, {CPU: 2, Busy: 2500, Switches: 50}}; !slices.Equal(
		o.Times, want) {
		t.Errorf("expected %+v, found %+v", want, o.Times)
	}
}

// TestObservationIsBounded: when time is up the rest is left out and reported; guests come first.
func TestObservationIsBounded(t *testing.T) {
	files := map[string]string{"proc/uptime": "1 1\n", "proc/stat": "", "proc/interrupts": ""}
	for pid := 1; pid <= 100; pid++ {
		files = treetest.Merged(files, threadFiles(pid, pid, "t", 0, 1, 2, "2", "1 1 1"))
	}
	m := treetest.Recorded(t, files)

	look := takeMoment(m, setting.CPUs(2), []int{77}, nil, func() bool { return true })
	must.Hold(t, look.threads.looked == 63 && look.threads.Left == 37 && look.threads.Threads[0].TID == 77,
		"looked at %d, left %d, first %d", look.threads.looked, look.threads.Left, look.threads.Threads[0].TID)
	o := compare(m, look, look, &facts.Host{}, setting.CPUs(2), limit{Budget, func() bool { return false }})
	must.Hold(t, len(o.Unseen) == 1 && o.Unseen[0].What == "threads of 37 processes", "%v", o.Unseen)
}

// TestNamesAreBounded: if time is up before all threads that ran have names, those that ran longest have them, and the
// number of the others is reported.
func TestNamesAreBounded(t *testing.T) {
	first, second := map[string]string{"proc/uptime": "1000 1\n", "proc/stat": "", "proc/interrupts": ""},
		map[string]string{"proc/uptime": "1005 1\n", "proc/stat": "", "proc/interrupts": ""}
	for pid := 1; pid <= 60; pid++ {
		first = treetest.Merged(first, threadFiles(pid, pid, "t", 0, 1, 2, "2", "1000 1 1"))
		ran := 1000
		if pid <= 40 {
			ran += 100 * pid
		}
		second = treetest.Merged(second, threadFiles(pid, pid, "t", 0, 1, 2, "2", fmt.Sprintf("%d 1 1", ran)))
	}
	never, cpus := func() bool { return false }, setting.CPUs(2)
	after := treetest.Recorded(t, second)
	one, two := takeMoment(treetest.Recorded(t, first), cpus, nil, nil, never), takeMoment(after, cpus, nil, nil, never)
	asked := 0
	o := compare(after, one, two, &facts.Host{}, cpus, limit{Budget, func() bool { asked++; return asked == 2 }})
	must.Hold(t, len(o.Threads) == 31 && o.Threads[0].TID == 40 && o.Omitted == 20 && len(o.Unseen) == 1 &&
		strings.HasPrefix(o.Unseen[0].What, "9 threads that ran"),
		"%d threads, %d omitted, %v", len(o.Threads), o.Omitted, o.Unseen)
	if o = compare(after, one, two, &facts.Host{}, cpus, limit{Budget, never}); len(o.Threads) != 60 ||
		o.Omitted != 0 || len(o.Unseen) != 0 {
		t.Errorf("with time enough %d threads, %d omitted, %v", len(o.Threads), o.Omitted, o.Unseen)
	}
}

// TestNoSchedstat: a kernel without schedstat is reported, and no thread is said to have run.
func TestNoSchedstat(t *testing.T) {
	files := threadFiles(30, 30, "t", 0, 1, 2, "2", "")
	delete(files, "proc/30/task/30/schedstat")
	m := treetest.Recorded(t, treetest.Merged(files, map[string]string{"proc/stat": "", "proc/interrupts": "",
		"proc/uptime": "1 1\n"}))
	look := takeMoment(m, setting.CPUs(2), nil, nil, func() bool { return false })
	o := compare(m, look, look, &facts.Host{}, setting.CPUs(2), limit{Budget, func() bool { return false }})
	must.Hold(t, len(o.Unseen) == 1 && o.Unseen[0].What == "how long threads ran" && len(o.Threads) == 1 &&
		o.Threads[0].RunNS == 0, "%+v", o)
}

func TestRecordedTreeStandsStill(t *testing.T) {
	o := Observe(t.Context(), treetest.Recorded(t, map[string]string{"proc/stat": ""}), &facts.Host{}, setting.CPUs(1),
		time.Hour, Budget)
	must.Hold(t, len(o.Unseen) == 1 && o.Unseen[0].Why == "a recorded tree stands still", "%+v", o.Unseen)
}

// TestWideCounts: a count of more than ten digits shifts the later columns, and each is still read correctly.
func TestWideCounts(t *testing.T) {
	head := "           CPU0       CPU1       CPU2       CPU3\n"
	for _, first := range []uint64{7, 9_999_999_999, 10_000_000_000, 123_456_789_012, 1 << 60} {
		for _, last := range []uint64{0, 3, 33, 333, 11_111_111_111} {
			text := head + fmt.Sprintf(" 24: %10d %10d %10d %10d  PCI-MSI 1-edge      eth0\nNMI: %10d %10d %10d %10d   Non-maskable interrupts\n", first, 5, 6, last, 1, 2, 3, last)
			rows := irq.ParseCPUCounts(text, setting.CPUs(0, 2, 3, 9))
			if got := rows["24"]; got.Name != "eth0" || got.Number != 24 ||
				!slices.Equal(got.Counts, []uint64{first, 6, last, 0}) {
				t.Errorf("%d, %d: %+v", first, last, got)
			}
			if got := rows["NMI"]; got.Number != -1 || !slices.Equal(got.Counts, []uint64{1, 3, last, 0}) {
				t.Errorf("%d: %+v", last, got)
			}
		}
	}
}

// BenchmarkCounts reads the interrupts of a host with 512 CPUs and 1500 interrupts once.
func BenchmarkCounts(b *testing.B) {
	var text strings.Builder
	text.WriteString("     ")
	for cpu := range 512 {
		fmt.Fprintf(&text, "%8s%-3d", "CPU", cpu)
	}
	text.WriteString("\n")
	for irq := range 1500 {
		fmt.Fprintf(&text, "%4d:", irq)
		for range 512 {
			fmt.Fprintf(&text, " %10d", irq)
		}
		fmt.Fprintf(&text, "  PCI-MSI %d-edge      eth0-TxRx-%d\n", irq, irq)
	}
	whole, cpus := text.String(), setting.CPUSet{}
	for cpu := 4; cpu < 512; cpu++ {
		cpus = append(cpus, cpu)
	}
	for b.Loop() {
		irq.ParseCPUCounts(whole, cpus)
	}
}
