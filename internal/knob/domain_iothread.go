package knob

import (
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// ioThreads are the numbers of the I/O threads that a guest's definition gives it.
func ioThreads(g *facts.Guest) (paths []string) {
	if !strings.Contains(g.Definition, "<iothread") {
		return nil
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil
	}
	for _, n := range doc.Threads("iothreadpin") {
		if len(paths) < maxVCPUs {
			paths = append(paths, "iothreadpin/"+strconv.Itoa(n))
		}
	}
	return paths
}

var domainIOThreadPin = &Knob{
	ID: "domain.iothreadpin", Title: "I/O threads stay off the vCPUs' CPUs", Stage: datapath.Domain, Risk: goal.None,
	After: []string{"domain.emulatorpin"}, Tiers: pinned(),
	Doc: Doc{
		Want: "the emulator's CPUs, where the guest has I/O threads",
		Why: "An I/O thread serves the guest's disks, and polls for up to 32 µs each time before it sleeps. It has no pin unless it is given one: emulatorpin does not hold it, and it runs on every CPU that the guest may use, vCPUs' included, " +
			"just when the guest waits for a disk.",
		Cost:   "It shares the emulator's CPUs: a guest whose disks are as busy as its network wants one of its own.",
		Verify: "virsh iothreadinfo NAME; Cpus_allowed_list of the threads \"IO iothreadN\".",
		Traps: []string{
			"emulatorpin is not enough: I/O threads without a pin of their own follow the cpuset of <vcpu>, or none.",
			"<iothreads>1</iothreads> alone makes a thread that no disk uses: each disk names it (driver iothread='1').",
			"On an isolated CPU nothing balances it away: it stays beside the vCPU where it woke first.",
		},
		Sources: []Source{
			{"iothreadpin, and what holds without", "libvirt formatdomain, \"CPU Tuning\", \"IOThreads Allocation\"; src/qemu/qemu_process.c, qemuProcessSetupIOThread"},
			{"polling", "QEMU iothread.c, IOTHREAD_POLL_MAX_NS_DEFAULT"},
		},
	},
	Where: eachGuest(func(g *facts.Guest) bool { return managed(g) && len(ioThreads(g)) > 0 }, func(g *facts.Guest) []setting.Address {
		return pinsOf(ioThreads(g)...)(g)
	}),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		placed := v.Placement().Guest(g.Name)
		if placed == nil || len(placed.Emulator) == 0 {
			return Skips("no place for the guest on this host")
		}
		found := v.Readings.At(a)
		if set, err := setting.ParseCPUs(found.Value); found.State == setting.Known && err == nil && len(set) > 0 && len(set.And(placed.VCPUSet())) == 0 && len(set.And(v.quiet())) == 0 {
			return Fine("off all vCPUs of its guest")
		}
		return v.pin(g, a, placed.Emulator.String(), "without a pin of its own it runs on any CPU that the guest may use, its vCPUs' too").At(Medium)
	},
}
