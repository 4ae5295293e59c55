package knob

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// kernelFeatures is what kernel versions brought to the packet path of a guest.
var kernelFeatures = []struct {
	major, minor int
	what         string
}{
	{4, 3, "halt polling that adapts"},
	{4, 6, "busy polling of vhost, for a limited time"},
	{4, 8, "ptr_ring between tap and vhost"},
	{4, 11, "MSG_MORE in tun_sendmsg (batches from vhost to tap)"},
	{4, 12, "zeroing of ring entries in batches"},
	{4, 13, "taking packets from the tap in batches"},
	{4, 20, "batches of XDP buffers from vhost to tap"},
}

// leastMajor.leastMinor is the version that the aggressive tier needs.
const leastMajor, leastMinor = 5, 4

// suitable reports whether a kernel is new enough for the aggressive tier and has no known fault.
func suitable(release string) bool {
	return since(release, leastMajor, leastMinor) && knownFault(release) == nil
}

// kernelFault is a fault in the stable releases major.minor.from up to before.
type kernelFault struct {
	major, minor, from, before int
	severity                   Severity
	what                       string
}

// fixed returns the first release of its series without the fault; "" if there is none.
func (f *kernelFault) fixed() string {
	if f.before == everAfter {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", f.major, f.minor, f.before)
}

// mended says which releases are without the fault.
func (f *kernelFault) mended() string {
	if fixed := f.fixed(); fixed != "" {
		return fixed + ", or another series"
	}
	return "another release"
}

// everAfter stands for a series that never got the fix.
const everAfter = 1 << 20

const (
	droppedGSO = "segmented packets of guests are dropped (\"bad gso\" in the log) where their last part is short: " +
		"TCP from guests slows down to a fraction"
	brokenUSO = "UDP segments that a guest leaves to the host (USO) get wrong lengths and checksums, depending on " +
		"the NIC's driver: QUIC and tunnels of guests lose most of them"
	noMarkTarget = "ip6tables cannot load the targets MARK, NFLOG and TRACE: rule sets with them are refused as a whole"
)

// kernelFaults are faults of the path of guests' packets; docs/knobs/kernel.version.md has the commits.
var kernelFaults = []kernelFault{
	// e269d79c7d35, backported; mended by 89add40066f9 and, in 6.1, also 6513eb3d3191
	{5, 15, 165, 167, High, droppedGSO},
	{6, 1, 103, 111, High, droppedGSO},
	{6, 6, 44, 46, High, droppedGSO},
	{6, 10, 3, 5, High, droppedGSO},
	// 0bfcb7b71e73, backported; mended by 306ed1728e84
	{6, 1, 113, 115, Medium, noMarkTarget},
	{6, 6, 57, 59, Medium, noMarkTarget},
	{6, 11, 4, 6, Medium, noMarkTarget},
	// 8c2e6b26ffe2 came with 6.16; 4174152771bf took it back for 6.17 and 6.16.10
	{6, 16, 1, 10, High, "vhost-net re-enables a transmit queue in the wrong state after errors: hangs and crashes"},
	// b10b446 came with 7.0; mended in 7.1.5
	{7, 0, 1, everAfter, High, brokenUSO},
	{7, 1, 1, 5, High, brokenUSO},
}

// knownFault returns what is wrong with a release; nil if nothing is known. A release whose third number is 0 is mostly
// a distribution's own numbering and tells nothing.
func knownFault(release string) *kernelFault {
	var major, minor, patch int
	if n, err := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); err != nil || n != 3 {
		return nil
	}
	return facts.Find(kernelFaults, func(f *kernelFault) bool {
		return major == f.major && minor == f.minor && patch >= f.from && patch < f.before
	})
}

// enterprise matches the mark of Enterprise Linux from 8 on, which brings newer features under an old number: vhost,
// tun and the network stack are rebased in its minor releases.
var enterprise = regexp.MustCompile(`\.el([89]|[1-9][0-9])(_|\.|$)`)

// featuresOf returns which of kernelFeatures a release lacks and has; both are empty if it cannot be parsed.
func featuresOf(release string) (missing, has []string) {
	if _, _, ok := version(release); !ok {
		return nil, nil
	}
	for _, b := range kernelFeatures {
		text := fmt.Sprintf("%s (%d.%d)", b.what, b.major, b.minor)
		if since(release, b.major, b.minor) {
			has = append(has, text)
		} else {
			missing = append(missing, text)
		}
	}
	return missing, has
}

