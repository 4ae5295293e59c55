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

// Schema is the version of the format of results.
const Schema = "mpps.tune/1"

// Result is what a run of the loop found and did: everything that its report shows.
type Result struct {
	Schema  string    `json:"schema"`
	Host    string    `json:"host"`
	Goal    goal.Goal `json:"goal"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`

	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"` // the verdict in one sentence with figures

	Baseline Rate `json:"baseline"` // of the host as it was found
	Final    Rate `json:"final"`    // of the host with what was kept; the baseline where nothing was
	// everything that was kept, against the beginning, in turns; Pairs 0: not measured
	Whole  Gain                  `json:"whole"`
	Before *bottleneck.Diagnosis `json:"before"` // null: could not be told
	After  *bottleneck.Diagnosis `json:"after"`  // null where nothing was kept

	Attempts []Attempt `json:"attempts"` // in the order in which they were made
	// keys of the candidates that stand in the end, in the order in which they were kept
	Kept  []string `json:"kept"`
	Added []string `json:"added"` // of these, what this run added; the others stood before a restart
	// of what was kept: measured anew on top of all others, and taken out where it costs there
	Revisits []Attempt `json:"revisits"`
	Untried  []Untried `json:"untried"`
	Waits    []Wait    `json:"waits"`  // what could only be tried after a restart
	Advice   []Advice  `json:"advice"` // what to buy or change where the target was missed

	Method Method `json:"method"`
	// "restart of guest vm1", with which this run goes on where an earlier one ended; empty: none
	Restarted string `json:"restarted"`

	Trials   int     `json:"trials"`         // measurements in pairs and checks, those of the searches not counted
	Searches int     `json:"searches"`       // for the highest rate
	Budget   float64 `json:"budget_seconds"` // 0: none

	Proposed  bool   `json:"proposed"`   // --propose: nothing was left on the host
	Plan      string `json:"plan"`       // digest of the final plan; empty: none
	RestartTX string `json:"restart_tx"` // the transaction that made what waits for a restart; empty: none was made
	// RestartFor is the restart that it waits for: of guests first, of the host when no guest's is left.
	RestartFor string `json:"restart_for,omitempty"`
	TX         string `json:"tx"` // the first transaction of what was kept; empty: none was made
	// all of them in order, each following the one before: what is about something that another made comes behind it
	Chain []string `json:"chain"`
	// UndoEarlier are the commands that undo what stood before Restarted and what took effect with it, the newest
	// first; then it takes that restart again.
	UndoEarlier []string  `json:"undo_earlier,omitempty"`
	Emulated    bool      `json:"emulated"`
	Warnings    []Warning `json:"warnings"`

	resumed *bottleneck.Diagnosis // what held the path back behind Restarted; nil: nothing was resumed
}

// Warning is what a reader must know of a result.
type Warning = outcome.Warning

// Verdict is how a run ended, in one word.
type Verdict string

// The verdicts.
const (
	Met         Verdict = "met"         // the target holds in a final search, after changes
	Good        Verdict = "good"        // the host was good already: nothing was changed
	Better      Verdict = "better"      // nothing is left to try: the target is missed, and something was kept
	NoGain      Verdict = "no-gain"     // nothing is left to try, and nothing helped
	OutOfBudget Verdict = "out-of-time" // the budget is spent; what had helped is kept
	Waiting     Verdict = "waiting"     // what is left needs a restart
	NotDevice   Verdict = "not-device"  // the generator or the receiver is the limit, not the host
	// by the user: everything is as it was found, or the sentence says what kept it from that
	Interrupted Verdict = "interrupted"
	Failed      Verdict = "failed" // by an error: likewise
)

// Rate is what a search found.
type Rate struct {
	PPS      float64  `json:"pps"`       // that is carried with no more loss than the goal allows: the lower bound
	UpperPPS *float64 `json:"upper_pps"` // null: nothing was seen to be too much
	// that came through when the trial load was sent, or would in a typical second; 0: not measured
	Loaded    float64 `json:"loaded_pps"`
	LimitedBy string  `json:"limited_by"` // device, generator, receiver, nothing, unknown
	Loss      float64 `json:"loss"`       // share that was allowed
	Seconds   float64 `json:"seconds"`    // of traffic
	Trials    int     `json:"trials"`
	None      string  `json:"none,omitempty"` // why there is no such rate
}

// Attempt is one candidate that was tried.
type Attempt struct {
	N        int       `json:"n"`
	Key      string    `json:"key"`             // of the candidate: the knobs' IDs joined by +
	IDs      []string  `json:"ids"`             // of the catalogue
	Parts    []string  `json:"parts,omitempty"` // keys of the candidates that were tried as one; none: it is one
	Title    string    `json:"title"`
	Stage    string    `json:"stage"` // of the packet path; empty: of several
	Risk     goal.Risk `json:"risk"`
	Changes  []Change  `json:"changes"`
	Expected float64   `json:"expected"`   // ratio that was expected, its chance counted in
	Because  []string  `json:"because"`    // why it was tried when it was
	Limit    string    `json:"bottleneck"` // kind of the bottleneck when it was tried; empty: none was named

	Outcome  Outcome `json:"outcome"`
	Why      string  `json:"why"` // of the outcome, one sentence with figures
	Gain     Gain    `json:"gain"`
	Evidence float64 `json:"evidence"` // for a gain beyond the least that counts: how many times the stake was won
	Needed   float64 `json:"needed"`   // to keep it
	Seconds  float64 `json:"seconds"`
}

