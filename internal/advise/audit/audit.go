// Package audit judges a host's facts against a goal: for every value in the catalogue, whether it is as the goal needs
// it. It is pure and never touches the machine.
package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// State is the result of judging one value.
type State string

// The states. Unknown is not a verdict.
const (
	OK            State = "ok"
	Off           State = "off"
	Unknown       State = "unknown"
	NotApplicable State = "not-applicable"
)

// States lists the states in display order.
func States() []State { return []State{Off, Unknown, OK, NotApplicable} }

// Finding is the audit of one value.
type Finding struct {
	ID       string          `json:"id"`
	Address  setting.Address `json:"address"`
	State    State           `json:"state"`
	Found    string          `json:"found"`  // for people: the value, "absent" or "unknown"
	Wanted   string          `json:"wanted"` // for people; empty where nothing is wanted
	Severity knob.Severity   `json:"severity"`
	Why      string          `json:"why"`
	Title    string          `json:"title"`
	Stage    datapath.Stage  `json:"stage"`
	Risk     goal.Risk       `json:"risk"` // of changing it
	Check    bool            `json:"check,omitempty"`
	Needs    setting.Needs   `json:"needs,omitzero"`
	Warning  string          `json:"warning,omitempty"`
	Rules    []string        `json:"rules,omitempty"`
	// rules of the placement that the change makes worse
	GivesWay []placement.GivesWay `json:"gives_way,omitempty"`
	Blocked  string               `json:"blocked,omitempty"` // why mpps does not change it although it is off
	Site     string               `json:"site,omitempty"`    // reason from the site file, if that overrides the knob
	Trial    *knob.Trial          `json:"trial,omitempty"`   // what 'mpps tune' may try although any value is fine

	Reading setting.Reading `json:"reading"`
	Want    *setting.Want   `json:"want,omitempty"`
}

// Report is the audit of a host.
type Report struct {
	Tier      goal.Tier         `json:"tier"`
	Why       string            `json:"tier_why"`
	Verdict   string            `json:"verdict"` // one sentence
	Goal      goal.Goal         `json:"goal"`
	Role      facts.Role        `json:"role,omitempty"` // what the machine is
	Counts    map[State]int     `json:"counts"`
	Coverage  Coverage          `json:"coverage"`
	LeftOut   []string          `json:"left_out"` // guests that do not run and that the goal does not name
	Findings  []Finding         `json:"findings"`
	Place     *placement.Result `json:"placement,omitempty"`
	NotJudged []reach.Path      `json:"not_judged"` // paths of running guests that mpps has no rules for
	// the active TuneD profile, which set some of these values
	Tuned *facts.Tuned `json:"tuned,omitempty"`
}

// Adjust may replace a knob's advice before it is judged: so a site file overrides the catalogue. Nil changes nothing.
type Adjust func(id string, a setting.Address, advice knob.Advice) knob.Advice

// Run audits a host for a goal, worst findings first. The same facts and goal give the same report.
func Run(h *facts.Host, g goal.Goal, catalogue []*knob.Knob) Report {
	return RunWith(h, g, catalogue, nil)
}

// RunWith audits as Run does, with advice adjusted.
func RunWith(h *facts.Host, g goal.Goal, catalogue []*knob.Knob, adjust Adjust) Report {
	view := knob.NewView(h, g)
	r := Report{Tier: view.Tier, Why: g.Why(), Goal: g, Role: h.Role(), Counts: map[State]int{}}
	where, total := make([][]setting.Address, len(catalogue)), 0
	for i, k := range catalogue {
		where[i] = k.Where(h)
		total += len(where[i])
	}
	r.Findings = make([]Finding, 0, total)
	for i, k := range catalogue {
		seen := make(map[setting.Address]bool, len(where[i]))
		for _, a := range where[i] {
			if seen[a] { // two devices of one name, in an invented snapshot
				continue
			}
			seen[a] = true
			f := judge(k, a, adviceOf(k, view, a, adjust), h.Readings.At(a), view.Tier, g)
			r.Counts[f.State]++
			r.Findings = append(r.Findings, f)
		}
	}
	r.sort(catalogue)
	if view.Tier != goal.Default && !r.Role.Declined() {
		r.Place = view.Placement()
	}
	if h.Lasting != nil && h.Lasting.Tuned != nil && h.Lasting.Tuned.Running {
		r.Tuned = h.Lasting.Tuned
	}
	r.LeftOut, r.NotJudged = leftOut(h, g), view.Reach().NotJudged()
	r.Coverage = coverage(h, r)
	r.Verdict = verdict(r, catalogue)
	return r
}

