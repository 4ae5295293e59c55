package lab

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// availableMiB is how much memory this process can take without swapping: MemAvailable, or what the narrowest memory
// limit of its control group and that group's parents leaves. where names that group; empty for the machine.
func availableMiB(root string) (mib int, where string, err error) {
	meminfo, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, "", err
	}
	available := uint64(math.MaxUint64)
	for line := range strings.Lines(string(meminfo)) {
		var kib uint64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			available = kib << 10
		}
	}
	if available == math.MaxUint64 {
		return 0, "", errors.New("/proc/meminfo: found no MemAvailable")
	}
	for _, g := range memoryGroups(root) {
		if left, ok := g.left(root); ok && left < available {
			available, where = left, " in the control group "+g.dir
		}
	}
	return int(available >> 20), where, nil
}

// memoryGroup is a control group that may bound memory, with the names of its files.
type memoryGroup struct{ dir, limit, usage, stat, reclaimable string }

// memoryGroups are the control groups that bound this process: its own and that group's parents, as far as they are
// mounted here, of version 2 and 1 (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
func memoryGroups(root string) (groups []memoryGroup) {
	own := map[string]string{} // path of the own group in the hierarchy, by the kind of its file system
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) { // HIERARCHY:CONTROLLERS:PATH
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) < 3:
		case f[1] == "":
			own["cgroup2"] = f[2]
		case hasWord(f[1], "memory"):
			own["cgroup"] = f[2]
		}
	}
	text, _ = os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	for line := range strings.Lines(string(text)) { // proc_pid_mountinfo(5)
		before, after, _ := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 {
			continue
		}
		path, ok := own[kind[0]]
		if !ok || kind[0] == "cgroup" && !hasWord(kind[2], "memory") {
			continue
		}
		names := memoryGroup{"", "memory.max", "memory.current", "memory.stat", "inactive_file"}
		if kind[0] == "cgroup" {
			names = memoryGroup{"", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
				"total_inactive_file"}
		}
		// In a container the mount may begin below the path's first folder, or the path be another namespace's.
		below, err := filepath.Rel(mount[3], path)
		if err != nil || !filepath.IsLocal(below) {
			below = "."
		}
		for at := below; ; at = filepath.Dir(at) {
			names.dir = filepath.Join(mount[4], at)
			groups = append(groups, names)
			if at == "." {
				break
			}
		}
	}
	return groups
}

// left is how many bytes the group may still take; false where it has no limit. Page cache not in use gives way.
func (g memoryGroup) left(root string) (uint64, bool) {
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(root, g.dir, name))
		return strings.TrimSpace(string(text))
	}
	limit, err := strconv.ParseUint(read(g.limit), 10, 64)
	usage, err2 := strconv.ParseUint(read(g.usage), 10, 64)
	if err != nil || err2 != nil { // "max", or no such file
		return 0, false
	}
	for line := range strings.Lines(read(g.stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if cache, err := strconv.ParseUint(value, 10, 64); err == nil && name == g.reclaimable {
			usage -= min(usage, cache)
		}
	}
	return limit - min(limit, usage), true
}

// hasWord reports whether a list that is separated by commas has a word.
func hasWord(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }
