package knob

import (
	"strings"

	"mpps/internal/goal"
	"mpps/internal/setting"
)

// attestOnly is a check of what only a person can see in the firmware's setup. The names of the switches are those that
// server makers use.
func attestOnly(id, title, why, cost, verify string, traps []string, where ...Source) *Knob {
	wanted := attestable[id][0]
	return firmware(Knob{
		ID: id, Title: title,
		Doc: Doc{
			Want: wishOf(id), Why: why, Cost: cost, Verify: strings.ReplaceAll(verify, "ID=VALUE", id+"="+wanted),
			Traps:   append(traps, "Updates of the firmware and replaced boards take it back to its default: attest it anew afterwards. The finding shows how old an attestation is."),
			Sources: append(where, benchmarked(id, wanted)),
		},
		Want: func(v *View, a setting.Address) Advice {
			if advice, ok := v.onMetal(); !ok {
				return advice
			}
			return v.attested(id, why, Low)
		},
	})
}

// wishOf is what an attestation should say.
func wishOf(id string) string {
	if id == "firmware.wr_crc" {
		return attestable[id][0] + "; disabled for benchmarks only"
	}
	return attestable[id][0]
}

// benchmarked is how a switch stood in the founding measurements. Write CRC was off there, which mpps does not ask of hosts
// that hold somebody's data.
func benchmarked(id, wanted string) Source {
	if id == "firmware.wr_crc" {
		wanted = "disabled"
	}
	return Source{wanted + " in the benchmark setup", "founding measurements"}
}

const inSetup = "The firmware's setup shows it (names differ by maker); ipmitool or the maker's tool (racadm, ilorest, onecli) reads it from outside. Then: mpps attest ID=VALUE --by NAME."

var firmwareDeadLine = attestOnly("firmware.llc_dead_line_alloc", "LLC dead line allocation",
	"Lines that a core evicts and will hardly use again (\"dead\") are still put into the last-level cache if it has room. They push out lines that NICs have written there directly for the CPUs to read (DDIO).",
	"Loads that do come back to such lines find them in memory.", inSetup,
	[]string{"Intel since Skylake-SP only; with few NICs and large caches it makes no difference that can be measured."},
	Source{"what the switch does", "Intel, Xeon Scalable BIOS settings for HPC and latency (LLC Dead Line Alloc)"})

var firmwareStaleAtoS = attestOnly("firmware.stale_atos", "Stale A to S directory optimization",
	"A line that the directory believes to be in another socket (state A) is snooped there on each read even when nobody has it any more. With the optimization the directory is corrected to shared (S), and reads across sockets stop asking.",
	"Writes right after such a read take a little longer.", inSetup,
	[]string{"Two sockets and more; Intel since Skylake-SP. It helps guests that read another socket's memory, which a good placement avoids."},
	Source{"directory states", "Intel, Xeon Scalable BIOS settings (Stale AtoS)"})

var firmwareWrCRC = attestOnly("firmware.wr_crc", "DDR4 write CRC",
	"The memory checks a checksum with each write. It takes two of ten transfers of a write burst, and finds errors on the way to the memory that ECC, which is checked on reading, finds late.",
	"Keeping it on costs some per cent of write bandwidth; switched off, an error on the bus is written and found when it is read.", inSetup,
	[]string{"Off belongs to benchmarks only: hosts that hold somebody's data keep it on, and mpps asks for nothing else. Many boards have it off by default because their memory does not offer it."},
	Source{"write CRC", "JEDEC JESD79-4, Write CRC"})

var firmwarePatrol = attestOnly("firmware.patrol_scrub", "Patrol scrub",
	"The memory controller reads through all memory in the background (once in 24 hours), corrects single-bit errors and writes lines back. The reads compete with packets for memory banks, which shows as rare delays.",
	"Single-bit errors stay where they are until a second one joins them: memory reliability suffers on hosts that run for months.", inSetup,
	[]string{"Worth it only where rare delays of microseconds count. With patrol scrub off, keep demand scrub on."},
	Source{"patrol scrubbing", "Documentation/admin-guide/RAS/main.rst; Documentation/edac/scrub.rst"})