// sort sorts the findings: by state, the worst first, then in the order of the catalogue.
func (r *Report) sort(catalogue []*knob.Knob) {
	order := map[string]int{}
	for i, k := range catalogue {
		order[k.ID] = i
	}
	type place struct{ state, severity, knob, found int }
	places, states := make([]place, len(r.Findings)), States() // places are sorted: findings are large to move
	for i, f := range r.Findings {
		places[i] = place{slices.Index(states, f.State), -int(f.Severity), order[f.ID], i}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(a.state-b.state, a.severity-b.severity, a.knob-b.knob, a.found-b.found)
	})
	sorted := make([]Finding, len(places))
	for i, p := range places {
		sorted[i] = r.Findings[p.found]
	}
	r.Findings = sorted
}

// With returns the report with more findings of the same host and goal.
func (r Report) With(more []Finding, catalogue []*knob.Knob) Report {
	r.Findings, r.Counts = slices.Concat(r.Findings, more), maps.Clone(r.Counts)
	for _, f := range more {
		r.Counts[f.State]++
	}
	r.sort(catalogue)
	r.Coverage.Judged, r.Coverage.Unknown = r.Counts[OK]+r.Counts[Off], r.Counts[Unknown]
	r.Verdict = verdict(r, catalogue)
	return r
}

// adviceOf returns the advice on a value, adjusted; what this host cannot have is neither the knob's nor the site's.
func adviceOf(k *knob.Knob, v *knob.View, a setting.Address, adjust Adjust) knob.Advice {
	speaks, advice := k.AppliesTo(v.Tier), knob.NoOpinion()
	limit, limited := k.Limited(v.Host, a)
	switch why := declines(v.Role(), k.Stage); {
	case goal.Includes(v.Goal.Leave, k.ID):
		return knob.Skips("the goal leaves it alone (--leave)")
	case why != "":
		advice = knob.Skips(why)
	case speaks && !limited:
		advice = v.Advise(k, a)
	}
	if adjust != nil {
		advice = adjust(k.ID, a, advice)
	}
	if limited && (speaks || advice.Want != nil) {
		return limit
	}
	return advice
}

// judge returns the finding that follows from a knob's advice and the reading.
func judge(k *knob.Knob, a setting.Address, advice knob.Advice, found setting.Reading, tier goal.Tier,
	g goal.Goal) Finding {
	if advice.Found != nil {
		found = *advice.Found
	}
	f := Finding{
		ID: k.ID, Address: a, Title: k.Title, Stage: k.Stage, Check: k.Check, Risk: k.Risk,
		Reading: found, Found: found.String(), Severity: knob.Info,
		Why: advice.Because, Warning: advice.Warning, Site: advice.Site,
	}
	if a.Kind.IsText() && found.State == setting.Known { // the text itself stays in Reading
		f.Found = fmt.Sprintf("%d lines", strings.Count(found.Value, "\n")+1)
	}
	if advice.Risk != "" {
		f.Risk = advice.Risk
	}
	switch {
	case advice.Skip != "":
		f.State, f.Why = NotApplicable, advice.Skip
		return f
	case advice.Unsure != "":
		f.State, f.Why = Unknown, advice.Unsure
		return f
	case advice.Want == nil && advice.Because == "":
		f.State, f.Why = NotApplicable, noOpinion(k, tier)
		return f
	}

	if found.State == setting.Absent && advice.Default != "" {
		found = setting.Value(advice.Default)
		f.Found = advice.Default + " (default)"
	}
	if advice.Want == nil {
		f.State = OK
		switch {
		case found.State == setting.Unknown && a.Kind != setting.Fact:
			f.State, f.Why = Unknown, found.Why
		case advice.Trial != nil && found.State == setting.Known && !found.ReadOnly:
			f.Trial = advice.Trial
		}
		return f
	}
	want, err := advice.Want.Canonical(a)
	if err != nil { // a bug in the knob: reported, never acted upon
		f.State, f.Why = Unknown, "the catalogue wants what cannot be: "+err.Error()
		return f
	}
	f.Want, f.Wanted = &want, want.String()
	switch {
	case found.State == setting.Unknown:
		f.State, f.Why = Unknown, found.Why
	case want.Met(found):
		f.State = OK
	case found.State == setting.Absent && !setting.Kinds[a.Kind].CanAbsent && a.Kind != setting.Fact:
		f.State, f.Why = NotApplicable, "not on this machine: "+found.Why
	default:
		f.State, f.Severity = Off, advice.Severity
		f.Severity = cmp.Or(f.Severity, knob.Medium)
		f.Needs, f.Rules, f.GivesWay = advice.Needs, advice.Rules, advice.GivesWay
		switch {
		case k.Check, a.Kind == setting.Fact:
			f.Blocked = "checked and explained only: mpps does not set it"
		case (a.Kind == setting.Inside || a.Kind == setting.GuestArg) && g.Guest == "":
			f.Blocked = "set inside a guest only where the goal names it: --guest " + a.Object()
		case k.Asked && advice.Site == "":
			f.Blocked = "set on request only: ask for it in the site file, {id: " + k.ID + ", want: …, reason: …}"
		case found.ReadOnly:
			f.Blocked = found.Why
			f.Blocked = cmp.Or(f.Blocked, "the kernel or driver offers no way to change it")
		}
	}
	if f.State != Off {
		f.Warning = ""
	}
	return f
}

