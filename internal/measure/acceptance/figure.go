package acceptance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Figure is one figure of the founding experiment, and how to find it in a run.
type Figure struct {
	ID   string
	What string
	Unit string // "packet/s", "%", "×" or "µs"
	// Founding is the original figure; 0: none was recorded.
	Founding float64
	Lower    bool   // less is better
	About    bool   // the founding figure is rounded: within a tenth counts as reached
	Under    bool   // the original was less than Founding, by an unrecorded margin
	Ratio    bool   // of two measurements on one machine: the hardware matters little
	AsFound  bool   // of an untuned machine: reported, not judged
	Extreme  bool   // a worst case: better runs are no excuse
	OtherWay bool   // the founding packets went in the other direction: shown beside it, not judged
	Tool     string // used originally
	Note     string // what a reader must know of the founding figure
	Conditions
	Read func(*Outcomes) (Measured, bool)
	Look []string // commands of mpps that help if it falls short
}

// Conditions are what a figure depends on other than the tuning. Empty ones do not matter.
type Conditions struct {
	Drivers  []string // of the original NIC: i40e is the X710, ixgbe the X520
	VCPUs    int      // of the guest
	Queues   int      // of its NIC
	Forwards bool     // the guest forwarded packets
	Guest    bool     // a virtual machine sent them
	Tunnel   bool     // through a tunnel
	Realtime bool     // the host ran a PREEMPT_RT kernel
}

// Measured is a figure as measured in a run.
type Measured struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"` // the interval, or the lower and upper bound of a search
	Hi    float64 `json:"hi"`
	N     int     `json:"n"` // samples, or trials of a search
	Unit  string  `json:"unit"`
	// AtLeast means that the generator or receiver set the result: the true value is no lower.
	AtLeast   bool   `json:"at_least,omitempty"`
	LimitedBy string `json:"limited_by,omitempty"`
	Uncertain string `json:"uncertain,omitempty"` // why nothing can be concluded from it
	Tool      string `json:"tool,omitempty"`      // that measured, if there are several
	None      string `json:"none,omitempty"`      // why there is no such figure, although it was measured
}

// State is the verdict on a figure.
type State string

const (
	Reached       State = "reached"
	Short         State = "short"
	NotComparable State = "not-comparable"
	NotMeasured   State = "not-measured"
)

// Reason is a reason for a verdict, as data.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Judged is a figure and its verdict.
type Judged struct {
	ID       string    `json:"id"`
	What     string    `json:"what"`
	Unit     string    `json:"unit"`
	Founding *float64  `json:"founding"` // null: no figure was recorded
	Lower    bool      `json:"less_is_better,omitempty"`
	Note     string    `json:"note,omitempty"`
	Measured *Measured `json:"measured"` // null: not measured
	State    State     `json:"state"`
	// ShortBy is the share of the founding figure by which the measured one is worse, 0 if it is not; null if there is
	// nothing to compare. It accompanies every verdict: on other hardware it is a rough guide.
	ShortBy *float64 `json:"short_by"`
	Reasons []Reason `json:"reasons"`
	Look    []string `json:"look"` // commands that help
}

// roughly is how much worse than a rounded founding figure still counts as reached.
const roughly = 0.1