var kernelVersion = &Knob{
	ID: "kernel.version", Title: "A kernel with batched vhost", Stage: datapath.Kernel, Risk: goal.Reboot, Check: true,
	Where: fixed(hostFact("kernel_version")),
	Want: func(v *View, a setting.Address) Advice {
		missing, has := featuresOf(v.Kernel.Release)
		fault := knownFault(v.Kernel.Release)
		switch {
		case len(missing)+len(has) == 0:
			return Unsure("the running kernel's version is not known")
		case fault != nil:
			return fact(v.Kernel.Release, exact(fault.mended(), fault.what).At(fault.severity))
		case len(missing) > 0 && enterprise.MatchString(v.Kernel.Release):
			return fact(v.Kernel.Release, Fine("its vendor brings newer features under this number, which tells "+
				"nothing: measure"))
		case len(missing) == 0 && (suitable(v.Kernel.Release) || v.Tier == goal.Standard):
			return fact(v.Kernel.Release, Fine("it has "+strings.Join(has, ", ")))
		case len(missing) == 0:
			return fact(v.Kernel.Release, exact("5.4 or newer",
				"it has "+strings.Join(has, ", ")+"; the rates of this tier were reached with 5.4").At(Low))
		}
		because := "it lacks " + strings.Join(missing, ", ")
		if v.Tier == goal.Standard {
			return fact(v.Kernel.Release, Fine(because+"; the target can do without"))
		}
		return fact(v.Kernel.Release, exact("5.4 or newer", because).At(High))
	},
}

var kernelDefault = &Knob{
	ID: "kernel.default", Title: "The newest suitable kernel is booted by default",
	Stage: datapath.Kernel, Risk: goal.Reboot, Asked: true,
	Where: fixed(setting.Of(setting.BootKernel, "default")),
	Want: func(v *View, a setting.Address) Advice {
		next, known := v.Boot.NextEntry()
		switch {
		case v.Boot == nil:
			return Unsure("no boot loader's files can be seen")
		case !known:
			return Unsure("which kernel is booted next is not known: " + v.Boot.Why)
		case next.Version == "":
			return Unsure("the version of the kernel that is booted next is not known: " + next.Linux)
		}
		best := ""
		for _, e := range v.Boot.Entries {
			if !e.Recovery && e.Version != "" && v.suits(e.Version) && (best == "" || facts.CompareVersions(e.Version,
				best) > 0) {
				best = e.Version
			}
		}
		runs := ""
		if v.Kernel.Release != "" && v.Kernel.Release != next.Version {
			runs = ", and " + v.Kernel.Release + " runs"
		}
		switch {
		case best == "" && knownFault(next.Version) == nil && enterprise.MatchString(next.Version) &&
			v.Tier != goal.Realtime:
			return Fine("its vendor brings newer features under this number, which tells nothing: measure")
		case best == "":
			if v.Tier == goal.Realtime && !slices.Contains(realtimeArchs, v.Architecture()) {
				return Skips("no kernel of " + v.Architecture() + " is PREEMPT_RT and has KVM")
			}
			return atReboot(exact(v.suitableWords(next.Version), "no suitable kernel is installed: "+
				v.installHint()).At(High))
		case next.Version == best && v.Kernel.Release != "" && v.Kernel.Release != best:
			return Fine("waiting for a reboot: the newest suitable kernel is the default" + runs)
		case next.Version == best:
			return Fine("the newest suitable kernel that is installed")
		}
		advice := exact(best, "a newer suitable kernel is installed and not the default"+runs).At(Low)
		if !v.suits(next.Version) {
			advice = advice.At(High)
		}
		return atReboot(advice)
	},
}

// atReboot marks advice that takes effect at the next boot.
func atReboot(a Advice) Advice { a.Needs = setting.Reboot(); return a }

// suits reports whether a kernel meets the goal.
func (v *View) suits(release string) bool {
	if v.Tier == goal.Realtime {
		return realtimeRelease(release)
	}
	return v.Tier == goal.Standard || suitable(release)
}

// realtimeRelease reports whether a release is named as distributions name PREEMPT_RT kernels: "6.1.0-40-rt-amd64",
// "5.14.0-427.13.1.rt14.1.el9", "6.12.48+deb13-rt-amd64".
func realtimeRelease(release string) bool {
	for _, part := range strings.FieldsFunc(release, func(r rune) bool { return r == '-' || r == '.' || r == '+' }) {
		if rest, found := strings.CutPrefix(part, "rt"); found && strings.Trim(rest, "0123456789") == "" {
			return true
		}
	}
	return false
}

// suitableWords says which kernel a release should make room for.
func (v *View) suitableWords(release string) string {
	fault := knownFault(release)
	switch {
	case v.Tier == goal.Realtime:
		return "a PREEMPT_RT kernel"
	case fault != nil:
		return fault.mended()
	}
	return "5.4 or newer"
}

