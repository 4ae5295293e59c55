package cpu

import (
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Times is a CPU's time since boot in ticks of /proc/stat, which are 10 ms on every machine (USER_HZ), and how often a
// thread was scheduled on it; −1 if the kernel does not count that.
type Times struct {
	busy, User, System, IRQ, SoftIRQ, Steal, Guest, Idle uint64 // user with nice and guests, idle with iowait
	Switches                                             int64
}

// ReadTimes returns the times of every online CPU.
func ReadTimes(m *tree.Tree) (map[int]Times, error) {
	text, err := m.Read("proc/stat")
	if err != nil {
		return nil, err
	}
	times := ParseTimes(text)
	if text, err := m.Read("proc/schedstat"); err == nil {
		switches := parseSchedstat(text)
		for cpu, t := range times {
			if n, known := switches[cpu]; known {
				t.Switches = n
				times[cpu] = t
			}
		}
	}
	return times, nil
}

// ParseTimes reads the rows cpuN of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal,
// guest, guest_nice. User and nice include the time of guests.
func ParseTimes(text string) map[int]Times {
	all := map[int]Times{}
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, "cpu")
		fields := strings.Fields(rest)
		if !is || len(fields) < 8 {
			continue
		}
		cpu, err := strconv.Atoi(fields[0])
		if err != nil || rest[0] == ' ' { // the sum over all CPUs
			continue
		}
		var n [10]uint64
		for i := range n {
			if i+1 < len(fields) {
				n[i], _ = strconv.ParseUint(fields[i+1], 10, 64)
			}
		}
		all[cpu] = Times{
			busy: n[0] + n[1] + n[2] + n[5] + n[6] + n[7], User: n[0] + n[1], System: n[2], Idle: n[3] + n[4],
			IRQ: n[5], SoftIRQ: n[6], Steal: n[7],
			Guest: n[8] + n[9], Switches: -1,
		}
	}
	return all
}

// parseSchedstat returns how often a thread other than the idle one was scheduled on each CPU: the ninth number of the
// rows cpuN (Documentation/scheduler/sched-stats.rst, "# of timeslices run on this cpu"). It is counted even if the
// rest is disabled (kernel/sched/stats.h, rq_sched_info_arrive).
func parseSchedstat(text string) map[int]int64 {
	all := map[int]int64{}
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, "cpu")
		fields := strings.Fields(rest)
		if !is || len(fields) < 10 {
			continue
		}
		cpu, err := strconv.Atoi(fields[0])
		n, errN := strconv.ParseInt(fields[9], 10, 64)
		if err == nil && errN == nil {
			all[cpu] = n
		}
	}
	return all
}

// TimesBetween returns the time in ms between two readings, for the CPUs in order that both have.
func TimesBetween(before, after map[int]Times, order []int) []facts.CPUTime {
	ms := func(a, b uint64) float64 { // some, such as iowait, can run backwards
		if b < a {
			return 0
		}
		return float64(b-a) * 10
	}
	all := []facts.CPUTime{}
	for _, cpu := range order {
		a, was := before[cpu]
		b, is := after[cpu]
		if !was || !is {
			continue
		}
		t := facts.CPUTime{
			CPU: cpu, Busy: ms(a.busy, b.busy), IRQ: ms(a.IRQ, b.IRQ), Softirq: ms(a.SoftIRQ, b.SoftIRQ),
			Steal: ms(a.Steal, b.Steal), Guest: ms(a.Guest, b.Guest), Switches: -1,
		}
		if a.Switches >= 0 && b.Switches >= a.Switches {
			t.Switches = b.Switches - a.Switches
		}
		all = append(all, t)
	}
	return all
}
