package machine

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/model/facts"
)

// cpuGroups are the control groups with a limit of CPU time (Documentation/admin-guide/cgroup-v2.rst, cpu.max;
// Documentation/scheduler/sched-bwc.rst).
type cpuGroups struct {
	mount   string // relative to the root; empty: there are none
	unified bool
	limited []string // below the mount
}

// mostGroups bounds how many groups are looked at for a limit: a host of ten thousand containers has as many.
const mostGroups = 4096

// findCPUGroups looks for groups that limit CPU time.
func (m *Machine) findCPUGroups() cpuGroups {
	var g cpuGroups
	// Behind "ip netns exec" /sys is mounted again, without what lies below it: process 1 still sees the groups, and
	// who called it.
	for _, sys := range []string{"sys/fs/cgroup", "proc/1/root/sys/fs/cgroup", fmt.Sprintf("proc/%d/root/sys/fs/cgroup",
		os.Getppid())} {
		if m.Exists(sys + "/cgroup.controllers") {
			g = cpuGroups{mount: sys, unified: true}
			break
		}
		at := slices.IndexFunc([]string{"/cpu", "/cpu,cpuacct"},
			func(v1 string) bool { return m.Exists(sys + v1 + "/cgroup.procs") })
		if at >= 0 {
			g = cpuGroups{mount: sys + []string{"/cpu", "/cpu,cpuacct"}[at]}
			break
		}
	}
	if g.mount == "" {
		return g
	}
	left := mostGroups
	var walk func(name string)
	walk = func(name string) {
		if left--; left < 0 {
			return
		}
		if g.quota(m, name) > 0 {
			g.limited = append(g.limited, name)
		}
		for _, child := range m.List(path.Join(g.mount, name)) {
			below := path.Join(name, child)
			if !strings.Contains(child, ".") || strings.HasSuffix(child, ".slice") ||
				strings.HasSuffix(child, ".scope") || strings.HasSuffix(child, ".service") ||
				strings.HasSuffix(child, ".partition") {
				if m.Exists(path.Join(g.mount, below, "cgroup.procs")) {
					walk(below)
				}
			}
		}
	}
	walk("")
	return g
}

// quota is how many CPUs a group may use; 0 where it is not limited.
func (g cpuGroups) quota(m *Machine, name string) float64 {
	dir := path.Join(g.mount, name)
	var fields []string
	if g.unified {
		fields = strings.Fields(m.Line(dir + "/cpu.max"))
	} else {
		fields = []string{m.Line(dir + "/cpu.cfs_quota_us"), m.Line(dir + "/cpu.cfs_period_us")}
	}
	if len(fields) != 2 {
		return 0
	}
	quota, err := strconv.ParseFloat(fields[0], 64) // "max", −1
	period, errPeriod := strconv.ParseFloat(fields[1], 64)
	if err != nil || errPeriod != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return quota / period
}

// groupLook is what a group with a limit was held back.
type groupLook struct {
	quota    float64 // CPUs
	throttle time.Duration
}

// groups reads how long each limited group was held back.
func (w *LoadWatch) groups() map[string]groupLook {
	all := map[string]groupLook{}
	for _, name := range w.cgroups.limited {
		all[name] = groupLook{w.cgroups.quota(w.m, name),
			parseThrottled(w.m.Line(path.Join(w.cgroups.mount, name, "cpu.stat")))}
	}
	return all
}

// parseThrottled reads how long a group was held back: throttled_usec, in version 1 throttled_time in nanoseconds.
func parseThrottled(text string) time.Duration {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "throttled_usec":
			return time.Duration(n) * time.Microsecond
		case name == "throttled_time":
			return time.Duration(n)
		}
	}
	return 0
}

// limits tells by how much the group of a thread, or one above it, was held back: the one that was held back longest,
// or else has least. The kernel adds up over CPUs: the time of a group whose threads were held back on several at once
// is cut at the interval.
func (w *LoadWatch) limits(l *facts.ThreadLoad, before, after loadLook, seconds float64) {
	if len(w.cgroups.limited) == 0 {
		return
	}
	text, err := w.m.Read("proc/" + strconv.Itoa(l.PID) + "/task/" + strconv.Itoa(l.TID) + "/cgroup")
	if err != nil {
		return
	}
	own := w.cgroups.groupOf(text)
	for name, b := range after.groups {
		if name != "" && own != name && !strings.HasPrefix(own, name+"/") {
			continue
		}
		throttled := 0.0
		if a, was := before.groups[name]; was && b.throttle > a.throttle {
			throttled = min((b.throttle-a.throttle).Seconds()/seconds, 1)
		}
		if l.Quota == 0 || throttled > l.Throttle || throttled == l.Throttle && b.quota < l.Quota {
			l.Quota, l.Throttle = b.quota, throttled
		}
	}
}

// groupOf is the group that a thread's file cgroup names, below the mount.
func (g cpuGroups) groupOf(text string) string {
	for line := range strings.Lines(text) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, name, _ := strings.Cut(rest, ":")
		if g.unified && number == "0" || !g.unified && slices.Contains(strings.Split(controllers, ","), "cpu") {
			return strings.Trim(name, "/")
		}
	}
	return ""
}
