package tune

import (
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/outcome"
)

// Schema names the format of results and its version.
const Schema = "mpps.tune/1"

// Result is what a run found and did: everything that its report shows.
type Result struct {
	Schema  string    `json:"schema"`
	Host    string    `json:"host"`
	Goal    goal.Goal `json:"goal"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	// Measured is the part of Seconds that trials and searches took, without what is between them.
	Measured float64 `json:"measured_seconds"`

	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"` // the verdict in one sentence with figures

	Baseline Rate `json:"baseline"` // of the host as it was found
	Final    Rate `json:"final"`    // with what was kept; the baseline if nothing was
	// Whole compares everything that was kept with the initial state. No pairs: not measured.
	Whole  Gain                  `json:"whole"`
	Before *bottleneck.Diagnosis `json:"before"` // null: unknown
	After  *bottleneck.Diagnosis `json:"after"`  // null: nothing was kept

	Attempts []Attempt `json:"attempts"` // in the order they were made
	Kept     []string  `json:"kept"`     // keys of the candidates kept at the end, in the order they were kept
	Added    []string  `json:"added"`    // keys in Kept that this run added; the others were kept before a restart
	// Revisits are kept candidates that were measured again on top of all others, and undone if they cost there.
	Revisits []Attempt `json:"revisits"`
	Untried  []Untried `json:"untried"`
	Waits    []Wait    `json:"waits"`  // candidates that need a restart
	Advice   []Advice  `json:"advice"` // what to buy or change if the target was missed

	Method Method `json:"method"`
	// Restarted is the restart after which this run resumed an earlier one: "restart of guest vm1". Empty: none.
	Restarted string `json:"restarted"`
	// Earlier is what the runs before Restarted have shown about what they left; nil: nothing.
	Earlier *Gain `json:"earlier_gain,omitempty"`

	Trials   int     `json:"trials"`         // in pairs and checks, without those of searches
	Searches int     `json:"searches"`       // for the highest rate
	Budget   float64 `json:"budget_seconds"` // 0: none

	Proposed  bool   `json:"proposed"`   // --propose: nothing was left on the host
	Plan      string `json:"plan"`       // digest of the final plan; empty: none
	RestartTX string `json:"restart_tx"` // transaction of the changes that wait for a restart; empty: none
	// RestartFor is the restart that RestartTX waits for: of guests first, of the host once no guest's is left.
	RestartFor string   `json:"restart_for,omitempty"`
	TX         string   `json:"tx"`    // first transaction of what was kept; empty: none
	Chain      []string `json:"chain"` // all transactions of what was kept, each after those it depends on
	// UndoEarlier are the commands that undo what was kept before Restarted and what took effect with it, newest
	// first. They need that restart again.
	UndoEarlier []string  `json:"undo_earlier,omitempty"`
	Emulated    bool      `json:"emulated"`
	Warnings    []Warning `json:"warnings"`

	resumed *bottleneck.Diagnosis // the first one after Restarted; nil: nothing was resumed
}

// Warning is a caveat on a result.
type Warning = outcome.Warning

// Verdict is how a run ended.
type Verdict string

// The verdicts.
const (
	Met         Verdict = "met"         // the target holds in a final search, after changes
	Good        Verdict = "good"        // the target held already: nothing was changed
	Better      Verdict = "better"      // nothing is left to try: the target is missed, something was kept
	NoGain      Verdict = "no-gain"     // nothing is left to try, and nothing helped
	OutOfBudget Verdict = "out-of-time" // the budget is spent; what had helped is kept
	Waiting     Verdict = "waiting"     // what is left needs a restart
	NotDevice   Verdict = "not-device"  // the generator or the receiver is the limit, not the host
	Interrupted Verdict = "interrupted" // by the user; the initial state is restored, or Why says what is not
	Failed      Verdict = "failed"      // by an error; likewise
)

// Rate is what a search found.
type Rate struct {
	PPS      float64  `json:"pps"`       // highest rate with no more loss than the goal allows: the lower bound
	UpperPPS *float64 `json:"upper_pps"` // lowest rate seen to be too much; null: none
	// Loaded is the rate received at the trial load, or expected in a typical second. 0: not measured.
	Loaded    float64 `json:"loaded_pps"`
	LimitedBy string  `json:"limited_by"` // device, generator, receiver, nothing, unknown
	Loss      float64 `json:"loss"`       // allowed share
	Seconds   float64 `json:"seconds"`    // of traffic
	Trials    int     `json:"trials"`
	None      string  `json:"none,omitempty"` // why there is no such rate
}

// Attempt is one candidate that was tried.
type Attempt struct {
	N        int       `json:"n"`
	Key      string    `json:"key"`             // of the candidate: the knobs' IDs joined by +
	IDs      []string  `json:"ids"`             // of the knobs
	Parts    []string  `json:"parts,omitempty"` // keys of the candidates that were tried together; empty: just one
	Title    string    `json:"title"`
	Stage    string    `json:"stage"` // of the packet path; empty: several
	Risk     goal.Risk `json:"risk"`
	Changes  []Change  `json:"changes"`
	Expected float64   `json:"expected"`   // expected after/before, including the chance that it does not help
	Because  []string  `json:"because"`    // why it was tried at that point
	Limit    string    `json:"bottleneck"` // kind of the bottleneck at that point; empty: none was named

	Outcome  Outcome `json:"outcome"`
	Why      string  `json:"why"` // the outcome in one sentence with figures
	Gain     Gain    `json:"gain"`
	Evidence float64 `json:"evidence"` // e-value for a gain above the least that counts
	Needed   float64 `json:"needed"`   // e-value needed to keep it
	Seconds  float64 `json:"seconds"`
}

