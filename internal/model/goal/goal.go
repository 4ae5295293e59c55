// Package goal is what the user wants from the host: a target, not a profile name. The tuning tier follows from the
// target.
package goal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Tier is how far tuning may go, in order of the packet rates that need it.
type Tier string

// The tiers, by the rate of 64-byte packets to one guest that needs them in the founding measurements.
const (
	Default     Tier = "default"     // under 100 kpps: nothing needs tuning
	Standard    Tier = "standard"    // 100–500 kpps: what the platform supports without risk
	Aggressive  Tier = "aggressive"  // 500 kpps–3 Mpps: netfilter bypass, NAPI, vhost placement
	Passthrough Tier = "passthrough" // 3 Mpps and more: a VF; bridge, virtio and vhost knobs no longer apply
	Realtime    Tier = "realtime"    // a wake-up latency in microseconds
)

// Tiers lists the tiers in rising order.
func Tiers() []Tier { return []Tier{Default, Standard, Aggressive, Passthrough, Realtime} }

// Risk is what a change can cost during or after it.
type Risk string

// The risks, mildest first.
const (
	None         Risk = "none"
	Blip         Risk = "blip"          // packets lost for a moment
	Platform     Risk = "platform"      // changes a running guest behind the back of the platform that made it
	GuestRestart Risk = "guest-restart" // takes effect when the guest restarts
	Reboot       Risk = "reboot"        // takes effect after a reboot of the host
	Connectivity Risk = "connectivity"  // can cut the operator's connection
	Security     Risk = "security"      // opens something that was closed
	Data         Risk = "data"          // can lose or hide the loss of data
)

// Risks lists the risks, mildest first.
func Risks() []Risk {
	return []Risk{None, Blip, Platform, GuestRestart, Reboot, Connectivity, Security, Data}
}

// NeedsConsent reports whether a change of this risk is planned only if the user consented to it by name. Connectivity
// is planned without consent; a confirm timer guards it.
func (r Risk) NeedsConsent() bool { return r == Security || r == Data || r == Platform }

// Goal is the target.
type Goal struct {
	// packets per second to one guest, in 64-byte frames unless Frame is set
	PPS     float64        `json:"pps,omitempty"`
	Frame   int            `json:"frame_bytes,omitempty"` // Ethernet frame with FCS, 64–9018 bytes; 0 means 64
	Loss    float64        `json:"loss"`                  // allowed share of lost packets, 0–1
	Bulk    float64        `json:"bulk_bps,omitempty"`    // bits per second of bulk data
	Latency time.Duration  `json:"latency_ns,omitempty"`  // wake-up latency in the guest
	CPUs    setting.CPUSet `json:"cpus,omitempty"`        // CPUs that the user gives to the guest
	Guest   string         `json:"guest,omitempty"`       // the guest that the goal is for; empty means every guest
	NIC     string         `json:"nic,omitempty"`         // how the guest is attached: "", virtio or vf
	// the guests' NICs that carry the target, each by MAC address, tap, bridge or network; empty: as recognised
	DataNICs []string `json:"data_nics,omitempty"`
	// knobs to leave alone: IDs, or families such as nic.*
	Leave   []string `json:"leave,omitempty"`
	Consent []Risk   `json:"consent,omitempty"` // risks the user accepted by name
	Unnamed bool     `json:"unnamed,omitempty"` // the user named no target: it is that of Gentlest
	From    string   `json:"from,omitempty"`    // the file that named the goal; empty: the command line
}

// Consents reports whether the goal allows a change of the given risk.
func (g Goal) Consents(r Risk) bool { return !r.NeedsConsent() || slices.Contains(g.Consent, r) }

// Includes reports whether some IDs of knobs or families of them, such as nic.*, include a knob.
func Includes(names []string, id string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		family, is := strings.CutSuffix(name, "*")
		return name == id || is && strings.HasSuffix(family, ".") && strings.HasPrefix(id, family)
	})
}

// Inside returns the goal inside a guest, where CPUs are vCPUs and no guest has that name.
func (g Goal) Inside() Goal {
	g.Guest, g.CPUs, g.DataNICs = "", nil, nil
	return g
}

// ForGuest reports whether the goal is for a guest.
func (g Goal) ForGuest(name string) bool { return g.Guest == "" || g.Guest == name }

// Unlimited is the highest rate without loss that virtio reaches.
func Unlimited() Goal { return Goal{PPS: 1.8e6, Frame: 64} }

// Gentlest is the goal if the user names none: the lowest rate of tier Standard, the first tier that changes anything.
func Gentlest() Goal { return Goal{PPS: standardFrom, Frame: 64, Unnamed: true} }

// Where tiers begin, in packets per second to one guest and in bits per second of bulk data.
const (
	standardFrom    = 100e3
	aggressiveFrom  = 500e3
	nearLimitFrom   = 2e6
	passthroughFrom = 3e6

	standardBulkFrom   = 1e9
	aggressiveBulkFrom = 10e9
)

// Tier returns the tier that the target needs.
func (g Goal) Tier() Tier {
	switch {
	case g.Latency > 0:
		return Realtime
	case g.NIC == "vf" || g.PPS >= passthroughFrom:
		return Passthrough
	case g.PPS >= aggressiveFrom || g.Bulk >= aggressiveBulkFrom:
		return Aggressive
	case g.PPS >= standardFrom || g.Bulk >= standardBulkFrom:
		return Standard
	}
	return Default
}

