package knob

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// mitigationCosts says what the mitigation of a processor bug costs on the packet path; keys are file names in
// /sys/devices/system/cpu/vulnerabilities.
var mitigationCosts = map[string]string{
	"meltdown":   "page tables are changed on each system call and interrupt",
	"spectre_v1": "fences behind bounds checks, hardly measurable",
	"spectre_v2": "indirect calls of the network stack go through retpolines or restricted " +
		"prediction, and predictions are flushed when guests change",
	"spec_store_bypass":      "only for programs that ask for it",
	"l1tf":                   "the first data cache is flushed when a guest is entered",
	"mds":                    "buffers are overwritten on each return to a guest or a program",
	"tsx_async_abort":        "as mds",
	"mmio_stale_data":        "buffers are overwritten when a guest that has a device is entered",
	"reg_file_data_sampling": "registers' buffers are overwritten on each return",
	"srbds":                  "random numbers of the processor are slow",
	"itlb_multihit":          "KVM splits huge pages that are executed",
	"retbleed":               "each return in the kernel is checked or goes another way",
	"spec_rstack_overflow": "each return in the kernel goes through a safe one, and predictions are flushed " +
		"on each exit",
	"gather_data_sampling":      "vector gathers are slow",
	"ghostwrite":                "vector instructions are switched off",
	"indirect_target_selection": "indirect calls and returns go through other code",
	"tsa":                       "buffers are overwritten on each return to a guest or a program",
	"vmscape":                   "predictions are flushed between a guest's exit and QEMU",
	"old_microcode":             "none, but the microcode is older than it could be",
}

// mitigations returns the processor bugs that the running kernel mitigates.
func mitigations(h *facts.Host) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.Kernel.Vulnerabilities)) {
		state := h.Kernel.Vulnerabilities[name]
		if strings.Contains(state, "Mitigation") && !strings.HasPrefix(state, "Not affected") {
			names = append(names, name)
		}
	}
	return names
}

// costWords says what mitigations cost.
func costWords(names []string) string {
	var parts []string
	for _, name := range names {
		cost := mitigationCosts[name]
		if cost == "" {
			cost = "not known to this version of mpps"
		}
		parts = append(parts, name+": "+cost)
	}
	return strings.Join(parts, "; ")
}

// isEL7 reports whether a release is EL7's, whose kernel has its own arguments.
func isEL7(release string) bool {
	return strings.HasPrefix(release, "3.10.") && strings.Contains(release, ".el7")
}

// cloudGuest names a guest that seems to belong to a cloud's user, "" if there is none: a platform made it.
func cloudGuest(h *facts.Host) string {
	for i := range h.Guests {
		if p := h.Guests[i].Platform(); p.Rewrites() && p != facts.Proxmox {
			return h.Guests[i].Name + " is a guest of " + p.Title()
		}
	}
	return ""
}

// vectorsLeftOut returns the attack vectors that a value of mitigations= leaves open: no_user_kernel and so on, since
// 6.17 (Documentation/admin-guide/hw-vuln/attack_vector_controls.rst).
func vectorsLeftOut(value string) (open []string) {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' }) {
		switch vector, found := strings.CutPrefix(word, "no_"); vector {
		case "user_kernel", "user_user", "guest_host", "guest_guest", "cross_thread":
			if found {
				open = append(open, vector)
			}
		}
	}
	return open
}

var bootMitigations = &Knob{
	ID: "boot.mitigations", Title: "Mitigations of processor bugs",
	Parts: map[string]Limit{
		"nopti": onX86, "nospec_store_bypass_disable": onX86, "nospectre_v1": onX86, "l1tf": onX86, "mds": onX86,
		"noibrs": onX86, "noibpb": onX86,
	},
	Stage: datapath.Kernel, Risk: goal.Security, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: func(h *facts.Host) []setting.Address {
		if since(h.Kernel.Release, 5, 2) || enterprise.MatchString(h.Kernel.Release) { // EL 8 backported it
			return []setting.Address{bootArgument("mitigations")}
		}
		names := []string{"nopti", "nospectre_v2", "nospectre_v1", "l1tf", "nospec_store_bypass_disable", "mds"}
		if isEL7(h.Kernel.Release) {
			names = append(names, "noibrs", "noibpb")
		}
		return bootArguments(names...)(h)
	},
	Want: func(v *View, a setting.Address) Advice {
		want := setting.Exact("off")
		if strings.HasPrefix(a.Path, "no") {
			want = setting.Exact(setting.Flag)
		}
		next := v.Readings.At(a)
		names := mitigations(v.Host)
		owner := v.Attested[GuestsOwner]
		switch {
		case want.Met(next):
			return v.atBoot(a, want, "mitigations are off: every guest and program on this host must be trusted")
		case a.Path == "mitigations" && len(vectorsLeftOut(next.Value)) > 0:
			return v.fineAtBoot(a, "somebody chose which attacks are met; not met: "+
				strings.Join(vectorsLeftOut(next.Value), ", "))
		case len(v.Kernel.Vulnerabilities) == 0:
			return Unsure("what this processor is vulnerable to is not known")
		case len(names) == 0:
			return v.fineAtBoot(a, "nothing is mitigated on this processor that would cost anything")
		case owner.Value == "others":
			return Skips(fmt.Sprintf("guests of others run here (%s): mitigations stay on; they cost %s",
				v.attestationWords(owner), costWords(names)))
		case owner.Value == "" && cloudGuest(v.Host) != "":
			return Skips(cloudGuest(v.Host) + ", probably somebody else's: mitigations stay on; they cost " +
				costWords(names))
		}
		advice := v.atBoot(a, want,
			fmt.Sprintf("%s mitigated on this processor: %s", Count(len(names), "bug"), costWords(names))).At(Low)
		advice.Warning = "never where guests of others run: any guest could read the host's memory"
		if owner.Value == "own" {
			advice.Warning = "all guests are the operator's own: " + v.attestationWords(owner)
		}
		return advice
	},
}