// Name is the key of what was tried, or of many at once how many they are.
func (a *Attempt) Name() string {
	if len(a.Parts) > 2 {
		return fmt.Sprintf("%d at once: %s …", len(a.Parts), a.Parts[0])
	}
	return a.Key
}

// Stands reports whether an attempt, or a part of it, is among these keys.
func (a *Attempt) Stands(kept []string) bool {
	return slices.Contains(kept, a.Key) ||
		slices.ContainsFunc(a.Parts, func(key string) bool { return slices.Contains(kept, key) })
}

// TakenOut are the parts of an attempt that are not among these keys.
func (a *Attempt) TakenOut(kept []string) []string {
	return slices.DeleteFunc(slices.Clone(a.Parts), func(key string) bool { return slices.Contains(kept, key) })
}

// Outcome is what became of an attempt.
type Outcome string

// The outcomes.
const (
	Kept     Outcome = "kept"
	Hurts    Outcome = "hurts"     // shown to make it worse
	Useless  Outcome = "no-gain"   // no gain beyond the least that counts
	NotShown Outcome = "not-shown" // may help a little; too little to be shown with the trials that one candidate gets
	Refused  Outcome = "refused"   // could not be made, and is undone: the machine refused it
	Cut      Outcome = "cut-short" // the budget or the user ended it
	// kept, and undone later: it costs beside what was kept after it, or the whole showed no gain
	Overcome Outcome = "overcome"
)

// Change is one value of a candidate.
type Change struct {
	ID      string        `json:"id"`
	Address string        `json:"address"`
	From    string        `json:"from"`
	To      string        `json:"to"`
	Needs   setting.Needs `json:"needs,omitzero"`
}

// Gain is a comparison of two configurations in turns.
type Gain struct {
	Ratio float64 `json:"ratio"` // median over the pairs, after/before; 0: no pair was completed
	Lo    float64 `json:"lo"`    // the interval holds whenever one looks: see Sign.Interval
	Hi    float64 `json:"hi"`    // 0: not bounded by so few pairs
	Level float64 `json:"level"` // confidence of the interval
	Unit  string  `json:"unit"`  // of the values: "packets/s"
	Pairs []Pair  `json:"pairs"`
	// AtLeast says that all that was sent came through with the change: it may gain more.
	AtLeast bool `json:"at_least"`
	// Lost is there where the target's rate came through but for a little: what was lost was compared then, not the
	// rates.
	Lost *Lost `json:"lost,omitempty"`
}

// Lost are the medians over the pairs of the shares that were lost of what was sent.
type Lost struct {
	Before float64 `json:"before"` // 0–1
	After  float64 `json:"after"`  // 0–1
}

// Pair is two measurements next to each other, one of each side.
type Pair struct {
	Before     float64 `json:"before"`
	After      float64 `json:"after"`
	AfterFirst bool    `json:"after_first"`           // the lot's choice
	Length     int     `json:"length"`                // of each trial, in times of the usual one
	SentBefore float64 `json:"sent_before,omitempty"` // that left the sender; 0: not known
	SentAfter  float64 `json:"sent_after,omitempty"`
	Short      bool    `json:"short,omitempty"` // in one of the two less was sent than the load: it does not count
}

// Untried is a candidate that was not tried, and why.
type Untried struct {
	Key   string    `json:"key"`
	Title string    `json:"title"`
	Risk  goal.Risk `json:"risk"`
	Why   string    `json:"why"`
}

// Wait groups candidates that need one restart.
type Wait struct {
	For  string   `json:"for"` // "restart of guest vm1"
	Keys []string `json:"keys"`
	// it is no candidate: the transaction to roll back before that restart, since its changes are not proven to help
	Undo string `json:"undo,omitempty"`

	needs setting.Needs // that For names; none where it names more
}

// Advice is what lies outside of what can be set.
type Advice struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Method is how gains were told from chance.
type Method struct {
	Test string `json:"test"` // in a sentence
	// of what is kept, the share that does not help, in the mean; where nothing helps, the chance to keep anything
	Alpha     float64 `json:"alpha"`
	MinEffect float64 `json:"min_effect"`    // least gain that counts, relative
	MaxPairs  int     `json:"max_pairs"`     // that one candidate gets
	Seed      uint64  `json:"seed"`          // of the lots
	LoadPPS   float64 `json:"load_pps"`      // sent in a trial; 0: as fast as possible
	TrialSecs float64 `json:"trial_seconds"` // usual length; a pair says how many times that its trials had
}