// installHint names the packages that bring a suitable kernel on this distribution.
func (v *View) installHint() string {
	s := v.System
	family := s.ID + " " + strings.Join(s.Like, " ")
	switch {
	case v.Tier == goal.Realtime:
		return v.realtimeHint(family)
	case strings.HasSuffix(v.Kernel.Release, "-pve"):
		return "upgrade Proxmox VE"
	case strings.Contains(v.Kernel.Release, "+rpt-rpi"):
		return "upgrade Raspberry Pi OS"
	case s.ID == "fedora":
		return "upgrade the distribution"
	case strings.Contains(family, "ubuntu"):
		return "install the hardware enablement kernel (linux-generic-hwe), or upgrade the distribution"
	case strings.Contains(family, "debian"):
		return "install linux-image of a newer release (backports), or upgrade the distribution"
	case s.Version == "7" || strings.HasPrefix(s.Version, "7."):
		return "install a newer linux-firmware first, then kernel-uek 5.4.17 (Oracle's repository) or " +
			"kernel-lt (ELRepo)"
	case strings.Contains(family, "rhel"), strings.Contains(family, "fedora"):
		return "install kernel-uek or kernel-lt (ELRepo), or upgrade the distribution"
	}
	return "install one from the distribution"
}

// realtimeHint names the packages that bring a PREEMPT_RT kernel, as far as they exist for the architecture.
func (v *View) realtimeHint(family string) string {
	const build = "build one (CONFIG_PREEMPT_RT, in mainline since 6.12)"
	arch := v.Architecture()
	common := arch == facts.X86 || arch == facts.ARM64
	switch {
	case strings.HasSuffix(v.Kernel.Release, "-pve"):
		return "Proxmox VE has none, and one of Debian's lacks what its storage needs: build one"
	case strings.Contains(v.Kernel.Release, "+rpt-rpi"):
		return "Raspberry Pi OS has none, and Debian's lacks drivers of the board: " + build
	case strings.Contains(family, "ubuntu") && common:
		return "install linux-image-realtime (Ubuntu Pro)"
	case strings.Contains(family, "debian") && common:
		return "install linux-image-rt-" + map[string]string{facts.X86: "amd64", facts.ARM64: "arm64"}[arch]
	case v.System.ID == "fedora":
		return "Fedora has none: " + build
	case (strings.Contains(family, "rhel") || strings.Contains(family, "fedora")) && common:
		return "install kernel-rt (repository of the realtime add-on)"
	case !common:
		return "distributions rarely have one for " + cmp.Or(arch, "this architecture") + ": " + build
	}
	return "install one from the distribution"
}

// realtimeArchs are the architectures of which a kernel can be PREEMPT_RT and have KVM (ARCH_SUPPORTS_RT in
// arch/*/Kconfig): s390x does not select it, powerpc only without KVM_BOOK3S_64_HV.
var realtimeArchs = []string{facts.X86, facts.ARM64, "riscv64", "loongarch64"}

var kernelRealtime = &Knob{
	ID: "kernel.realtime", Title: "PREEMPT_RT kernel",
	Limit: Limit{Arch: realtimeArchs},
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Check: true,
	Where: fixed(hostFact("kernel_realtime")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case v.Kernel.Realtime && v.Tier != goal.Realtime:
			return fact("PREEMPT_RT", v.realtimeForPackets())
		case v.Kernel.Realtime:
			return fact("PREEMPT_RT", Fine("the kernel is a realtime one"))
		case v.Kernel.Version == "":
			return Unsure("the running kernel's version is not known")
		case v.Tier != goal.Realtime:
			return fact(preemption(v.Kernel.Version), Fine("not a realtime one: softirqs and locks cost a packet "+
				"no more than they must"))
		}
		return fact(strings.TrimSpace("no PREEMPT_RT: "+preemption(v.Kernel.Version)), exact("PREEMPT_RT",
			"interrupts and locks delay a vCPU for as long as they take; "+v.installHint()).At(High))
	},
}

// realtimeForPackets judges a realtime kernel for a target of packets: it costs them something, and may be there for a
// guest that needs it.
func (v *View) realtimeForPackets() Advice {
	for g := range facts.Each(v.Guests) {
		if g.Active() && slices.ContainsFunc(g.Threads, func(t facts.Thread) bool {
			return t.Role == "vcpu" && t.Priority > 0
		}) {
			return Fine(fmt.Sprintf("%s has vCPUs of realtime priority, which need it; other guests' packets cost more",
				g.Name))
		}
	}
	return exact("a kernel without PREEMPT_RT", "most of its spinlocks sleep, and softirqs can be preempted while "+
		"others wait for them: each packet costs more, and no guest that runs has a realtime priority").At(Medium)
}

// preemption returns the word of uname -v that names the preemption model.
func preemption(text string) string {
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "PREEMPT") {
			return word
		}
	}
	return ""
}