// noOpinion says why a knob has no opinion in a tier.
func noOpinion(k *knob.Knob, tier goal.Tier) string {
	switch {
	case tier == goal.Default:
		return "the target needs no tuning"
	case tier == goal.Passthrough && k.AppliesTo(goal.Aggressive):
		return "no longer applies: a virtual function's packets do not pass the host's bridge, virtio and vhost"
	}
	return fmt.Sprintf("no opinion for a target of tier %s", tier)
}

// declines returns why nothing is judged at a stage on a machine of a role; empty if it is. Where there are no guests,
// rules, bridges and tunnels are those of whatever else the machine does: containers, a router.
func declines(r facts.Role, stage datapath.Stage) string {
	switch {
	case r.Declined():
		return r.Why()
	case r == facts.RoleEmpty, r == facts.RoleNoKVM:
		switch stage {
		case datapath.Netfilter, datapath.Routing, datapath.Bridge, datapath.Overlay:
			return r.Why()
		}
	}
	return ""
}

// stageOf maps a tier to the stage that is mostly about it.
var stageOf = map[goal.Tier]datapath.Stage{goal.Passthrough: datapath.SRIOV, goal.Realtime: datapath.Realtime}

// verdict sums up a report in a sentence, which begins with what the machine is if no guest runs on it.
func verdict(r Report, catalogue []*knob.Knob) string {
	text, why := r.summary(), r.Role.Why()
	switch {
	case r.Role.Declined():
		return why
	case why != "":
		text = why + "; " + text
	}
	stage, own := stageOf[r.Tier]
	if own && !slices.ContainsFunc(catalogue, func(k *knob.Knob) bool { return k.Stage == stage }) {
		text += fmt.Sprintf("; this version has no knobs of stage %s, so that only what tier %s shares with others "+
			"was judged", stage, r.Tier)
	}
	return text
}

// summary says how many settings limit the target.
func (r Report) summary() string {
	if r.Tier == goal.Default {
		if n := r.Counts[Off]; n > 0 { // only the site file can want something here
			return fmt.Sprintf("the target needs no tuning (%s), but %s not as the site file wants %s",
				r.Why, words.Count(n, "value is", "values are"), words.Either(n == 1, "it", "them"))
		}
		return "nothing needs tuning: " + r.Why
	}
	limiting, worst := 0, knob.Info
	for _, f := range r.AtLeast(knob.Low) {
		limiting, worst = limiting+1, max(worst, f.Severity)
	}
	odd, fine := r.Counts[Off]-limiting, r.Counts[OK]
	var text string
	switch {
	case limiting > 0:
		text = fmt.Sprintf("%d of %s %s the target (worst: %s)", limiting, words.Count(limiting+fine, "setting"),
			words.Either(limiting == 1, "limits", "limit"), worst)
		text += words.If(odd > 0, "; %d more %s harmlessly", odd, words.Either(odd == 1, "differs", "differ"))
	case odd > 0:
		text = fmt.Sprintf("no setting limits the target; %d of %d %s harmlessly", odd, odd+fine,
			words.Either(odd == 1, "differs", "differ"))
		if r.Role == facts.RoleHost {
			text = "well tuned: " + text
		}
	case fine == 0:
		text = "nothing was judged: no setting that matters for the target could be read here"
	default:
		text = "every setting that could be read is as the target needs it"
	}
	if n := r.Counts[Unknown]; n > 0 {
		text += fmt.Sprintf("; %d could not be judged", n)
	}
	return text
}

// WithTrials returns the report with the values that tune may try as findings that are off, of severity low, in place
// of those that say that any value is fine.
func (r Report) WithTrials() Report {
	r.Findings = slices.Clone(r.Findings)
	for f := range facts.Each(r.Findings) {
		if f.Trial == nil {
			continue
		}
		want, err := f.Trial.Want.Canonical(f.Address)
		if err != nil || want.Met(f.Reading) {
			continue
		}
		f.State, f.Severity, f.Why, f.Want, f.Wanted = Off, knob.Low, f.Trial.Because, &want, want.String()
	}
	return r
}

// leftOut returns the guests that a goal for every guest passes over because they do not run.
func leftOut(h *facts.Host, g goal.Goal) []string {
	names := []string{}
	for _, guest := range h.Guests {
		if g.Guest == "" && guest.Managed && guest.State != "running" {
			names = append(names, guest.Name)
		}
	}
	return names
}

// AtLeast returns the findings that are off with at least a severity.
func (r Report) AtLeast(s knob.Severity) []Finding {
	return facts.Where(r.Findings, func(f Finding) bool { return f.State == Off && f.Severity >= s })
}

// InState returns the findings in one state.
func (r Report) InState(s State) []Finding {
	return facts.Where(r.Findings, func(f Finding) bool { return f.State == s })
}
