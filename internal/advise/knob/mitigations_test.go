package knob

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestGuestMitigations: only what a kernel calls a mitigation costs, and parts named after enhanced IBRS are none.
func TestGuestMitigations(t *testing.T) {
	for state, costs := range map[string]bool{
		"Vulnerable; IBPB: disabled; STIBP: disabled; PBRSB-eIBRS: Not affected; BHI: Not affected": false,
		"Mitigation: Retpolines; IBPB: conditional; PBRSB-eIBRS: Not affected":                      true,
		"Mitigation: Enhanced / Automatic IBRS; IBPB: conditional":                                  false,
		"Mitigation: IBRS; IBPB: conditional":                                                       true,
		"Not affected":                                                                              false,
	} {
		inside := &facts.Host{Virtual: "kvm"}
		inside.Kernel.Vulnerabilities = map[string]string{"spectre_v2": state}
		v := NewView(&facts.Host{AsRoot: true, Guests: []facts.Guest{{Name: "vm1", Managed: true, State: "running",
			Inside: &facts.Inside{Host: inside}}}}, goal.Goal{})
		at := guestMitigations.Where(v.Host)
		must.Need(t, len(at) == 1, "addresses: %v", at)
		advice := guestMitigations.Want(v, at[0])
		must.Hold(t, (advice.Want != nil) == costs, "%s: %+v", state, advice)
	}
}
