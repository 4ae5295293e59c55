package threads

import (
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/cpu"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// addTimes adds the CPUs' steal time in nanoseconds, counted in ticks of 10 ms, and their context switches.
func addTimes(times map[int]cpu.Times, cpus setting.CPUSet, t facts.Tally) {
	for _, cpu := range cpus {
		of, there := times[cpu]
		if !there {
			continue
		}
		t[facts.Counter{Kind: facts.Steal, CPU: cpu}] = of.Steal * 10_000_000
		if of.Switches >= 0 {
			t[facts.Counter{Kind: facts.ContextSwitch, CPU: cpu}] = uint64(of.Switches)
		}
	}
}

// interruptKinds are the rows of /proc/interrupts that belong to no device (arch/x86/kernel/irq.c,
// arch_show_interrupts).
var interruptKinds = map[string]facts.Disturbance{
	"NMI": facts.NMI, "PMI": facts.NMI, "MCE": facts.MachineCheck, "MCP": facts.MachineCheck, "DFR": facts.MachineCheck,
	"THR": facts.MachineCheck, "TRM": facts.Throttle,
	"RES": facts.IPI, "CAL": facts.IPI, "TLB": facts.IPI, "IWI": facts.IPI,
}

// addInterrupts adds the CPUs' counts in /proc/interrupts: a header with the CPUs, then a row for each source.
func addInterrupts(text string, cpus setting.CPUSet, t facts.Tally) {
	header, rest, _ := strings.Cut(text, "\n")
	var columns, numbers []int
	heads := strings.Fields(header)
	for i, name := range heads {
		cpu, err := strconv.Atoi(strings.TrimPrefix(name, "CPU"))
		if err == nil && slices.Contains(cpus, cpu) {
			columns, numbers = append(columns, i+1), append(numbers, cpu)
		}
	}
	for line := range strings.Lines(rest) {
		f := strings.Fields(line)
		if len(f) <= len(heads) {
			continue // ERR and MIS belong to no CPU
		}
		source := strings.TrimSuffix(f[0], ":")
		kind, known := interruptKinds[source]
		if !known {
			kind = facts.Interrupt
		}
		name := source + " " + strings.Join(f[len(heads)+1:], " ")
		if _, err := strconv.Atoi(source); err == nil { // a device: the name after chip and trigger
			name = source + " " + f[len(f)-1]
		}
		for i, at := range columns {
			if n, err := strconv.ParseUint(f[at], 10, 64); err == nil && n > 0 {
				t[facts.Counter{Kind: kind, Name: name, CPU: numbers[i]}] = n
			}
		}
	}
}

// addSoftIRQs adds the CPUs' counts in /proc/softirqs.
func addSoftIRQs(text string, cpus setting.CPUSet, t facts.Tally) {
	header, rest, _ := strings.Cut(text, "\n")
	heads := strings.Fields(header)
	for line := range strings.Lines(rest) {
		f := strings.Fields(line)
		if len(f) != len(heads)+1 {
			continue
		}
		for i, head := range heads {
			cpu, err := strconv.Atoi(strings.TrimPrefix(head, "CPU"))
			n, err2 := strconv.ParseUint(f[i+1], 10, 64)
			if err == nil && err2 == nil && slices.Contains(cpus, cpu) {
				t[facts.Counter{Kind: facts.SoftIRQ, Name: strings.TrimSuffix(f[0], ":"), CPU: cpu}] = n
			}
		}
	}
}

// memoryCounters are the counters in /proc/vmstat for work on pages that can block threads.
var memoryCounters = []string{"allocstall_normal", "allocstall_movable", "compact_stall", "numa_pages_migrated",
	"pgmigrate_success", "thp_collapse_alloc", "thp_split_page", "ksm_swpin_copy", "pswpin", "pswpout"}

func addMemory(text string, t facts.Tally) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && slices.Contains(memoryCounters, name) {
			t[facts.Counter{Kind: facts.Memory, Name: name, CPU: -1}] = n
		}
	}
}

// parseFaults returns the minor and major page faults and the last CPU in a stat file (proc_pid_stat(5)).
func parseFaults(text string) (faults uint64, cpu int, ok bool) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from field 3 on
	if len(f) <= 39-3 {
		return 0, 0, false
	}
	minor, err := strconv.ParseUint(f[10-3], 10, 64)
	major, err2 := strconv.ParseUint(f[12-3], 10, 64)
	cpu, err3 := strconv.Atoi(f[39-3])
	return minor + major, cpu, err == nil && err2 == nil && err3 == nil
}
