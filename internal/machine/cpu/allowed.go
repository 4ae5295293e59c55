package cpu

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// cpusetMount is the mount point of a cpuset hierarchy and the names of its files.
type cpusetMount struct {
	Folder string // relative to the root
	CPUs   string // name of the file with a group's CPUs
	nodes  string
}

func unified(folder string) cpusetMount {
	return cpusetMount{folder, "cpuset.cpus.effective", "cpuset.mems.effective"}
}

func cgroup1(folder string) cpusetMount { return cpusetMount{folder, "cpuset.cpus", "cpuset.mems"} }

func noprefix(folder string) cpusetMount { return cpusetMount{folder, "cpus", "mems"} }

// FindCpusets finds the cpuset hierarchy: at the usual mount points, then in /proc/mounts
// (Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst).
func FindCpusets(m *tree.Tree) (cpusetMount, bool) {
	for _, mount := range []cpusetMount{
		unified("sys/fs/cgroup"), cgroup1("sys/fs/cgroup/cpuset"), noprefix("dev/cpuset"),
	} {
		if m.Exists(mount.Folder + "/" + mount.CPUs) {
			return mount, true
		}
	}
	mounts, err := m.Read("proc/mounts")
	if err != nil {
		return cpusetMount{}, false
	}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		folder, options := strings.TrimPrefix(path.Clean("/"+fields[1]), "/"), strings.Split(fields[3], ",")
		switch fields[2] {
		case "cgroup2":
			if slices.Contains(strings.Fields(m.Line(folder+"/cgroup.controllers")), "cpuset") {
				return unified(folder), true
			}
		case "cpuset":
			return noprefix(folder), true
		case "cgroup":
			switch {
			case !slices.Contains(options, "cpuset"):
			case slices.Contains(options, "noprefix"):
				return noprefix(folder), true
			default:
				return cgroup1(folder), true
			}
		}
	}
	return cpusetMount{}, false
}

// CpusetOf returns the cpuset group of a process, given its directory (proc/PID), and whether it could be read.
func CpusetOf(m *tree.Tree, process string) (string, bool) {
	if name := m.Line(process + "/cpuset"); name != "" {
		return name, true
	}
	groups, err := m.Read(process + "/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, found := strings.CutPrefix(rest, "cpuset:"); found {
			return name, true
		}
		if name, found := strings.CutPrefix(rest, ":"); found {
			return name, true
		}
	}
	return "", false
}

// allowed returns the CPUs and NUMA nodes of this process's cpuset, and whether it limits them.
func allowed(m *tree.Tree) (cpus, nodes mask, limitedCPUs, limitedNodes bool) {
	mount, found := FindCpusets(m)
	if !found {
		return nil, nil, false, false
	}
	name, found := CpusetOf(m, "proc/self") // in a recorded tree: the process that recorded it
	if !found {
		return nil, nil, false, false
	}
	group := path.Join(mount.Folder, path.Clean("/"+name))
	read := func(file string) (mask, bool) {
		text := m.Line(group + "/" + file)
		set, err := setting.ParseCPUs(text)
		return maskOf(set), err == nil && text != ""
	}
	cpus, limitedCPUs = read(mount.CPUs)
	nodes, limitedNodes = read(mount.nodes)
	return cpus, nodes, limitedCPUs, limitedNodes
}
