package cpu

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

const scope = `machine.slice/machine-qemu\x2d1\x2drt1.scope`

// cpusetTree returns a tree of groups with the files of cgroup v2 or v1.
func cpusetTree(v2 bool, groups map[string]string) map[string]string {
	files := map[string]string{}
	for name, cpus := range groups {
		own, effective, _ := strings.Cut(cpus, ";")
		if v2 {
			files["sys/fs/cgroup/"+name+"/cpuset.cpus"] = own + "\n"
			files["sys/fs/cgroup/"+name+"/cpuset.cpus.effective"] = effective + "\n"
			files["sys/fs/cgroup/"+name+"/cpuset.cpus.partition"] = "member\n"
			continue
		}
		files["sys/fs/cgroup/cpuset/"+name+"/cpuset.cpus"] = own + "\n"
		files["sys/fs/cgroup/cpuset/"+name+"/cpuset.effective_cpus"] = effective + "\n"
	}
	return files
}

func TestCpusets(t *testing.T) {
	for _, c := range []struct {
		name  string
		v2    bool
		files map[string]string
		want  []string
	}{
		{"version 2", true, treetest.Merged(cpusetTree(true, map[string]string{
			"":                          ";0-7",
			"system.slice":              "0-3;0-3",
			"machine.slice":             ";0-7",
			scope:                       ";0-7",
			scope + "/libvirt":          ";0-7",
			scope + "/libvirt/vcpu0":    "4;4",
			scope + "/libvirt/vcpu1":    "5;5",
			scope + "/libvirt/vcpus":    "5;5",
			scope + "/libvirt/emulator": "0-3;0-3",
			"mine":                      "6-7;6-7",
			"other":                     "6;6",
		}), map[string]string{
			"proc/5000/cgroup":                            "0::/" + scope + "/libvirt/emulator\n",
			"sys/fs/cgroup/mine/cpuset.cpus.partition":    "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
			"sys/fs/cgroup/user.slice/cgroup.controllers": "memory pids\n", // without cpusets
		}), []string{
			"machine.slice   of  eff 0-7 member",
			scope + " rt1  of  eff 0-7 member",
			scope + "/libvirt/emulator rt1 emulator of 0-3 eff 0-3 member",
			scope + "/libvirt/vcpu0 rt1 vcpu0 of 4 eff 4 member",
			scope + "/libvirt/vcpu1 rt1 vcpu1 of 5 eff 5 member",
			"mine   of 6-7 eff 6-7 isolated invalid (Cpu list in cpuset.cpus not exclusive)",
			"system.slice   of 0-3 eff 0-3 member",
		}},
		{"version 1", false, treetest.Merged(cpusetTree(false, map[string]string{
			"":                   "0-7;0-7",
			"machine.slice":      "0-7;0-7",
			scope:                "0-7;0-7",
			scope + "/vcpu0":     "4;4",
			scope + "/emulator":  "0-3;0-3",
			scope + "/iothread1": "0-1;0-1",
		}), map[string]string{
			"proc/5000/cgroup": "11:memory:/" + scope + "\n4:cpuset:/" + scope + "/emulator\n1:name=systemd:/\n",
		}), []string{
			"machine.slice   of 0-7 eff 0-7 ",
			scope + " rt1  of 0-7 eff 0-7 ",
			scope + "/emulator rt1 emulator of 0-3 eff 0-3 ",
			scope + "/iothread1 rt1 iothread1 of 0-1 eff 0-1 ",
			scope + "/vcpu0 rt1 vcpu0 of 4 eff 4 ",
		}},
		{"none", true, map[string]string{"proc/5000/cgroup": "0::/\n"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := treetest.Recorded(t, c.files)
			var got []string
			for _, g := range Cpusets(m, []facts.Guest{{Name: "rt1", PID: 5000}, {Name: "off"}}) {
				got = append(got, fmt.Sprintf("%s %s %s of %s eff %s %s", g.Path, g.Guest, g.Part, g.CPUs, g.Effective,
					g.Partition))
			}
			must.Hold(t, strings.Join(got, "\n") == strings.Join(c.want, "\n"),
				"expected\n%s\nfound\n%s", strings.Join(c.want, "\n"), strings.Join(got, "\n"))
		})
	}
}
