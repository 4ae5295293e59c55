package host

import (
	"strconv"
	"strings"

	"mpps/internal/facts"
)

// cpuTimes is where each CPU's time went since boot, in ticks of /proc/stat, which are a hundredth of a second on every machine
// (USER_HZ), and how often a thread came onto it; −1 where the kernel does not count that.
type cpuTimes struct {
	busy, user, system, irq, softirq, steal, guest, idle uint64 // user with nice and guests, idle with iowait
	switches                                             int64
}

// cpuTimes reads them for every online CPU.
func (m *Machine) cpuTimes() (map[int]cpuTimes, error) {
	text, err := m.Read("proc/stat")
	if err != nil {
		return nil, err
	}
	times := parseCPUTimes(text)
	if text, err := m.Read("proc/schedstat"); err == nil {
		switches := parseSchedstat(text)
		for cpu, t := range times {
			if n, counted := switches[cpu]; counted {
				t.switches = n
				times[cpu] = t
			}
		}
	}
	return times, nil
}

// parseCPUTimes reads the rows cpuN of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, guest,
// guest_nice. The time of guests stands in user and nice too.
func parseCPUTimes(text string) map[int]cpuTimes {
	all := map[int]cpuTimes{}
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, "cpu")
		fields := strings.Fields(rest)
		if !is || len(fields) < 8 {
			continue
		}
		cpu, err := strconv.Atoi(fields[0])
		if err != nil || rest[0] == ' ' { // the sum of all
			continue
		}
		var n [10]uint64
		for i := range n {
			if i+1 < len(fields) {
				n[i], _ = strconv.ParseUint(fields[i+1], 10, 64)
			}
		}
		all[cpu] = cpuTimes{
			busy: n[0] + n[1] + n[2] + n[5] + n[6] + n[7], user: n[0] + n[1], system: n[2], idle: n[3] + n[4], irq: n[5], softirq: n[6], steal: n[7],
			guest: n[8] + n[9], switches: -1,
		}
	}
	return all
}

// parseSchedstat reads how often a thread other than the idle one came onto each CPU: the ninth number of the rows cpuN
// (Documentation/scheduler/sched-stats.rst, "# of timeslices run on this cpu"), which is counted whether or not the rest is
// switched on (kernel/sched/stats.h, rq_sched_info_arrive).
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

// timesBetween is what passed between two looks.
func timesBetween(before, after map[int]cpuTimes, order []int) []facts.CPUTime {
	grown := func(a, b uint64) float64 { // iowait and the like run backwards at times
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
			CPU: cpu, Busy: grown(a.busy, b.busy), IRQ: grown(a.irq, b.irq), Softirq: grown(a.softirq, b.softirq),
			Steal: grown(a.steal, b.steal), Guest: grown(a.guest, b.guest), Switches: -1,
		}
		if a.switches >= 0 && b.switches >= a.switches {
			t.Switches = b.switches - a.switches
		}
		all = append(all, t)
	}
	return all
}
