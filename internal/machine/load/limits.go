package load

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// cpuGroups are the cgroups with a CPU limit (Documentation/admin-guide/cgroup-v2.rst, cpu.max;
// Documentation/scheduler/sched-bwc.rst).
type cpuGroups struct {
	mount   string // relative to the root; empty: none
	unified bool
	limited []string // below the mount
}

// mostGroups is how many groups are searched for a limit: a host with ten thousand containers has as many.
const mostGroups = 4096

// findCPUGroups finds the groups with a CPU limit.
func findCPUGroups(t *tree.Tree) cpuGroups {
	var g cpuGroups
	// "ip netns exec" mounts /sys again, without the mounts below it: process 1 and our parent still see the groups.
	for _, sys := range []string{"sys/fs/cgroup", "proc/1/root/sys/fs/cgroup", fmt.Sprintf("proc/%d/root/sys/fs/cgroup",
		os.Getppid())} {
		if t.Exists(sys + "/cgroup.controllers") {
			g = cpuGroups{mount: sys, unified: true}
			break
		}
		at := slices.IndexFunc([]string{"/cpu", "/cpu,cpuacct"},
			func(v1 string) bool { return t.Exists(sys + v1 + "/cgroup.procs") })
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
		if g.quota(t, name) > 0 {
			g.limited = append(g.limited, name)
		}
		for _, child := range t.List(path.Join(g.mount, name)) {
			below := path.Join(name, child)
			if !strings.Contains(child, ".") || strings.HasSuffix(child, ".slice") ||
				strings.HasSuffix(child, ".scope") || strings.HasSuffix(child, ".service") ||
				strings.HasSuffix(child, ".partition") {
				if t.Exists(path.Join(g.mount, below, "cgroup.procs")) {
					walk(below)
				}
			}
		}
	}
	walk("")
	return g
}

// quota returns how many CPUs a group may use; 0 if it is not limited.
func (g cpuGroups) quota(t *tree.Tree, name string) float64 {
	dir := path.Join(g.mount, name)
	var fields []string
	if g.unified {
		fields = strings.Fields(t.Line(dir + "/cpu.max"))
	} else {
		fields = []string{t.Line(dir + "/cpu.cfs_quota_us"), t.Line(dir + "/cpu.cfs_period_us")}
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

// groupLook is a group's limit and how long it has been throttled.
type groupLook struct {
	quota    float64 // CPUs
	throttle time.Duration
}

// readGroups reads the throttled time of each limited group.
func (w *Watch) readGroups() map[string]groupLook {
	all := map[string]groupLook{}
	for _, name := range w.cgroups.limited {
		all[name] = groupLook{w.cgroups.quota(w.tree, name),
			parseThrottled(w.tree.Line(path.Join(w.cgroups.mount, name, "cpu.stat")))}
	}
	return all
}

// parseThrottled returns the throttled time in cpu.stat: throttled_usec, with cgroup v1 throttled_time in nanoseconds.
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

// addLimits sets the quota and throttling of a thread: those of its group, or a group above, that was throttled longest
// or, if equal, has the smallest quota. The kernel sums over CPUs, so the time of a group that was throttled on several
// at once is limited to the interval.
func (w *Watch) addLimits(l *facts.ThreadLoad, before, after fullLook, seconds float64) {
	if len(w.cgroups.limited) == 0 {
		return
	}
	text, err := w.tree.Read("proc/" + strconv.Itoa(l.PID) + "/task/" + strconv.Itoa(l.TID) + "/cgroup")
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

// groupOf returns the group in a thread's cgroup file, below the mount point.
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
