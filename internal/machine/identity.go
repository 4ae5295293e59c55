package machine

import (
	"strconv"
	"strings"
	"time"
)

// Identity returns the host's name and the random ID of this boot (Documentation/admin-guide/sysctl/kernel.rst,
// boot_id); empty if unknown.
func (m *Machine) Identity() (name, boot string) {
	return m.Line("proc/sys/kernel/hostname"), m.Line("proc/sys/kernel/random/boot_id")
}

// userHertz is the unit of times in /proc/PID/stat: 100 on every architecture that runs KVM (USER_HZ).
const userHertz = 100

// ProcessBegan returns the start time of a process: field 22 of /proc/PID/stat, in ticks since boot, which is "btime"
// of /proc/stat in seconds (proc(5)). It is the zero time if there is no such process.
func (m *Machine) ProcessBegan(pid int) time.Time {
	stat := m.Line("proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // from field 3: the name may have spaces
	if len(fields) < 20 {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(m.Line("proc/stat")) {
		if boot, found := strings.CutPrefix(line, "btime "); found {
			seconds, err := strconv.ParseInt(strings.TrimSpace(boot), 10, 64)
			if err != nil {
				return time.Time{}
			}
			return time.Unix(seconds, 0).Add(time.Duration(ticks) * time.Second / userHertz)
		}
	}
	return time.Time{}
}
