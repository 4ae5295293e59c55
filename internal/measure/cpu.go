package measure

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of /proc/stat: USER_HZ is 100 on every architecture that mpps supports
// (include/asm-generic/param.h).
const userHZ = 100

// Ticks are the times that one CPU spent in each state, in ticks of 1/100 s. User excludes guest time and Nice excludes
// guest_nice: the kernel counts guest time in both columns (account_guest_time in kernel/sched/cputime.c) and ParseStat
// subtracts it.
type Ticks struct {
	User    uint64 `json:"user"`
	Nice    uint64 `json:"nice"`
	System  uint64 `json:"system"`
	Idle    uint64 `json:"idle"`
	IOWait  uint64 `json:"iowait"`
	IRQ     uint64 `json:"irq"`
	SoftIRQ uint64 `json:"softirq"`
	Steal   uint64 `json:"steal"`
	Guest   uint64 `json:"guest"` // guest and guest_nice
}

// CPUTimes are the totals since boot of the online CPUs, by CPU number.
type CPUTimes struct {
	Taken time.Time     `json:"taken"` // includes a monotonic reading if taken in this process
	CPU   map[int]Ticks `json:"cpu"`
}

// ParseStat reads the cpuN lines of /proc/stat. Columns that old kernels lack (guest_nice came with 2.6.33) are 0. It
// fails on a file without a CPU line and on malformed numbers.
func ParseStat(r io.Reader) (CPUTimes, error) {
	times := CPUTimes{CPU: map[int]Ticks{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 4<<20) // machines with many interrupts have a long intr line
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		number, isCPU := strings.CutPrefix(name, "cpu")
		if !isCPU || number == "" {
			continue
		}
		cpu, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return CPUTimes{}, fmt.Errorf("/proc/stat: found %q, expected cpu and a number", name)
		}
		var column [10]uint64
		for i, field := range strings.Fields(rest) {
			if i == len(column) {
				break
			}
			if column[i], err = strconv.ParseUint(field, 10, 64); err != nil {
				return CPUTimes{}, fmt.Errorf("/proc/stat: %s: found %q, expected a count of ticks", name, field)
			}
		}
		guest, guestNice := column[8], column[9]
		times.CPU[int(cpu)] = Ticks{
			User: minus(column[0], guest), Nice: minus(column[1], guestNice), System: column[2], Idle: column[3],
			IOWait: column[4], IRQ: column[5], SoftIRQ: column[6], Steal: column[7], Guest: guest + guestNice,
		}
	}
	if err := lines.Err(); err != nil {
		return CPUTimes{}, fmt.Errorf("/proc/stat: %w", err)
	}
	if len(times.CPU) == 0 {
		return CPUTimes{}, fmt.Errorf("/proc/stat: found no line of a CPU")
	}
	return times, nil
}

// minus returns a − b, or 0 if b is larger because a counter went backwards: idle and iowait do (proc_stat(5)), and
// tick accounting lets guest run ahead of user within a tick.
func minus(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// CPUUse is how one CPU spent an interval, in seconds.
type CPUUse struct {
	CPU     int     `json:"cpu"`
	User    float64 `json:"user"`
	Nice    float64 `json:"nice"`
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	Guest   float64 `json:"guest"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"` // with iowait
}

// Busy returns the time in which the CPU worked, in seconds: all but idle and stolen time.
func (u CPUUse) Busy() float64 { return u.User + u.Nice + u.System + u.SoftIRQ + u.IRQ + u.Guest }

func (u CPUUse) plus(v CPUUse) CPUUse {
	return CPUUse{
		CPU: u.CPU, User: u.User + v.User, Nice: u.Nice + v.Nice, System: u.System + v.System,
		SoftIRQ: u.SoftIRQ + v.SoftIRQ, IRQ: u.IRQ + v.IRQ, Guest: u.Guest + v.Guest, Steal: u.Steal + v.Steal,
		Idle: u.Idle + v.Idle,
	}
}

// AddUse adds what CPUs spent to a list, CPU by CPU. It appends the CPUs that the list lacks.
func AddUse(list, more []CPUUse) []CPUUse {
	for _, u := range more {
		at := slices.IndexFunc(list, func(have CPUUse) bool { return have.CPU == u.CPU })
		if at < 0 {
			list = append(list, u)
		} else {
			list[at] = list[at].plus(u)
		}
	}
	return list
}

// MachineCPU is how the CPUs of a machine spent a trial.
type MachineCPU struct {
	Where   string   `json:"where"`   // "host", or the agent's address
	Seconds float64  `json:"seconds"` // between the two readings
	CPUs    []CPUUse `json:"cpus"`    // ascending
}

// Total returns the sum over all CPUs. Its CPU number is −1.
func (m MachineCPU) Total() CPUUse {
	total := CPUUse{}
	for _, u := range m.CPUs {
		total = total.plus(u)
	}
	total.CPU = -1
	return total
}

// Busy returns the busy time of the whole machine in seconds. It includes everything that ran, generator and receiver
// too if they ran there: kernel work for packets is in softirq and belongs to no process.
func (m MachineCPU) Busy() float64 { return m.Total().Busy() }

// Between returns how the CPUs spent the time between two readings. It leaves out CPUs that were offline at either.
//
// The kernel takes idle time from its clock (get_idle_time in fs/proc/stat.c) and stolen time from the hypervisor's,
// but samples everything else at its ticks, and ticks get lost: on a virtual machine with a late timer, 40 % of the
// time that tasks ran was in no column. Figures computed from the columns alone, as mpstat does, are wrong by as much.
// So the sampled columns only give the shares of the time that idle and steal leave. If one of those two went
// backwards, the sampled values stay as they are.
func Between(where string, before, after CPUTimes) MachineCPU {
	m := MachineCPU{Where: where, Seconds: after.Taken.Sub(before.Taken).Seconds()}
	for _, cpu := range slices.Sorted(maps.Keys(after.CPU)) {
		a, ok := before.CPU[cpu]
		if !ok {
			continue
		}
		b := after.CPU[cpu]
		u := CPUUse{
			CPU: cpu, User: spent(a.User, b.User), Nice: spent(a.Nice, b.Nice), System: spent(a.System, b.System),
			SoftIRQ: spent(a.SoftIRQ, b.SoftIRQ), IRQ: spent(a.IRQ, b.IRQ), Guest: spent(a.Guest, b.Guest),
			Steal: spent(a.Steal, b.Steal), Idle: spent(a.Idle, b.Idle) + spent(a.IOWait, b.IOWait),
		}
		if b.Idle >= a.Idle && b.IOWait >= a.IOWait && b.Steal >= a.Steal {
			u = u.fill(m.Seconds)
		}
		m.CPUs = append(m.CPUs, u)
	}
	return m
}

// fill scales the sampled times to the part of the interval that was neither idle nor stolen.
func (u CPUUse) fill(seconds float64) CPUUse {
	busy, sampled := max(0, seconds-u.Idle-u.Steal), u.Busy()
	if seconds <= 0 || sampled == 0 {
		return u
	}
	by := busy / sampled
	u.User, u.Nice, u.System = u.User*by, u.Nice*by, u.System*by
	u.SoftIRQ, u.IRQ, u.Guest = u.SoftIRQ*by, u.IRQ*by, u.Guest*by
	return u
}

func spent(before, after uint64) float64 { return float64(minus(after, before)) / userHZ }