// Judge compares a figure with that of the founding experiment.
func Judge(f Figure, o *Outcomes, m *Machine, in Inputs) Judged {
	j := Judged{ID: f.ID, What: f.What, Unit: f.Unit, Lower: f.Lower, Note: f.Note, State: NotMeasured,
		Reasons: []Reason{}, Look: []string{}}
	if f.Founding > 0 {
		founding := f.Founding
		j.Founding = &founding
	}
	why := func(code, format string, args ...any) {
		j.Reasons = append(j.Reasons, Reason{code, fmt.Sprintf(format, args...)})
	}
	measured, found := f.Read(o)
	if !found {
		why("not-measured", "the run did not get that far, or the set-up has no such measurement")
		return j
	}
	j.Measured = &measured
	if measured.None != "" {
		why("none", "there is no such rate: %s", measured.None)
	}
	j.State = NotComparable
	emulated := m.Emulated || o.Emulated
	if emulated {
		why("emulated", "measured under emulation: the figure says that the protocol works, and nothing about hardware")
	}
	switch {
	case f.AsFound:
		why("as-found", "what a machine has before it is tuned says nothing of what it can")
		return j
	case j.Founding == nil:
		why("no-figure", "nobody wrote down what the founding experiment had")
		return j
	}
	short := 1 - measured.Value/f.Founding
	if f.Lower {
		short = measured.Value/f.Founding - 1
	}
	short = max(short, 0)
	j.ShortBy = &short
	// The true value may be anywhere in the interval.
	best := measured.Hi
	if f.Lower {
		best = measured.Lo
	}
	spread := best >= f.Founding
	if f.Lower {
		spread = best > 0 && best <= f.Founding
	}
	spread = spread && !f.Extreme
	reached := short == 0 || spread || f.About && short <= roughly
	others := f.differs(m, in)
	if f.Ratio && !f.Forwards { // the hardware matters little
		others = nil
	}
	if f.Tool != "" && measured.Tool != f.Tool {
		others = append(others, Reason{"other-tool", fmt.Sprintf("measured by %s, by %s then", measured.Tool, f.Tool)})
	}
	if f.OtherWay {
		why("other-direction", "then packets left the guest, and here they enter it: another path through the host")
	}
	if measured.Uncertain != "" {
		why("uncertain", "%s", measured.Uncertain)
	}
	switch {
	case emulated || measured.Uncertain != "" || f.OtherWay:
	case reached:
		j.State = Reached
		if short > 0 && spread {
			why("within-spread", "the founding figure lies within the spread of what was measured")
		} else if short > 0 {
			why("about", "the founding figure is a round one: within a tenth counts as reached")
		}
	case f.Under:
		why("no-figure", "the founding experiment wrote down only that it was under %g %s: so is this", f.Founding,
			f.Unit)
	case measured.AtLeast:
		why("generator-limit", "the %s was the limit, not the device: the true figure may be higher",
			measured.LimitedBy)
	case !f.Ratio && len(others) > 0:
	default:
		j.State = Short
	}
	j.Reasons = append(j.Reasons, others...)
	if o.Short {
		why("short-form", "measured in the short form, whose trials are too few and too short for a figure to rely on")
	}
	if !reached {
		j.Look = append(j.Look, f.Look...)
		if measured.AtLeast {
			j.Look = append([]string{"mpps search --help"}, j.Look...) // another generator
		}
	}
	return j
}

// differs returns the conditions that differ from the founding experiment's.
func (c Conditions) differs(m *Machine, in Inputs) []Reason {
	var all []Reason
	why := func(code, format string, args ...any) { all = append(all, Reason{code, fmt.Sprintf(format, args...)}) }
	if len(c.Drivers) > 0 {
		var found []string
		for _, nic := range m.OnPath() {
			if !slices.Contains(found, nic.Driver) {
				found = append(found, nic.Driver)
			}
		}
		if !slices.ContainsFunc(found, func(d string) bool { return slices.Contains(c.Drivers, d) }) {
			why("other-nic", "other hardware: the NIC is driven by %s here, by %s then", orUnknown(found),
				strings.Join(c.Drivers, " or "))
		}
	}
	if g := m.Guest; g != nil {
		if c.VCPUs > g.VCPUs {
			why("fewer-vcpus", "the guest has %d vCPUs, it had %d then", g.VCPUs, c.VCPUs)
		}
		// mpps itself chose any other number: that excuses nothing
		if asked := cmp.Or(in.Queues, c.Queues); c.Queues > max(g.Queues, asked) {
			why("fewer-queues", "--queues %d was asked for, and its NIC has %d queues; it had %d then", asked, g.Queues,
				c.Queues)
		}
	}
	if c.Forwards && !in.Forwards() && in.Trial == "" {
		why("other-path", "packets end in the guest here; then it routed them")
	}
	if c.Guest && in.Container {
		why("no-guest", "a network namespace took the guest's place: no virtqueue and no vhost thread was on the way")
	}
	if c.Tunnel && len(m.Tunnels) == 0 {
		why("no-tunnel", "no tunnel was seen on this host; then one was on the way")
	}
	if c.Realtime && !m.Realtime {
		why("no-realtime-kernel", "the host's kernel is not PREEMPT_RT, it was then")
	}
	return all
}

func orUnknown(words []string) string {
	if len(words) == 0 {
		return "nobody knows what"
	}
	return strings.Join(words, " and ")
}
