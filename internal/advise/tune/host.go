package tune

import (
	"cmp"
	"context"
	"errors"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/goal"
)

// Host is the host that is tuned. Kept changes and the one that is being tried apply on top of the state in which the
// run found it. Methods are called one at a time.
type Host interface {
	// Candidates returns the changes that could be tried now, given what was kept.
	Candidates(ctx context.Context) ([]Candidate, error)
	// Diagnose finds the bottleneck while the trial load, in packets per second, is sent. It returns nil if it cannot
	// tell.
	Diagnose(ctx context.Context, pps float64) (*bottleneck.Diagnosis, error)
	// Try makes a candidate's changes. ErrRefused means that none of them were made.
	Try(ctx context.Context, c Candidate) error
	// Back undoes the last Try, if it was not kept. It does so even if ctx has ended.
	Back(ctx context.Context) error
	// Keep keeps what is being tried.
	Keep(ctx context.Context) error
	// Reset restores the state the run started from. It does so even if ctx has ended.
	Reset(ctx context.Context) error
	// Whole returns everything that was kept as one candidate, to be tried after Reset.
	Whole(ctx context.Context, kept []Candidate) (Candidate, error)
	// Sample sends the load for one trial, of length times the usual duration, and returns the packets per second that
	// arrived. exact counts every packet, late ones too, so that losses compare.
	Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error)
	// Search finds the highest rate with no more loss than the goal allows.
	Search(ctx context.Context) (Rate, error)
	// Advise returns what to buy or change if the target was missed; d is the final bottleneck.
	Advise(r *Result, d *bottleneck.Diagnosis) []Advice
}

// Sender is a Host that knows how much a trial really sent. If that is less than the load, the sender was the limit,
// not the host.
type Sender interface {
	// Sent is the rate of the last Sample at the sender, in packets per second, or 0 if unknown.
	Sent() float64
}

// ErrRefused marks a candidate that the machine refused; none of its changes were made.
var ErrRefused = errors.New("refused")

// ErrDrifted marks that everything was restored except values that somebody else had changed meanwhile.
var ErrDrifted = errors.New("changed by somebody else")

// Options are the goal of a run and its limits.
type Options struct {
	Goal      goal.Goal
	Budget    time.Duration // for the whole run, including the proof of what is kept; 0: none
	Alpha     float64       // bound on the expected share of kept changes that do not help; 0: 0.05
	MinEffect float64       // least gain that counts, relative; 0: 0.01
	MaxPairs  int           // of trials for one candidate; 0: 32 of a second each, more of shorter ones
	Trial     time.Duration // usual length of a trial; 0: all have the same length
	Seed      uint64        // of the random order of trials
	Class     string        // of the host, to find what was learned
	Learned   Effects
	Propose   bool     // leave nothing changed on the host
	Earlier   *Earlier // the run to resume after a restart; nil: none
	// RestartFirst ends the run as Waiting after the baseline if the plan needs a guest's restart: it is made first,
	// and the resumed run tries everything else on top of it.
	RestartFirst bool
	// Now is the clock, for tests; nil: the real one.
	Now func() time.Time
	// Progress is called before each step; may be nil.
	Progress func(Progress)
}

// Earlier is a run that ended because what was left needed a restart, and what it measured before it.
type Earlier struct {
	Restart  string                `json:"restart"` // "restart of guest vm1"
	Keys     []string              `json:"keys"`    // of the candidates that took effect with it
	Changes  []Change              `json:"changes"`
	TX       string                `json:"tx"` // the transaction that made them
	Baseline Rate                  `json:"baseline"`
	Rate     Rate                  `json:"rate"`     // before the restart
	LoadPPS  float64               `json:"load_pps"` // of the samples
	Samples  []float64             `json:"samples"`  // before the restart, packets per second
	Before   *bottleneck.Diagnosis `json:"before"`
	Attempts []Attempt             `json:"attempts"`
	Gain     *Gain                 `json:"gain,omitempty"` // that it and the runs before it have shown; nil: none
	Kept     []string              `json:"kept"`
	// Undo are the commands that undo what it and the runs before it left on the host, newest first.
	Undo []string `json:"undo"`
}

// Progress is a step that is about to begin, or an attempt that is done.
type Progress struct {
	What    string   // "baseline", "try", "done" (an attempt), "whole", "final", or a sentence
	Attempt *Attempt // the current one, as far as it is known
	Rate    float64  // last received rate, packets per second; 0: none yet
}

// withDefaults returns the options with the defaults in place of zero values.
func (o Options) withDefaults() Options {
	o.Alpha, o.MinEffect = cmp.Or(o.Alpha, 0.05), cmp.Or(o.MinEffect, 0.01)
	o.MaxPairs = cmp.Or(o.MaxPairs, o.longer(32))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}