var firmwareDemand = attestOnly("firmware.demand_scrub", "Demand scrub",
	"When a read meets an error that ECC can correct, the corrected line is written back to memory at once: a write in the middle of reads.",
	"Errors are corrected anew on each read and can grow into ones that cannot be. Memory without errors pays nothing either way.", inSetup,
	[]string{"Off makes a difference only on memory that has errors, which should be replaced instead."},
	Source{"demand scrubbing", "Documentation/admin-guide/RAS/main.rst"})

var firmwareRAS = attestOnly("firmware.ras_mode", "Memory RAS mode",
	"Mirroring writes everything twice and halves the memory; lockstep binds two channels into one and halves their number; sparing and ADDDC take bandwidth when they begin to work. Maximum performance uses all channels independently.",
	"Protection against the failure of a whole memory chip or module, beyond what ECC corrects.", inSetup,
	[]string{"Mirroring and lockstep need the modules placed for them: some boards switch them on by themselves when the places fit."},
	Source{"modes", "makers' memory guides (Dell: Memory Operating Mode; HPE: Advanced Memory Protection; Lenovo: Memory RAS)"})

// firmwareCOD is seen on Intel, where a socket that is split has more than one node.
var firmwareCOD = clusterOnDie()

func clusterOnDie() *Knob {
	k := attestOnly("firmware.cluster_on_die", "Cluster on die, sub-NUMA clustering",
		"Splits an Intel socket into two or four nodes, each with a part of the L3 cache. A NIC writes into the part of the node that it is attached to; a guest in the other part reads all packets over the die, and each part has too few cores for a large guest.",
		"Loads that fit into a part have shorter ways to memory.", "numactl -H shows one node a socket. "+inSetup,
		[]string{"AMD's NPS4 is the opposite case: there the nodes follow the memory controllers (firmware.numa_per_socket)."},
		Source{"sub-NUMA clustering", "Intel, Xeon Scalable family technical overview, Sub-NUMA Clustering"})
	unseen := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		c := v.Topology.Counts
		switch {
		case v.Virtual != "" || maker(v.Host) == "" || c.Packages == 0 || c.NUMANodes == 0:
			return unseen(v, a)
		case maker(v.Host) != "intel":
			return Skips("a matter of Intel's processors")
		}
		found := count(c.NUMANodes, "node") + " for " + count(c.Packages, "socket")
		if c.NUMANodes%c.Packages != 0 {
			return Unsure(found + ": the numbers do not fit, and which sockets are split cannot be told")
		}
		if c.NUMANodes > c.Packages {
			return seen(found, Wants(setting.Exact("a node a socket"), "the guest's CPUs and the NIC share only a part of the cache").At(Low))
		}
		return seen(found, Fine("the sockets are not split"))
	}
	return k
}

var firmwareNUMAOptimized = attestOnly("firmware.numa_optimized", "NUMA optimized memory",
	"On, the firmware tells the kernel which memory belongs to which socket. Off, it interleaves memory over the sockets and shows one node: every second access goes to the other socket, and no placement can help.",
	"Programs that know nothing of NUMA and need more than one socket's bandwidth run more evenly when it is off.", "numactl -H shows a node for each socket. "+inSetup,
	[]string{"Called \"Node Interleaving\" by some makers, with the opposite meaning: that one must be disabled."},
	Source{"nodes come from the SRAT table", "Documentation/mm/numa.rst; drivers/acpi/numa/srat.c"})

var firmwareErrorThreshold = attestOnly("firmware.correctable_error_threshold", "Correctable error threshold",
	"Firmware that counts corrected memory errors does so in system management mode: every so many errors all CPUs stop for it (SMI) for tens to hundreds of microseconds, and nothing in the operating system shows why.",
	"The firmware no longer logs modules that are about to fail; the kernel's own EDAC still counts.", "Under load 'turbostat --show SMI' counts none. "+inSetup,
	[]string{"SMIs have other reasons too (USB emulation, fan control, power capping): hwlat of the kernel's tracer finds them."},
	Source{"SMIs as hardware latency", "Documentation/trace/hwlat_detector.rst"})

