package threads

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Disturbances repeatedly reads counters of what can keep a thread from running in time, on the measured CPUs and of a
// guest's threads. It sends no interrupt to a measured CPU: the SMI counter, which only the CPU itself can read, is
// read where the reader runs.
type Disturbances struct {
	m        *tree.Tree
	cpus     setting.CPUSet
	pid      int // QEMU, 0: no guest
	threads  []guestThread
	others   []facts.Counter // other threads seen on the CPUs, as counters
	files    map[facts.Counter]string
	looked   time.Time // the last call of look
	msr      *os.File
	kvm      []string
	idle     []idleState
	unseen   []string
	throttle []namedFile
}

// guestThread is a thread whose waits, page faults and migrations are counted.
type guestThread struct {
	tid  int
	name string
	cpu  int // where it ran last
	seen bool
	move uint64
}

type idleState struct {
	cpu  int
	name string
	file string
}

type namedFile struct {
	counter facts.Counter
	file    string
}

// lookEvery is how often other threads on the CPUs are searched, and maxOthers is how many are kept.
const (
	lookEvery = 2 * time.Second
	maxOthers = 48
)

// WatchDisturbances prepares reading what disturbs threads on these CPUs: the vCPU threads of a guest's QEMU process,
// or with pid 0 and no vCPUs whatever runs there.
func WatchDisturbances(m *tree.Tree, cpus setting.CPUSet, pid int, vcpus []int) *Disturbances {
	d := &Disturbances{m: m, cpus: cpus, pid: pid, files: map[facts.Counter]string{}}
	for _, tid := range vcpus {
		name := fmt.Sprintf("%s (%d)", trust.Name(m, pid, tid), tid)
		d.threads = append(d.threads, guestThread{tid: tid, name: name})
	}
	d.openSMI()
	if pid > 0 {
		d.findKVM()
	}
	for _, cpu := range cpus {
		folder := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		for _, state := range m.List(folder + "cpuidle") {
			name, latency := m.Line(folder+"cpuidle/"+state+"/name"), m.Number(folder+"cpuidle/"+state+"/latency", 0)
			if latency > 1 { // states without exit latency, such as polling, do not disturb
				d.idle = append(d.idle, idleState{cpu, fmt.Sprintf("%s (%d µs to leave)", name, latency), folder +
					"cpuidle/" + state + "/usage"})
			}
		}
		for _, name := range []string{"core_throttle_count", "package_throttle_count"} {
			if file := folder + "thermal_throttle/" + name; m.Exists(file) {
				d.throttle = append(d.throttle,
					namedFile{facts.Counter{Kind: facts.Throttle, Name: strings.TrimSuffix(name, "_throttle_count"),
						CPU: cpu}, file})
			}
		}
		if file := folder + "cpufreq/stats/total_trans"; m.Exists(file) {
			d.throttle = append(d.throttle, namedFile{facts.Counter{Kind: facts.Frequency, CPU: cpu}, file})
		}
	}
	if !m.Exists("proc/schedstat") {
		d.addUnseen("context switches of CPUs: the kernel keeps no /proc/schedstat (CONFIG_SCHEDSTATS)")
	}
	if len(d.idle) == 0 {
		d.addUnseen("idle states: the CPUs show none that take time to leave")
	}
	return d
}

func (d *Disturbances) addUnseen(text string) { d.unseen = append(d.unseen, text) }

// Unseen returns what could not be counted, with the reason.
func (d *Disturbances) Unseen() []string { return slices.Clone(d.unseen) }

// Close closes the SMI counter.
func (d *Disturbances) Close() error {
	if d.msr == nil {
		return nil
	}
	return d.msr.Close()
}

// Tally reads all counters. It omits those that cannot be read this time.
func (d *Disturbances) Tally() facts.Tally {
	t := facts.Tally{}
	if times, err := cpu.ReadTimes(d.m); err == nil {
		addTimes(times, d.cpus, t)
	}
	if text, err := d.m.Read("proc/interrupts"); err == nil {
		addInterrupts(text, d.cpus, t)
	}
	if text, err := d.m.Read("proc/softirqs"); err == nil {
		addSoftIRQs(text, d.cpus, t)
	}
	if text, err := d.m.Read("proc/vmstat"); err == nil {
		addMemory(text, t)
	}
	d.readSMI(t)
	for _, name := range d.kvm {
		d.addNumber(facts.Counter{Kind: facts.VMExit, Name: path.Base(name), CPU: -1}, name, t)
	}
	for _, s := range d.idle {
		d.addNumber(facts.Counter{Kind: facts.IdleEntry, Name: s.name, CPU: s.cpu}, s.file, t)
	}
	for _, f := range d.throttle {
		d.addNumber(f.counter, f.file, t)
	}
	for i := range d.threads {
		d.readThread(&d.threads[i], t)
	}
	if time.Since(d.looked) > lookEvery {
		d.findOthers()
	}
	for _, c := range d.others {
		if r, err := parseRuns(d.m.Line(d.files[c])); err == nil {
			t[c] = r.NS
		}
	}
	return t
}

