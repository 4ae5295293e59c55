package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

var vhostZeroCopy = &Knob{
	ID: "vhost.zero_copy", Title: "Zero-copy transmit stays off", Stage: datapath.Vhost, Risk: goal.GuestRestart, Check: true,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "0",
		Why: "experimental_zcopytx lends the guest's pages to the NIC instead of copying them. For small packets pinning costs more than copying 64 bytes, " +
			"a guest waits for the NIC to let go of its buffers, and batching from vhost to the tap is lost.",
		Cost:   "None: it is off by default.",
		Verify: "/sys/module/vhost_net/parameters/experimental_zcopytx is 0.",
		Traps: []string{
			"experimental_zcopytx=1 is old advice (it was the default until 2019) and helped large packets only.",
			"It is a load-time parameter: vhost_net must be unloaded with all guests down. mpps explains it and never plans it.",
			"It was reported broken over tun in 2025.",
		},
		Sources: []Source{
			{"off by default since 2019", "kernel commit 098eadce3c62 (vhost_net: disable zerocopy by default)"},
			{"load-time only", "drivers/vhost/net.c, module_param(experimental_zcopytx, int, 0444)"},
			{"large packets only", "founding measurements"},
		},
	},
	Where: fixed(setting.Of(setting.ModuleParam, "vhost_net", "experimental_zcopytx")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("0"), "zero copy loses batching and waits for the NIC: it helps large packets only").At(Low)
	},
}

var vhostThreads = &Knob{
	ID: "vhost.threads", Title: "A CPU for each vhost thread", Stage: datapath.Vhost, Risk: goal.None,
	After: []string{"nic.irq_affinity", "domain.vcpupin", "domain.emulatorpin", "domain.queues"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "a CPU for each, of the guest's node and no vCPU's",
		Why: "A vhost thread copies all packets of one queue pair. The scheduler puts it where there is time, often on a vCPU's CPU or on the other thread of its core, and moves it in the middle of a burst. " +
			"Each gets a CPU of its own on the guest's node, apart from all vCPUs; one or two threads carry several 100 kpps.",
		Cost:   "These CPUs are no longer there for vCPUs: the founding measurement gave vhost half of the host.",
		Verify: "Cpus_allowed_list in /proc/PID/task/TID/status of the threads vhost-PID; top -H shows each on its own CPU.",
		Traps: []string{
			"libvirt cannot pin them, and emulatorpin does not hold them reliably: they are placed directly.",
			"All are called vhost-PID with the QEMU process's number; which one serves which queue shows in their order of creation, and mpps says how sure it is.",
			"They are threads of the QEMU process since 6.4 and kernel threads before; with taskset -a on QEMU's process newer kernels move them too.",
			"They appear when the guest's driver starts the device, and anew with each guest start and hot plug: the placement ends with the guest.",
			"On the sibling threads of the vCPUs' cores they take half of the core from the vCPU.",
		},
		Sources: []Source{
			{"tasks of the owner since 6.4", "kernel commit 6e890c5d5021 (vhost: use vhost_tasks for worker threads)"},
			{"one worker for each vhost device, named vhost-<pid>", "drivers/vhost/vhost.c, vhost_worker_create"},
			{"14 vCPUs and 14 CPUs for vhost on 2×16 cores", "founding measurements"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, g := range h.Guests {
			for _, t := range g.Threads {
				if t.Role == "vhost" && t.NIC != "" && t.Queue >= 0 {
					all = append(all, setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, strconv.Itoa(t.Queue)))
				}
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		g := v.guests[a.Object()]
		if g == nil || !v.Goal.ForGuest(a.Object()) {
			return Skips("the goal is for guest " + v.Goal.Guest)
		}
		parts := strings.Split(a.Path, "/")
		queue, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil || len(parts) != 4 {
			return Skips("no such thread")
		}
		if slices.ContainsFunc(g.Threads, func(t facts.Thread) bool { return t.NIC == parts[2] && t.Sure == facts.NotByOrder }) {
			return Unsure("which thread serves it is in doubt: packets of its NIC did not make the threads run that the order of creation gives it")
		}
		placed := v.Placement().Guest(g.Name)
		if placed == nil {
			return Skips("no place for the guest on this host")
		}
		cpu, ok := placed.Queue(parts[2], queue)
		if !ok {
			return Skips("a thread that the placement does not know: the guest's definition has fewer queues")
		}
		reading := v.Readings.At(a)
		if cpus, err := setting.ParseCPUs(reading.Value); reading.State == setting.Known && err == nil && len(cpus) == 1 && v.vhostWell(g, placed, cpus[0]) {
			return Fine(fmt.Sprintf("CPU %d is its own, apart from all vCPUs", cpus[0]))
		}
		advice := Wants(setting.Exact(strconv.Itoa(cpu)), placed.VhostWhy).At(High)
		for _, t := range g.Threads {
			if t.Role == "vhost" && t.NIC == parts[2] && t.Queue == queue && t.Sure != "" {
				advice.Because += " (thread found by " + string(t.Sure) + ")"
			}
		}
		return advice
	},
}

// vhostWell tells whether a CPU to which one vhost thread is held serves the placement's purpose as well as its own
// choice: one of the CPUs that the placement has for the guest's vhost threads, with no more threads than it must have.
func (v *View) vhostWell(g *facts.Guest, placed *placement.Placed, cpu int) bool {
	pool := map[int]bool{}
	for _, w := range placed.Vhost {
		pool[w.CPU] = true
	}
	if !pool[cpu] {
		return false
	}
	held := 0
	for _, t := range g.Threads {
		reading := v.Readings.At(setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, strconv.Itoa(t.Queue)))
		if t.Role == "vhost" && reading.State == setting.Known && reading.Value == strconv.Itoa(cpu) {
			held++
		}
	}
	return held <= (len(placed.Vhost)+len(pool)-1)/len(pool)
}
