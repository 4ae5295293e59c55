package cpu

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// cpusetFiles is the mount point and the names of a cpuset's files in one cgroup version.
type cpusetFiles struct {
	mount     string // relative to the root
	unified   bool   // version 2
	cpus      string
	effective string
}

// findFiles finds the cpuset hierarchy and its file names; false if there is none.
func findFiles(m *tree.Tree) (cpusetFiles, bool) {
	found, ok := FindCpusets(m)
	f := cpusetFiles{mount: found.Folder, cpus: strings.TrimSuffix(found.CPUs, ".effective")}
	if f.unified = f.cpus != found.CPUs; f.unified {
		f.effective = found.CPUs
	} else {
		f.effective = strings.TrimSuffix(f.cpus, "cpus") + "effective_cpus"
	}
	return f, ok
}

// Cpusets returns the cpusets of the top-level groups, of running guests and their threads, and of the groups above the
// guests (libvirt, src/util/vircgroup.c, virCgroupNewThread: SCOPE/libvirt/{emulator,vcpuN,iothreadN}; older versions
// without the folder libvirt), sorted by path.
func Cpusets(m *tree.Tree, guests []facts.Guest) []facts.Cgroup {
	all := []facts.Cgroup{}
	files, ok := findFiles(m)
	if !ok {
		return all
	}
	seen := map[string]bool{}
	add := func(name, guest, part string) {
		if seen[name] || name == "" || name == "." {
			return
		}
		seen[name] = true
		if c, ok := cpuset(m, files, name); ok {
			c.Guest, c.Part = guest, part
			all = append(all, c)
		}
	}
	for _, name := range m.List(files.mount) {
		if strings.HasSuffix(name, ".slice") || strings.HasSuffix(name, ".scope") ||
			strings.HasPrefix(m.Line(path.Join(files.mount, name, "cpuset.cpus.partition")), "isolated") ||
			name == "machine" {
			add(name, "", "")
		}
	}
	for i := range guests {
		scope := scopeOf(m, files, guests[i].PID)
		if scope == "" {
			continue
		}
		for at := range len(scope) { // the groups above, top level first
			if scope[at] == '/' {
				add(scope[:at], "", "")
			}
		}
		add(scope, guests[i].Name, "")
		for _, folder := range []string{scope + "/libvirt", scope} {
			for _, part := range m.List(path.Join(files.mount, folder)) {
				if threadGroup(part) {
					add(folder+"/"+part, guests[i].Name, part)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b facts.Cgroup) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// threadGroup reports whether a group name is one that libvirt gives to threads of a guest.
func threadGroup(name string) bool {
	if name == "emulator" {
		return true
	}
	for _, prefix := range []string{"vcpu", "iothread"} {
		if rest, is := strings.CutPrefix(name, prefix); is {
			_, err := strconv.Atoi(rest)
			return err == nil
		}
	}
	return false
}

// scopeOf returns a guest's group below the mount point; empty if it is the root or unknown. The QEMU process itself is
// in the emulator's group.
func scopeOf(m *tree.Tree, files cpusetFiles, pid int) string {
	if pid == 0 {
		return ""
	}
	text, err := m.Read("proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		group := ""
		if files.unified {
			var is bool
			if group, is = strings.CutPrefix(line, "0::"); !is {
				continue
			}
		} else if _, rest, found := strings.Cut(line, ":"); found {
			controllers, name, _ := strings.Cut(rest, ":")
			if !slices.Contains(strings.Split(controllers, ","), "cpuset") {
				continue
			}
			group = name
		}
		group = strings.Trim(path.Clean("/"+strings.TrimSpace(group)), "/")
		if threadGroup(path.Base(group)) {
			group = path.Dir(group)
		}
		if path.Base(group) == "libvirt" {
			group = path.Dir(group)
		}
		if group == "." {
			return ""
		}
		return group
	}
	return ""
}

// cpuset reads the cpuset of a group; false if it has none.
func cpuset(m *tree.Tree, files cpusetFiles, name string) (facts.Cgroup, bool) {
	dir := path.Join(files.mount, name)
	effective, err := m.Read(dir + "/" + files.effective)
	if err != nil {
		return facts.Cgroup{}, false
	}
	set, _ := setting.ParseCPUs(effective)
	return facts.Cgroup{
		Path: name, CPUs: tree.OrEmpty(m.CPUs(dir + "/" + files.cpus)), Effective: tree.OrEmpty(set),
		Partition: m.Line(dir + "/cpuset.cpus.partition"),
	}, true
}
