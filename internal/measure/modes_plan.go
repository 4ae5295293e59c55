package measure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Mode is a way for packets to reach a guest, in which an agent answers.
type Mode struct {
	Name  string `json:"name"`
	Agent string `json:"agent"`               // HOST:PORT
	Via   string `json:"via,omitempty"`       // bridge of this host into which test frames are sent
	From  string `json:"from,omitempty"`      // or interface that they leave from, IFACE or netns:NAME/IFACE
	NIC   string `json:"guest_nic,omitempty"` // the agent's interface; empty: the one with the agent's address
	// Gateway is the IPv4 address of a router on the way from From, which has routes for test frames (198.18.0.0/15)
	// into the guest; empty: the guest's NIC is on the same link.
	Gateway string `json:"gateway,omitempty"`
	// Plan is the file of a plan that is applied to this host while the mode is measured, and rolled back.
	Plan string `json:"plan,omitempty"`
	// Frozen is the PID file of the guest's process, which is stopped (SIGSTOP) except while it is measured.
	Frozen string `json:"frozen,omitempty"`
}

// Workload is one thing to measure of every mode.
type Workload struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Load Load   `json:"load"`
	// Search, if set, makes each sample a search for the highest rate without loss. It is the most traffic that the
	// search may use.
	Search  time.Duration `json:"search_budget_ns,omitempty"`
	Reverse bool          `json:"reverse,omitempty"` // stream: the mode's guest sends
	// Engine is the program that makes a conversation, netperf or iperf3, whose server runs in each mode's guest;
	// empty: mpps. EnginePort is where the server listens; 0: the program's default.
	Engine     string `json:"engine,omitempty"`
	EnginePort uint16 `json:"engine_port,omitempty"`
}

// ModesPlan is a campaign before it begins: every mode under every workload, repeatedly. The same plan gives the same
// order.
type ModesPlan struct {
	Modes     []Mode     `json:"modes"`
	Native    string     `json:"native"` // the mode that is 100 %; empty: none
	Workloads []Workload `json:"workloads"`
	Min       int        `json:"repeat_min"` // samples of each mode and workload, at least …
	Max       int        `json:"repeat_max"` // … and at most
	Level     float64    `json:"level"`      // confidence of the intervals of the medians, 0–1
	// Width ends a series before Max, once its interval is no wider than this share of its median, as with netperf's -I
	// (the whole width, not one side). 0: exactly Min samples. Checking after every sample makes the actual confidence
	// a little smaller than Level.
	Width float64  `json:"width"`
	Seed  uint64   `json:"seed"`  // of the order
	Notes []string `json:"notes"` // what a reader must know of the set-up, as sentences
	// How test frames are sent and counted, and the CPUs that send them; empty: automatic.
	Generator string `json:"generator,omitempty"`
	Sink      string `json:"sink,omitempty"`
	CPUs      string `json:"cpus,omitempty"`
}

// maxSeries bounds a campaign: nobody waits for more than a thousand samples of each mode and workload.
const maxSeries = 1000

// Check returns an error if the plan cannot be measured.
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

// samplesFor returns the fewest samples whose range covers the median with a confidence: 1 − 2^(1−n).
func samplesFor(level float64) int {
	for n := 1; n < 64; n++ {
		if _, has := medianRank(n, level); has >= level {
			return n
		}
	}
	return 64
}

// Turn is one sample's place in the order.
type Turn struct {
	Mode     string `json:"mode"`
	Workload string `json:"workload"`
	Block    int    `json:"block"` // from 0: each block has every mode and workload once
}

// Block returns the order of a block's turns: workload by workload, so that compared samples are taken close together,
// and all modes within each workload; both orders are shuffled by the seed, which keeps periodic disturbances out of
// step. Each odd block reverses the one before it, so that linear drift affects all modes alike over the pair.
func (p *ModesPlan) Block(block int) []Turn {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(block/2)))
	var turns []Turn
	for _, w := range rng.Perm(len(p.Workloads)) {
		for _, m := range rng.Perm(len(p.Modes)) {
			turns = append(turns, Turn{Mode: p.Modes[m].Name, Workload: p.Workloads[w].Name, Block: block})
		}
	}
	if block%2 == 1 {
		slices.Reverse(turns)
	}
	return turns
}

// Of returns the mode and the workload of a turn.
func (p *ModesPlan) Of(t Turn) (Mode, Workload, error) {
	m, hasMode := p.mode(t.Mode)
	w, hasWorkload := p.workload(t.Workload)
	if !hasMode || !hasWorkload {
		return m, w, fmt.Errorf("mode %q under workload %q is not in the plan", t.Mode, t.Workload)
	}
	return m, w, nil
}

func (p *ModesPlan) mode(name string) (Mode, bool) {
	i := slices.IndexFunc(p.Modes, func(m Mode) bool { return m.Name == name })
	if i < 0 {
		return Mode{}, false
	}
	return p.Modes[i], true
}

func (p *ModesPlan) workload(name string) (Workload, bool) {
	i := slices.IndexFunc(p.Workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, false
	}
	return p.Workloads[i], true
}

// Guess returns how long a turn will take before one has been timed: its traffic, plus set-up and teardown.
func (w Workload) Guess() time.Duration {
	return max(w.Load.Duration, w.Search) + w.Load.WarmUp + 2*time.Second
}