// Why says in one sentence why the target needs its tier, or that no target was named.
func (g Goal) Why() string {
	if g.Unnamed {
		return fmt.Sprintf("no goal named: judged for %s packets per second, the gentlest tuning; name one with "+
			"--pps, --bulk or --latency", FormatRate(g.PPS))
	}
	switch g.Tier() {
	case Realtime:
		return fmt.Sprintf("a wake-up latency of %v needs isolated CPUs and realtime housekeeping", g.Latency)
	case Passthrough:
		if g.PPS >= passthroughFrom {
			return fmt.Sprintf("%s packets per second are more than a tap with vhost carries (about 2 M): use a VF",
				FormatRate(g.PPS))
		}
		return "the guest is to get a VF"
	case Aggressive:
		if g.NearLimit() {
			return fmt.Sprintf("%s packets per second are near the limit of what a guest's own kernel forwards",
				FormatRate(g.PPS))
		}
		if g.PPS >= aggressiveFrom {
			return fmt.Sprintf("%s packets per second need more than sizing: netfilter bypass, NAPI and vhost "+
				"placement", FormatRate(g.PPS))
		}
		return "10 Gbit/s and more of bulk data need vhost placement and offloads"
	case Standard:
		return "the target needs multiqueue, sizing and pinning, nothing that carries a risk"
	}
	return "a target below 100 k packets per second needs no tuning"
}

// NearLimit reports whether the target is near what a guest's own kernel can receive and forward behind a tap (2 to 3
// Mpps): tuning the host may not be enough.
func (g Goal) NearLimit() bool { return g.Tier() == Aggressive && g.PPS >= nearLimitFrom }

// ErrContradiction marks impossible goals.
var ErrContradiction = errors.New("impossible goal")

// Contradiction is what is wrong with a goal, and what to ask for instead.
type Contradiction struct {
	Problem string
	Instead string
}

func (c *Contradiction) Error() string { return ErrContradiction.Error() + ": " + c.Problem }

// Hint says what to ask for instead.
func (c *Contradiction) Hint() string { return c.Instead }

// Unwrap returns ErrContradiction.
func (c *Contradiction) Unwrap() error { return ErrContradiction }

// Check returns a *Contradiction for goals that contradict themselves or are out of range.
func (g Goal) Check() error {
	contradiction := func(instead, format string, a ...any) error {
		return &Contradiction{Problem: fmt.Sprintf(format, a...), Instead: instead}
	}
	switch {
	case !(g.PPS >= 0) || !(g.Bulk >= 0) || g.Latency < 0: // NaN too
		return contradiction("leave out what does not matter", "targets must be positive")
	case g.PPS > 1e9:
		return contradiction("ask for at most 1G", "%s packets per second are beyond any NIC", FormatRate(g.PPS))
	case g.Bulk > 0 && g.Bulk < 1e6:
		return contradiction("bulk is in bits per second, such as 25G", "%s bits per second are nothing to tune for",
			FormatRate(g.Bulk))
	case g.Bulk > 1e13:
		return contradiction("ask for at most 10000G", "%s bits per second are beyond any host", FormatRate(g.Bulk))
	case !(g.Loss >= 0 && g.Loss < 1):
		return contradiction("0 is no loss, 0.005 is half a percent", "loss %v is not a share from 0 up to 1", g.Loss)
	case g.Frame != 0 && (g.Frame < 64 || g.Frame > 9018):
		return contradiction("frames are counted with checksum: 64 to 9018 bytes", "a frame of %d bytes", g.Frame)
	case g.Latency > 0 && (g.Latency < time.Microsecond || g.Latency > time.Second):
		return contradiction("ask for 1us to 1s", "a wake-up latency of %v", g.Latency)
	case g.NIC != "" && g.NIC != "virtio" && g.NIC != "vf":
		return contradiction("nic is virtio or vf", "nic %q", g.NIC)
	case g.NIC == "virtio" && g.PPS >= passthroughFrom:
		return contradiction("leave nic out or ask for a vf; or ask for at most 2M", "%s packets per second need a "+
			"VF, but nic is virtio (its limit is about 2 M)", FormatRate(g.PPS))
	}
	for _, r := range g.Consent {
		if !slices.Contains(Risks(), r) {
			return contradiction("risks to consent to are security, data, connectivity and platform",
				"unknown risk %q", r)
		}
	}
	return nil
}

// ParseRate parses a rate such as "1.8M", "140k", "500000" or "25G" (powers of ten), in packets or bits per second as
// the caller needs.
func ParseRate(text string) (float64, error) {
	number, factor := strings.TrimSpace(text), 1.0
	if n := len(number); n > 0 {
		switch number[n-1] {
		case 'k', 'K':
			factor = 1e3
		case 'm', 'M':
			factor = 1e6
		case 'g', 'G':
			factor = 1e9
		}
		if factor > 1 {
			number = number[:n-1]
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || v*factor > 1e15 || v != v {
		return 0, fmt.Errorf("expected a rate such as 140k, 1.8M or 25G, found %q", text)
	}
	return v * factor, nil
}

// FormatRate returns a rate with up to four significant digits and its unit letter.
func FormatRate(v float64) string {
	for _, unit := range []struct {
		factor float64
		letter string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.factor {
			return strconv.FormatFloat(v/unit.factor, 'g', 4, 64) + unit.letter
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