var firmwareTXT = attestOnly("firmware.txt", "Trusted execution (TXT)",
	"Intel's measured launch. Where a measured launch took place the kernel forces the IOMMU on for all devices, translation included, and its own tboot code runs on power transitions.",
	"No measured boot; matters only where attestation of the platform is asked for by policy.", inSetup,
	[]string{"Some firmware switches VT-x or VT-d off together with TXT: look at firmware.vt_d afterwards."},
	Source{"tboot forces the IOMMU on", "Documentation/admin-guide/kernel-parameters.txt, intel_iommu=tboot_noforce; drivers/iommu/intel/iommu.c"})

var firmwareUSB3 = attestOnly("firmware.usb3", "USB 3 controller",
	"A server's USB controller serves the remote console's keyboard and media. Its polling wakes a core up and keeps the package from being quiet; legacy support for it is done in system management mode.",
	"USB media and the remote console's virtual drives are slow or gone.", inSetup,
	[]string{"Some boards have no other controller: then the remote console's keyboard goes with it."},
	Source{"SMIs as hardware latency", "Documentation/trace/hwlat_detector.rst"})

var firmwareLegacyUSB = attestOnly("firmware.legacy_usb", "Legacy USB support",
	"Makes USB keyboards look like PS/2 ones by system management mode: the firmware is called for each transfer, which stops all CPUs.",
	"No USB keyboard in boot menus that know no USB.", "Under load 'turbostat --show SMI' counts none. "+inSetup,
	[]string{"The kernel takes the controller over from the firmware when it loads its driver (drivers/usb/host/pci-quirks.c): the cost is there only before that, or where the driver is not loaded."},
	Source{"hand-over from the firmware", "drivers/usb/host/pci-quirks.c, quirk_usb_early_handoff"})

var firmwarePorts = attestOnly("firmware.port_60_64", "Port 60/64 emulation",
	"Accesses to the keyboard controller's ports are caught by the firmware in system management mode and answered for a USB keyboard. Whatever probes these ports stops all CPUs for a moment.",
	"USB keyboards do not work before the operating system has its drivers, in very old boot loaders.", inSetup,
	nil,
	Source{"the i8042 driver reads these ports", "drivers/input/serio/i8042-io.h"})

var firmwareContainment = attestOnly("firmware.enhanced_error_containment", "Enhanced error containment mode",
	"Marks data with errors that cannot be corrected as poisoned on their way instead of stopping the machine. The checks cost a little latency in the memory controller.",
	"An error that cannot be corrected stops the host instead of one process or guest: mind this on hosts with many guests.", inSetup,
	[]string{"Called \"poison\" or \"EEC\" as well; the kernel's recovery from machine checks builds upon it."},
	Source{"recovery builds on poisoned data", "Documentation/mm/hwpoison.rst; arch/x86/kernel/cpu/mce/severity.c"})

var firmwareCTDP = cTDP()

func cTDP() *Knob {
	k := attestOnly("firmware.ctdp", "Configurable TDP (AMD)",
		"The power that an EPYC socket may draw can be set within a range. At the lower end all cores slow down when they are all busy, which is what a packet host's cores are.",
		"Power and heat: the cooling must carry it.", "turbostat's PkgWatt under full load comes near the upper end of the range. "+inSetup,
		[]string{"Set the package power limit (PPL) to the same figure: the smaller of the two counts."},
		Source{"cTDP", "AMD, Workload Tuning Guide for EPYC processors, Power settings"})
	k.Tiers = tiers(goal.Aggressive, goal.Passthrough, goal.Realtime)
	always := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		if v.Virtual == "" && maker(v.Host) == "intel" {
			return Skips("a matter of AMD's and Hygon's processors")
		}
		return always(v, a)
	}
	return k
}
