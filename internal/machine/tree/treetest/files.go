package treetest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// Stat files as Linux 6.12, QEMU 10.0 and libvirt 11.3 wrote them.
const (
	StatVCPU = "297 (CPU 0/KVM) R 1 288 288 0 -1 138412224 5450 0 0 0 196 110 0 0 20 0 11 0 1789 848240640 14474 " +
		"18446744073709551615 93890074406912 93890081360181 140721684760144 0 0 0 2147219511 4096 16963 0 0 0 -1 1 0 " +
		"0 0 94 0 93890085011336 93890098569424 93890163195904 140721684763483 140721684766375 140721684766375 " +
		"140721684766684 0"
	StatVhost = "294 (vhost-289) S 1 288 288 0 -1 138428608 0 0 0 0 0 0 0 0 20 0 11 0 1787 848240640 14122 " +
		"18446744073709551615 93890074406912 93890081360181 140721684760144 0 0 0 2147221247 4096 16963 1 0 0 -1 3 0 " +
		"0 0 0 0 93890085011336 93890098569424 93890163195904 140721684763483 140721684766375 140721684766375 " +
		"140721684766684 0"
)

// Stat returns the stat file of a thread with a name, a start time in clock ticks, a CPU, an rt_priority and a policy.
func Stat(tid int, name string, started, cpu, priority, policy int) string {
	fields := strings.Fields(StatVhost[strings.LastIndexByte(StatVhost, ')')+1:])
	for at, value := range map[int]int{22: started, 39: cpu, 40: priority, 41: policy} {
		fields[at-3] = fmt.Sprint(value)
	}
	return fmt.Sprintf("%d (%s) %s", tid, name, strings.Join(fields, " "))
}

// StatLine returns a line of /proc/PID/stat with 52 fields; all but policy and rt_priority are zero.
func StatLine(pid int, comm string, policy, priority int) string {
	fields := make([]string, 50)
	for i := range fields {
		fields[i] = "0"
	}
	fields[0] = "S"
	fields[37], fields[38] = strconv.Itoa(priority), strconv.Itoa(policy)
	return strconv.Itoa(pid) + " (" + comm + ") " + strings.Join(fields, " ") + "\n"
}

// KernelStat returns the line of a thread of the kernel's, as StatLine does.
func KernelStat(pid int, comm string, policy, priority int) string {
	return OfKernel(StatLine(pid, comm, policy, priority)) + "\n"
}

// OfKernel returns a stat file as one of a thread of the kernel's: kthreadd started it, and PF_KTHREAD is set.
func OfKernel(stat string) string {
	const parent, flags = 4, 9 // fields of proc_pid_stat(5)
	end := strings.LastIndexByte(stat, ')') + 1
	fields := strings.Fields(stat[end:])
	fields[parent-3], fields[flags-3] = "2", strconv.Itoa(0x00200000)
	return stat[:end] + " " + strings.Join(fields, " ")
}

// Merged returns one tree with the files of several.
func Merged(trees ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, tree := range trees {
		maps.Copy(all, tree)
	}
	return all
}

// CPUTime returns the CPU time of this process. Unlike elapsed time, other work on the machine does not change it.
func CPUTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
