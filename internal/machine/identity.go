package machine

import (
	"strconv"
	"strings"
	"time"
)

// Identity is the host's name and the ID of this boot of its kernel (random:
// Documentation/admin-guide/sysctl/kernel.rst, boot_id); empty where the machine does not tell.
func (m *Machine) Identity() (name, boot string) {
	return m.Line("proc/sys/kernel/hostname"), m.Line("proc/sys/kernel/random/boot_id")
}

// userHertz is the unit of times in /proc/PID/stat: 100 on every architecture that runs KVM (USER_HZ).
const userHertz = 100

// ProcessBegan is when a process began: field 22 of /proc/PID/stat, in ticks since the boot that "btime" of /proc/stat
// tells in seconds (proc(5)). The zero time where there is no such process.
func (m *Machine) ProcessBegan(pid int) time.Time {
	stat := m.Line("proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // from field 3 on: the command may hold spaces
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