func (d *Disturbances) addNumber(c facts.Counter, file string, t facts.Tally) {
	if n, err := strconv.ParseUint(d.m.Line(file), 10, 64); err == nil {
		t[c] = n
	}
}

func (d *Disturbances) taskFile(tid int, name string) string {
	return fmt.Sprintf("proc/%d/task/%d/%s", d.pid, tid, name)
}

// readThread reads a vCPU thread: its wait for a CPU, its page faults, and whether it migrated.
func (d *Disturbances) readThread(g *guestThread, t facts.Tally) {
	counter := func(kind facts.Disturbance) facts.Counter { return facts.Counter{Kind: kind, Name: g.name, CPU: -1} }
	if r, err := parseRuns(d.m.Line(d.taskFile(g.tid, "schedstat"))); err == nil {
		t[counter(facts.RunDelay)] = r.Waited
	}
	text, err := d.m.Read(d.taskFile(g.tid, "stat"))
	if err != nil {
		return
	}
	faults, cpu, ok := parseFaults(text)
	if !ok {
		return
	}
	if g.seen && cpu != g.cpu {
		g.move++
	}
	g.cpu, g.seen = cpu, true
	t[counter(facts.PageFault)], t[counter(facts.Migration)] = faults, g.move
}

// findOthers finds threads whose last CPU is a measured one, except those of the measurement itself.
func (d *Disturbances) findOthers() {
	d.looked = time.Now()
	self := os.Getpid()
	for _, p := range d.m.List("proc") {
		pid, err := strconv.Atoi(p)
		if err != nil || pid == self {
			continue
		}
		folder := d.m.Folder("proc/" + p + "/task")
		for _, name := range folder.Names() {
			text, there := folder.Text(name + "/stat")
			if !there {
				continue
			}
			task, err := trust.ParseStat(text)
			if err != nil || !slices.Contains(d.cpus, task.CPU) || strings.HasPrefix(task.Comm, "swapper/") ||
				d.isMeasured(task.TID) || d.isTool(pid) {
				continue
			}
			c := facts.Counter{Kind: facts.OtherThread, Name: fmt.Sprintf("%s (%d)", task.Comm, task.TID),
				CPU: task.CPU}
			if _, known := d.files[c]; known || len(d.others) == maxOthers {
				continue
			}
			d.files[c] = fmt.Sprintf("proc/%d/task/%d/schedstat", pid, task.TID)
			d.others = append(d.others, c)
		}
		folder.Close()
	}
}

func (d *Disturbances) isMeasured(tid int) bool {
	return slices.ContainsFunc(d.threads, func(g guestThread) bool { return g.tid == tid })
}

// isTool reports whether a process is the measuring program, a child of ours, when the host itself is measured.
func (d *Disturbances) isTool(pid int) bool {
	if d.pid > 0 {
		return false
	}
	text, err := d.m.Read("proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	t, err := trust.ParseStat(text)
	return err == nil && t.Parent == os.Getpid()
}

// findKVM finds the guest's exit counters (virt/kvm/kvm_main.c, kvm_create_vm_debugfs: a folder PID-FD with sums over
// the vCPUs).
func (d *Disturbances) findKVM() {
	const folder = "sys/kernel/debug/kvm"
	for _, name := range d.m.List(folder) {
		if !strings.HasPrefix(name, strconv.Itoa(d.pid)+"-") {
			continue
		}
		for _, file := range d.m.List(folder + "/" + name) {
			if file == "exits" || strings.HasSuffix(file, "_exits") {
				d.kvm = append(d.kvm, folder+"/"+name+"/"+file)
			}
		}
	}
	if len(d.kvm) == 0 {
		d.addUnseen("exits of the guest: there is no " + folder + "/" + strconv.Itoa(d.pid) +
			"-* (debugfs not mounted, or without KVM)")
	}
}
