package plan

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Phase is when changes take effect: after setting up the firmware, after a reboot of the host, at the start of a
// guest, or at once. Apply makes all changes in the order of the plan; phases are for people.
type Phase struct {
	Name    string   `json:"name"`    // firmware, reboot, guest-restart, now
	What    string   `json:"what"`    // "reboot of the host"
	IDs     []string `json:"ids"`     // knobs whose changes take effect then, without repeats
	Changes int      `json:"changes"` // how many changes
	// knobs of the phase that are off and that mpps does not set
	ByHand []string `json:"by_hand"`
	// knobs of the phase that could not be judged; for the firmware those that 'mpps attest' records
	Unseen []string `json:"unseen"`
}

// The names of phases, in the order in which they stand.
const (
	PhaseFirmware = "firmware"
	PhaseReboot   = "reboot"
	PhaseGuest    = "guest-restart"
	PhaseNow      = "now"
)

var phaseNames = []string{PhaseFirmware, PhaseReboot, PhaseGuest, PhaseNow}

const (
	inFirmware = "the firmware's setup"
	kvmReload  = "all guests shut down, and KVM's modules reloaded"
	atOnce     = "at once"
)

// phaseOf returns the name of the phase in which a change takes effect, and what must happen for it in words.
func phaseOf(needs setting.Needs) (name, what string) {
	switch needs.Kind {
	case setting.AtOnce:
		return PhaseNow, atOnce
	case setting.HostReboot:
		return PhaseReboot, needs.String()
	}
	return PhaseGuest, needs.String()
}

// phase returns a phase of the plan, added if it is new.
func (p *Plan) phase(name, what string) *Phase {
	at := slices.IndexFunc(p.Phases, func(f Phase) bool { return f.Name == name && f.What == what })
	if at < 0 {
		at = len(p.Phases)
		p.Phases = append(p.Phases, Phase{Name: name, What: what, IDs: []string{}, ByHand: []string{},
			Unseen: []string{}})
	}
	return &p.Phases[at]
}

func addID(all *[]string, id string) {
	if !slices.Contains(*all, id) {
		*all = append(*all, id)
	}
}

// addByHand adds what a person must see to: what is off and not planned, and what could not be judged of the firmware.
// What a guest's own system needs belongs to that guest's restart.
func (p *Plan) addByHand(report audit.Report) {
	for _, f := range report.Findings {
		off := f.State == audit.Off && f.Blocked != ""
		if !off && f.State != audit.Unknown {
			continue
		}
		family, _, _ := strings.Cut(f.ID, ".")
		var phase *Phase
		switch {
		case family == "firmware":
			phase = p.phase(PhaseFirmware, inFirmware)
		case !off: // the reason stands in the audit
			continue
		case f.Address.Kind == setting.ModuleParam && f.Risk == goal.GuestRestart:
			phase = p.phase(PhaseGuest, kvmReload)
		case f.Address.Object() == "self", family == "kernel" || family == "boot" || f.Risk == goal.Reboot &&
			family != "guest":
			phase = p.phase(phaseOf(setting.Reboot()))
		case family == "guest" && f.Address.Kind == setting.Fact, family == "domain":
			phase = p.phase(phaseOf(setting.RestartOf(f.Address.Object())))
		default:
			phase = p.phase(PhaseNow, atOnce)
		}
		if off {
			addID(&phase.ByHand, f.ID)
		} else {
			addID(&phase.Unseen, f.ID)
		}
	}
}

// arrangePhases counts the changes of each phase and sorts the phases.
func (p *Plan) arrangePhases() {
	for i := range p.Phases {
		p.Phases[i].IDs, p.Phases[i].Changes = []string{}, 0
	}
	for _, c := range p.Changes {
		phase := p.phase(phaseOf(c.Needs))
		phase.Changes++
		addID(&phase.IDs, c.ID)
	}
	p.Phases = slices.DeleteFunc(p.Phases, func(f Phase) bool { return f.Changes+len(f.ByHand)+len(f.Unseen) == 0 })
	slices.SortStableFunc(p.Phases, func(a, b Phase) int {
		return slices.Index(phaseNames, a.Name) - slices.Index(phaseNames, b.Name)
	})
}

// limitNotes returns what a person must know about what the plan cannot achieve.
func limitNotes(report audit.Report) []string {
	notes := []string{}
	if why := report.Role.Why(); why != "" {
		notes = append(notes, why)
	}
	for _, f := range report.Findings {
		if f.ID == "kernel.realtime" && f.State == audit.Off && report.Tier == goal.Realtime {
			notes = append(notes, fmt.Sprintf("The running kernel is not a realtime one (%s). This plan sets "+
				"everything else all the same, and that takes most of what delays a vCPU off its CPU; "+
				"but no worst case can be promised: interrupt handlers, softirqs and locks delay a wake-up for as "+
				"long as they take, now and then for milliseconds.", f.Found))
		}
	}
	return notes
}