// Shown returns what the trials show about everything that stands, against the host as it was found: the proof of the
// whole, what took effect with a restart, or both. It is false if nothing that stands was shown to help; two searches
// at different times show nothing by themselves. A restart cannot be measured in turns, so there is no interval with
// one.
func (r *Result) Shown() (Gain, bool) {
	var shown []Gain
	if r.Earlier != nil {
		shown = append(shown, *r.Earlier)
	}
	for _, a := range slices.Backward(r.Attempts) {
		if r.Restarted == "" || a.Key != r.Restarted {
			continue
		}
		if a.Outcome == Kept {
			shown = append(shown, a.Gain)
		}
		break // earlier runs may have had the same restart
	}
	if len(r.Added) > 0 && r.Whole.Ratio > 0 {
		shown = append(shown, r.Whole)
	}
	switch len(shown) {
	case 0:
		return Gain{}, false
	case 1:
		return shown[0], true
	}
	last := shown[len(shown)-1]
	all := Gain{Ratio: 1, Unit: last.Unit, AtLeast: last.AtLeast}
	for _, g := range shown {
		all.Ratio *= g.Ratio
	}
	return all, true
}

// Name is the key of what was tried; if that was more than two candidates, their number and the first key.
func (a *Attempt) Name() string {
	if len(a.Parts) > 2 {
		return fmt.Sprintf("%d at once: %s …", len(a.Parts), a.Parts[0])
	}
	return a.Key
}

// Stands reports whether kept contains the key of an attempt or of one of its parts.
func (a *Attempt) Stands(kept []string) bool {
	return slices.Contains(kept, a.Key) ||
		slices.ContainsFunc(a.Parts, func(key string) bool { return slices.Contains(kept, key) })
}

// DroppedParts returns the parts of an attempt that kept does not contain.
func (a *Attempt) DroppedParts(kept []string) []string {
	return slices.DeleteFunc(slices.Clone(a.Parts), func(key string) bool { return slices.Contains(kept, key) })
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes.
const (
	Kept     Outcome = "kept"
	Hurts    Outcome = "hurts"     // shown to make it worse
	Useless  Outcome = "no-gain"   // no gain above the least that counts
	NotShown Outcome = "not-shown" // may help, but too little to show with MaxPairs pairs
	Refused  Outcome = "refused"   // the machine refused the change; nothing of it is left
	Cut      Outcome = "cut-short" // the budget or the user ended it
	Overcome Outcome = "overcome"  // kept and undone later: it cost on top of the others, or the whole had no gain
)

// Change is one value of a candidate.
type Change struct {
	ID      string        `json:"id"`
	Address string        `json:"address"`
	From    string        `json:"from"`
	To      string        `json:"to"`
	Needs   setting.Needs `json:"needs,omitzero"`
}

// Gain is a comparison of two configurations in pairs of trials.
type Gain struct {
	Ratio float64 `json:"ratio"` // median of after/before over the pairs; 0: no pair was completed
	Lo    float64 `json:"lo"`    // of an interval that is valid whenever one stops: see Bet.Interval
	Hi    float64 `json:"hi"`    // 0: not bounded by so few pairs
	Level float64 `json:"level"` // confidence of the interval
	Unit  string  `json:"unit"`  // of the values: "packets/s"
	Pairs []Pair  `json:"pairs"`
	// AtLeast reports that everything sent arrived with the change: its gain may be higher.
	AtLeast bool `json:"at_least"`
	// Lost is set if losses were compared instead of rates, because the target's rate arrived except for a small loss.
	Lost *Lost `json:"lost,omitempty"`
}

// Lost are the medians over the pairs of the lost share of what was sent.
type Lost struct {
	Before float64 `json:"before"` // 0–1
	After  float64 `json:"after"`  // 0–1
}

// Pair is two adjacent trials, one without and one with the change, in packets per second.
type Pair struct {
	Before     float64 `json:"before"`
	After      float64 `json:"after"`
	AfterFirst bool    `json:"after_first"`           // random
	Length     int     `json:"length"`                // of each trial, in multiples of the usual one
	SentBefore float64 `json:"sent_before,omitempty"` // rate at the sender; 0: unknown
	SentAfter  float64 `json:"sent_after,omitempty"`
	Short      bool    `json:"short,omitempty"` // a trial sent less than the load: the pair does not count
}

// Untried is a candidate that was not tried, and why.
type Untried struct {
	Key   string    `json:"key"`
	Title string    `json:"title"`
	Risk  goal.Risk `json:"risk"`
	Why   string    `json:"why"`
}

// Wait groups candidates that need the same restart.
type Wait struct {
	For  string   `json:"for"` // "restart of guest vm1"
	Keys []string `json:"keys"`
	// Undo is the transaction to roll back before that restart, because its changes are not proven to help. Empty:
	// Keys are candidates to try.
	Undo string `json:"undo,omitempty"`

	needs setting.Needs // the restart in For; zero for a rollback
}

// Advice is a step outside of what mpps can set.
type Advice struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Method is the statistical method of a run and its parameters.
type Method struct {
	Test string `json:"test"` // in a sentence
	// Alpha bounds the expected share of kept changes that do not help, and the probability of keeping anything if
	// nothing helps.
	Alpha     float64 `json:"alpha"`
	MinEffect float64 `json:"min_effect"`    // least gain that counts, relative
	MaxPairs  int     `json:"max_pairs"`     // for one candidate
	Seed      uint64  `json:"seed"`          // of the random order
	LoadPPS   float64 `json:"load_pps"`      // of a trial; 0: as fast as possible
	TrialSecs float64 `json:"trial_seconds"` // usual length; Pair.Length multiplies it
	// Provable is the least gain (after/before) of one change that the budget has the pairs to prove, by the noise of
	// the first trials; 0: none, or not known.
	Provable float64 `json:"provable_ratio,omitempty"`
}
