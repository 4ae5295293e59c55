package measure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Mode is a way in which packets get to a guest, as a campaign over modes knows it: an agent answers there.
type Mode struct {
	Name  string `json:"name"`
	Agent string `json:"agent"`               // HOST:PORT
	Via   string `json:"via,omitempty"`       // bridge of this host into which test frames are sent
	From  string `json:"from,omitempty"`      // or interface that they leave from, IFACE or netns:NAME/IFACE
	NIC   string `json:"guest_nic,omitempty"` // the agent's interface; empty: the one with the agent's address
	// Frozen is the PID file of the guest's process, which is stopped (SIGSTOP) and runs only while it is measured.
	Frozen string `json:"frozen,omitempty"`
}

// Workload is what is measured of every mode.
type Workload struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Load Load   `json:"load"`
	// Search, when set, is the most traffic of a search for the highest rate without loss, which is what a sample then
	// is.
	Search time.Duration `json:"search_budget_ns,omitempty"`
}

// ModesPlan is a campaign before it begins: every mode under every workload, again and again. It is pure; the same plan
// gives the same order.
type ModesPlan struct {
	Modes     []Mode     `json:"modes"`
	Native    string     `json:"native"` // the mode that is 100 %; empty: none
	Workloads []Workload `json:"workloads"`
	Min       int        `json:"repeat_min"` // samples of each mode and workload, at least …
	Max       int        `json:"repeat_max"` // … and at most
	Level     float64    `json:"level"`      // confidence of the intervals of the medians, 0–1
	// Width ends a series before Max: its interval is no wider than this share of its median, as netperf's -I has it
	// (the whole width, not one side). 0: Min samples, and no more. Looking after every sample makes the confidence
	// that is reached a little smaller than Level.
	Width float64  `json:"width"`
	Seed  uint64   `json:"seed"`  // of the order
	Notes []string `json:"notes"` // what a reader must know of the set-up, as sentences
	// How test frames are sent and counted, and the CPUs that send them; empty: as it comes.
	Generator string `json:"generator,omitempty"`
	Sink      string `json:"sink,omitempty"`
	CPUs      string `json:"cpus,omitempty"`
}

// maxSeries bounds a campaign: a thousand samples of each mode and workload are more than anybody waits for.
const maxSeries = 1000

// Check refuses a plan that cannot be measured.
func (p *ModesPlan) Check() error {
	switch {
	case len(p.Modes) == 0:
		return errors.New("no mode to measure")
	case len(p.Workloads) == 0:
		return errors.New("no workload to measure with")
	case p.Min < 1 || p.Max < p.Min || p.Max > maxSeries:
		return fmt.Errorf("%d to %d samples: expected 1 to %d, the smaller number first", p.Min, p.Max, maxSeries)
	case p.Level <= 0 || p.Level >= 1:
		return fmt.Errorf("a confidence of %g %%: expected more than 0 and less than 100", 100*p.Level)
	case p.Width < 0 || p.Width > 1:
		return fmt.Errorf("an interval of %g %%: expected 0 to 100", 100*p.Width)
	}
	if need := samplesFor(p.Level); p.Width > 0 && p.Max < need {
		return fmt.Errorf("at most %d samples: an interval of %g %% confidence needs %d", p.Max, 100*p.Level, need)
	}
	seen := map[string]bool{}
	for _, m := range p.Modes {
		if m.Name == "" || m.Agent == "" {
			return fmt.Errorf("mode %q at %q: expected a name and an address", m.Name, m.Agent)
		}
		if seen["mode "+m.Name] {
			return fmt.Errorf("two modes have the name %s", m.Name)
		}
		seen["mode "+m.Name] = true
	}
	for _, w := range p.Workloads {
		if w.Kind.Unit() == "" {
			return fmt.Errorf("workload %s: found kind %q", w.Name, w.Kind)
		}
		if seen["workload "+w.Name] {
			return fmt.Errorf("two workloads have the name %s", w.Name)
		}
		seen["workload "+w.Name] = true
	}
	if p.Native != "" && !seen["mode "+p.Native] {
		return fmt.Errorf("there is no mode %s to be 100 %%", p.Native)
	}
	return nil
}

// samplesFor is the fewest samples whose range covers the median with a confidence: 1 − 2^(1−n).
func samplesFor(level float64) int {
	for n := 1; n < 64; n++ {
		if _, has := medianRank(n, level); has >= level {
			return n
		}
	}
	return 64
}

// Turn is the place of one sample in the order.
type Turn struct {
	Mode     string `json:"mode"`
	Workload string `json:"workload"`
	Block    int    `json:"block"` // from 0: each block has every mode and workload once
}

// Block is the order of a block's turns: workload by workload, so that what is compared is taken close together, and
// within each the modes, both shuffled by the seed. Every other block is the one before it backwards, so that over each
// pair linear drift falls on all modes alike; the lot keeps anything periodic from falling in step.
func (p *ModesPlan) Block(block int) []Turn {
	lot := rand.New(rand.NewPCG(p.Seed, uint64(block/2)))
	var turns []Turn
	for _, w := range lot.Perm(len(p.Workloads)) {
		for _, m := range lot.Perm(len(p.Modes)) {
			turns = append(turns, Turn{Mode: p.Modes[m].Name, Workload: p.Workloads[w].Name, Block: block})
		}
	}
	if block%2 == 1 {
		for i, j := 0, len(turns)-1; i < j; i, j = i+1, j-1 {
			turns[i], turns[j] = turns[j], turns[i]
		}
	}
	return turns
}

// Of is the mode and the workload of a turn.
func (p *ModesPlan) Of(t Turn) (Mode, Workload, error) {
	m, hasMode := p.mode(t.Mode)
	w, hasWorkload := p.workload(t.Workload)
	if !hasMode || !hasWorkload {
		return m, w, fmt.Errorf("mode %q under workload %q is not in the plan", t.Mode, t.Workload)
	}
	return m, w, nil
}

// mode and workload look up by name; the plan is small.
func (p *ModesPlan) mode(name string) (Mode, bool) {
	for _, m := range p.Modes {
		if m.Name == name {
			return m, true
		}
	}
	return Mode{}, false
}

func (p *ModesPlan) workload(name string) (Workload, bool) {
	for _, w := range p.Workloads {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}

// Guess is how long a turn takes that nothing is known of yet: its traffic, and opening and closing what it needs.
func (w Workload) Guess() time.Duration {
	return max(w.Load.Duration, w.Search) + w.Load.WarmUp + 2*time.Second
}
