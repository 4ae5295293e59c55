package measure

import (
	"errors"
	"io"
	"slices"
)

// SchemaAB is the version of the format of interleaved comparisons.
const SchemaAB = "mpps.ab/1"

// ErrInterleaved is wrapped if an interleaved comparison, which holds two runs, was found instead of a run.
var ErrInterleaved = errors.New("an interleaved comparison, not a single run")

// AB is an interleaved comparison, as saved files and --json contain it.
type AB struct {
	Schema string `json:"schema"`
	Kind   Kind   `json:"kind"`
	Unit   string `json:"unit"`
	Name   string `json:"name,omitempty"` // a label for people
	Comparison
	Verdict string      `json:"verdict"` // "~" for no significant difference
	Cost    *Comparison `json:"cpu_ns_per_unit,omitempty"`

	Seed    uint64   `json:"seed"`    // of the order: seed and number of blocks determine it
	Blocks  int      `json:"blocks"`  // blocks requested
	Order   []string `json:"order"`   // of completed blocks: "ABBA" or "BAAB", A is before
	Values  []Block  `json:"values"`  // of each block, in Unit
	Partial bool     `json:"partial"` // ended early: fewer blocks than requested

	Plan       string     `json:"plan"`        // digest of the plan that makes the difference between the sides
	Changes    []ABChange `json:"changes"`     // what it changes
	Switches   int        `json:"switches"`    // how often the plan was applied
	RolledBack bool       `json:"rolled_back"` // everything is as it was before

	BeforeRun Run `json:"before_run"`
	AfterRun  Run `json:"after_run"`
}

// ABChange is one difference between the sides.
type ABChange struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// NewAB combines the result of an interleaved measurement with what else differed between the runs.
func NewAB(r Interleaved, before, after *Run, blocks int) (*AB, error) {
	caveats, err := compareSettings(before, after)
	if err != nil {
		return nil, err
	}
	ab := &AB{
		Schema: SchemaAB, Kind: r.Kind, Unit: r.Kind.Unit(), Comparison: r.Result, Verdict: r.Result.String(),
		Seed: r.Seed, Blocks: blocks, Order: []string{}, Values: r.Blocks(), Partial: r.Partial,
		Changes: []ABChange{}, BeforeRun: *before, AfterRun: *after,
	}
	ab.Warnings = append(ab.Warnings, caveats...)
	cost := CompareBlocks(r.blocks(func(s Sample) float64 { return s.CPUNsPerUnit }))
	ab.Cost = &cost
	for _, order := range r.Order {
		text := ""
		for _, side := range order {
			text += side.String()
		}
		ab.Order = append(ab.Order, text)
	}
	return ab, nil
}

// Valid reports whether the device under test set the results of both sides.
func (ab *AB) Valid() bool { return ab.BeforeRun.Valid() && ab.AfterRun.Valid() }

// AllWarnings returns the warnings of the comparison and of both sides. A warning of both sides appears once.
func (ab *AB) AllWarnings() []Warning {
	all := slices.Clone(ab.Warnings)
	has := func(r *Run, code string) bool {
		return slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Code == code })
	}
	for _, w := range ab.BeforeRun.Warnings {
		if !has(&ab.AfterRun, w.Code) {
			w.Text = ab.BeforeRun.Name + ": " + w.Text
		}
		all = append(all, w)
	}
	for _, w := range ab.AfterRun.Warnings {
		if !has(&ab.BeforeRun, w.Code) {
			w.Text = ab.AfterRun.Name + ": " + w.Text
			all = append(all, w)
		}
	}
	return all
}

// DecodeAB reads a comparison: a bare one, or a --json answer of bench with it as the result.
func DecodeAB(reader io.Reader) (*AB, error) {
	ab, err := decode[AB](reader, SchemaAB)
	if err != nil {
		return nil, err
	}
	return ab, errors.Join(ab.BeforeRun.check(), ab.AfterRun.check())
}
