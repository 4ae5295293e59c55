package knob

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// attestable lists, by ID, what a person can attest about things that the operating system cannot see; the wanted value
// comes first. Every item of the firmware setup may stand at "auto", which leaves open what it does.
var attestable = map[string][]string{
	"firmware.smt":                 {"disabled", "enabled", "auto"},
	"firmware.numa_per_socket":     {"1", "2", "4", "auto"},
	"firmware.energy_performance":  {"performance", "balanced-performance", "balanced-power", "power", "auto"},
	"firmware.c6":                  {"disabled", "enabled", "auto"},
	"firmware.package_c_state":     {"disabled", "enabled", "auto"},
	"firmware.c1e":                 {"disabled", "enabled", "auto"},
	"firmware.c3":                  {"disabled", "enabled", "auto"},
	"firmware.llc_dead_line_alloc": {"disabled", "enabled", "auto"},
	"firmware.stale_atos":          {"enabled", "disabled", "auto"},
	"firmware.wr_crc":              {"enabled", "disabled", "auto"},
	"firmware.patrol_scrub":        {"disabled", "enabled", "auto"},
	"firmware.demand_scrub":        {"enabled", "disabled", "auto"},
	"firmware.ras_mode": {"maximum-performance", "mirroring", "lockstep", "sparing", "adddc",
		"auto"},
	"firmware.cluster_on_die":              {"disabled", "enabled", "auto"},
	"firmware.numa_optimized":              {"enabled", "disabled", "auto"},
	"firmware.correctable_error_threshold": {"disabled", "10", "enabled", "auto"},
	"firmware.txt":                         {"disabled", "enabled", "auto"},
	"firmware.usb3":                        {"disabled", "enabled", "auto"},
	"firmware.usb_controller":              {"disabled", "enabled", "auto"},
	"firmware.execute_disable":             {"enabled", "disabled", "auto"},
	"firmware.vt_x":                        {"enabled", "disabled", "auto"},
	"firmware.active_cores":                {"all", "fewer", "auto"},
	"firmware.legacy_usb":                  {"disabled", "enabled", "auto"},
	"firmware.port_60_64":                  {"disabled", "enabled", "auto"},
	"firmware.enhanced_error_containment":  {"enabled", "disabled", "auto"},
	"firmware.df_c_states":                 {"disabled", "enabled", "auto"},
	"firmware.df_p_state":                  {"fixed-p0", "auto"},
	"firmware.ctdp":                        {"maximum", "auto", "reduced"},
	GuestsOwner:                            {"own", "others"},
}

// GuestsOwner is the ID under which a person attests whose guests run here: the operator's "own", or those of "others",
// against which the mitigations of processor bugs protect the host.
const GuestsOwner = "guests.owner"

// Attestable returns the values that can be attested under an ID, the wanted one first; for an unknown ID it returns
// similar ones.
func Attestable(id string) (values, near []string) {
	if values, known := attestable[id]; known {
		return slices.Clone(values), nil
	}
	for _, other := range AttestableIDs() {
		if words.Near(id, other) || isPartOf(id, other) {
			near = append(near, other)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return words.Distance(id, a) - words.Distance(id, b) })
	return nil, near[:min(3, len(near))]
}

// AttestableIDs returns all IDs that can be attested, sorted.
func AttestableIDs() []string {
	return slices.Sorted(maps.Keys(attestable))
}

// invisible is the answer if only a person can tell and none has. It is the same for all IDs, so that one line shows
// them.
const invisible = "the operating system cannot see it: look into the firmware's setup and record what it says with " +
	"'mpps attest ID=VALUE --by NAME'"

// Attestation is the row of an attested ID.
type Attestation struct {
	ID     string   `json:"id"`
	Value  string   `json:"value"`
	By     string   `json:"by"`
	At     string   `json:"at"` // RFC 3339
	Age    string   `json:"age"`
	Wanted string   `json:"wanted"`
	Before string   `json:"before,omitempty"` // the value attested before
	Values []string `json:"values"`           // that can be attested
}

// AttestationRow returns the row of an ID; said.Value is empty if nobody attested it.
func AttestationRow(id string, said facts.Attestation, now time.Time) Attestation {
	values, _ := Attestable(id)
	row := Attestation{ID: id, Value: said.Value, By: said.By, Values: values}
	if len(values) > 0 {
		row.Wanted = values[0]
	}
	if said.Value != "" {
		row.At, row.Age = said.At.UTC().Format(time.RFC3339), Age(said.At, now)
	}
	return row
}

// Age returns in words how long ago a time was.
func Age(at, now time.Time) string {
	switch days := int(now.Sub(at).Hours() / 24); {
	case at.IsZero() || now.Before(at):
		return "at an unknown time"
	case days == 0:
		return "today"
	case days == 1:
		return "1 day ago"
	default:
		return fmt.Sprintf("%d days ago", days)
	}
}

// attestationWords returns an attestation in words: "disabled (Erika, 12 days ago)".
func (v *View) attestationWords(a facts.Attestation) string {
	return fmt.Sprintf("%s (%s, %s)", a.Value, a.By, Age(a.At, v.Taken))
}

// fromAttestation returns the advice that follows from what a person attested.
func (v *View) fromAttestation(id, because string, severity Severity) Advice {
	a, known := v.Attested[id]
	if !known {
		return Unsure(invisible)
	}
	wanted := attestable[id][0]
	found := setting.Value(v.attestationWords(a))
	advice := Fine("as it should be, by what was attested")
	if a.Value != wanted {
		advice = exact(wanted, because).At(severity)
	}
	advice.Found = &found
	return advice
}

// fact is advice on a fact, with what the inventory shows.
func fact(found string, advice Advice) Advice {
	reading := setting.Value(found)
	advice.Found = &reading
	return advice
}

// hostFact returns the address of a fact about the whole host.
func hostFact(what string) setting.Address { return setting.Of(setting.Fact, "host", what) }

// onMetal returns a Want that skips hosts that are virtual machines: they have no firmware setup of their own.
func onMetal(want func(v *View, a setting.Address) Advice) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		if v.inGuest() {
			return Skips("this host is itself a virtual machine (" + v.Virtual +
				"): the setup is that of the machine below")
		}
		return want(v, a)
	}
}
