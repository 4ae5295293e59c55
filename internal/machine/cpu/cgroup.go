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

// cpusetFiles are the names of a cpuset's files in one version of control groups.
type cpusetFiles struct {
	mount     string // relative to the root
	unified   bool   // version 2
	cpus      string
	effective string
}

// findFiles finds where the groups are and what their files are called; not ok where no hierarchy has cpusets.
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

// Cpusets lists the cpusets of the uppermost groups, of those above running guests, and of the guests with their
// threads (libvirt, src/util/vircgroup.c, virCgroupNewThread: SCOPE/libvirt/{emulator,vcpuN,iothreadN}; older versions
// without the folder libvirt).
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
		for at := 0; at < len(scope); at++ { // the groups above, the uppermost first
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

// threadGroup reports whether a group's name is that of some threads of a guest.
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

// scopeOf is the group of a guest's QEMU below the mount; empty where that is the root or could not be told. The
// process itself is in the group of the emulator.
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

// cpuset reads one group and whether it has a cpuset at all.
func cpuset(m *tree.Tree, files cpusetFiles, name string) (facts.Cgroup, bool) {
	dir := path.Join(files.mount, name)
	effective, err := m.Read(dir + "/" + files.effective)
	if err != nil {
		return facts.Cgroup{}, false
	}
	c := facts.Cgroup{Path: name, CPUs: setting.CPUSet{}, Effective: setting.CPUSet{},
		Partition: m.Line(dir + "/cpuset.cpus.partition")}
	if set, err := setting.ParseCPUs(effective); err == nil && set != nil {
		c.Effective = set
	}
	if set := m.CPUs(dir + "/" + files.cpus); set != nil {
		c.CPUs = set
	}
	return c, true
}
