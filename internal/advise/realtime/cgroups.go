package realtime

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

var (
	cgroupPulls  = kind("cgroup.vcpu")
	cgroupNarrow = kind("cgroup.narrow")
	cgroupHelper = kind("cgroup.helper")
	cgroupHost   = kind("cgroup.host")
)

// judgeCgroups judges the control groups.
func judgeCgroups(v *view) {
	if v.h.Isolation == nil {
		v.addUnjudged("control groups", "they were not looked at")
		return
	}
	by := map[string]*guest{}
	for _, g := range v.guests {
		by[g.f.Name] = g
	}
	for _, c := range v.h.Isolation.Cgroups {
		switch g := by[c.Guest]; {
		case c.Guest == "":
			v.judgeHostGroup(c)
		case g == nil || !g.realtime || !g.defined:
		case strings.HasPrefix(c.Part, "vcpu"):
			v.judgeVCPUGroup(c, g)
		case c.Part != "":
			kind := strings.TrimRight(c.Part, "0123456789")
			v.addOverlap(cgroupHelper, c.Path, fmt.Sprintf("the group of guest %s's %s has", c.Guest, c.Part),
				c.Effective, fmt.Sprintf("virsh %spin %s %s --live", kind,
					strings.TrimSpace(word(c.Guest)+" "+strings.TrimPrefix(c.Part, kind)), v.houseList())).withCPUs()
		default:
			v.requireCPUs(c, g.pinnedCPUs(), "guest "+c.Guest)
		}
	}
}

// judgeHostGroup judges a group that belongs to no guest: machine.slice must have the CPUs of the guests, and other
// groups with a list of CPUs must not have quiet ones.
func (v *view) judgeHostGroup(c facts.Cgroup) {
	if c.Path == "machine.slice" || c.Path == "machine" || strings.HasPrefix(c.Path, "machine.slice/") {
		pins := setting.CPUSet{}
		for _, g := range v.guests {
			if g.realtime {
				pins = pins.Or(g.pinnedCPUs())
			}
		}
		v.requireCPUs(c, pins, "the guests")
		return
	}
	if !strings.HasPrefix(c.Partition, "isolated") {
		v.addOverlap(cgroupHost, c.Path, "its cpuset.cpus is", c.CPUs,
			"systemctl set-property -- "+word(c.Path)+" AllowedCPUs="+v.houseList()).withCPUs()
	}
}

// requireCPUs judges whether a group has the CPUs that its members need.
func (v *view) requireCPUs(c facts.Cgroup, need setting.CPUSet, whose string) {
	if len(c.Effective) == 0 {
		return
	}
	if missing := need.And(v.h.Topology.Online).Minus(c.Effective); len(missing) > 0 {
		v.add(cgroupNarrow, c.Path, missing, fmt.Sprintf("it has %s; for %s it lacks %s", c.Effective, whose,
			missing.Words()),
			fmt.Sprintf("systemctl set-property machine.slice AllowedCPUs=%s, or take AllowedCPUs out of its drop-in",
				c.Effective.Or(need))).withCPUs()
	}
}

// judgeVCPUGroup compares the group of a vCPU with its pin.
func (v *view) judgeVCPUGroup(c facts.Cgroup, g *guest) {
	n, err := strconv.Atoi(strings.TrimPrefix(c.Part, "vcpu"))
	if err != nil || n < 0 || n >= len(g.vcpus) || len(c.Effective) == 0 {
		return
	}
	pin := g.vcpus[n].pin.And(v.h.Topology.Online)
	if len(pin) > 0 && !pin.Equal(c.Effective) {
		v.add(cgroupPulls, c.Path, c.Effective.Or(pin),
			fmt.Sprintf("the group of guest %s's vCPU %d has %s, the pin is %s", c.Guest, n, c.Effective, pin),
			fmt.Sprintf("virsh vcpupin %s %d %s --live sets both", word(c.Guest), n, pin)).with("cpus",
			float64(len(c.Effective)))
	}
}
