package queuepath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Means is what keeps lanes apart.
type Means string

// The means, the gentlest first.
const (
	AsItIs    Means = "nothing" // they are apart already
	ByXPS     Means = "xps"     // the NIC's queue follows from the CPU that sends: each vhost thread has its own
	ByProgram Means = "program" // the queue's number is carried from the tap to the NIC
)

// Words names the means for people.
func (m Means) Words() string {
	switch m {
	case ByXPS:
		return "steered by XPS"
	case ByProgram:
		return "steered by program"
	}
	return "nothing to mend"
}

// SteerOptions say what to steer, and how.
type SteerOptions struct {
	NIC     string             // only the group of this NIC; empty: all NICs that guests send by
	Weights map[string]float64 // by guest, if there are too few queues
	By      Means              // empty: the gentlest that works

	Standing []string // NICs that have lanes now: a silent guest keeps its lane
}

// Steering is what keeps the lanes of a host apart.
type Steering struct {
	Groups  []Steered     `json:"groups"`
	Changes []plan.Change `json:"changes"`
	Advice  []Advice      `json:"advice"`
}

// Steered is the result for the NICs that the same taps send by: the ports of a bond, or a single one.
type Steered struct {
	NICs []string `json:"nics"`
	// of the NIC with the fewest, as far as they can be steered (setting.MaxLanes)
	Queues int            `json:"queues"`
	Means  Means          `json:"means"`
	Why    string         `json:"why"`
	Lanes  []setting.Lane `json:"lanes"`

	taps []string // of the lanes, by their current names
}

// Advice is what mpps does not do itself, since it would recreate a device or a guest.
type Advice struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

// Refusal is an option that is not possible, with what to do instead.
type Refusal struct{ Why, Instead string }

func (r *Refusal) Error() string { return r.Why }

// Hint returns what to do instead.
func (r *Refusal) Hint() string { return r.Instead }

// SteerAddresses returns the settings that must be read before Steer.
func SteerAddresses(h *facts.Host, o *Observation, options SteerOptions) []setting.Address {
	s := newSteerer(h, o, options)
	var all []setting.Address
	for _, p := range s.ports {
		all = append(all, setting.Of(setting.QueueLanes, p.name))
		if p.queues < 2 { // reads of its files return ENOENT
			continue
		}
		for q := range p.queues {
			all = append(all, setting.XPS(p.name, q))
		}
	}
	return append(all, s.qdiscAddresses()...)
}

// Steer plans what keeps each guest queue's packets on their own NIC queue; if there are too few, guests share
// them by weight. o may be nil: then only the host's facts are known. h must have readings of SteerAddresses.
func Steer(h *facts.Host, o *Observation, options SteerOptions) (*Steering, error) {
	s := newSteerer(h, o, options)
	groups, err := s.groups()
	if err != nil {
		return nil, err
	}
	result := &Steering{Groups: []Steered{}, Changes: []plan.Change{}, Advice: []Advice{}}
	var refusals []*Refusal
	for _, g := range groups {
		one, changes, err := s.steer(g)
		if refusal, is := errors.AsType[*Refusal](err); is { // the other groups are steered all the same
			refusals = append(refusals, refusal)
			result.Advice = append(result.Advice,
				Advice{fmt.Sprintf("%s: left as it is: %s", strings.Join(one.NICs, ", "), refusal.Why),
					refusal.Instead})
			continue
		}
		if err != nil {
			return nil, err
		}
		result.Groups = append(result.Groups, one)
		for _, c := range changes { // groups may share a tunnel
			if !slices.ContainsFunc(result.Changes,
				func(other plan.Change) bool { return other.Address == c.Address }) {
				result.Changes = append(result.Changes, c)
			}
		}
		for _, a := range s.advise(g, one) {
			if !slices.Contains(result.Advice, a) {
				result.Advice = append(result.Advice, a)
			}
		}
	}
	if len(result.Groups) == 0 {
		return nil, joinRefusals(refusals)
	}
	return result, nil
}

// joinRefusals joins several refusals, with what to do instead of the first.
func joinRefusals(refusals []*Refusal) *Refusal {
	why := facts.Map(refusals, func(r *Refusal) string { return r.Why })
	return &Refusal{strings.Join(why, "; "), refusals[0].Instead}
}

// steer plans for one group of NICs.
func (s *steerer) steer(g group) (Steered, []plan.Change, error) {
	one := Steered{Queues: s.fewestQueues(g)}
	for _, p := range g.ports {
		one.NICs = append(one.NICs, p.name)
	}
	if err := s.enoughQueues(g); err != nil {
		return one, nil, err
	}
	way, why, err := s.means(g)
	if err != nil {
		return one, nil, err
	}
	before := s.currentLanes(g)
	if way == ByXPS {
		before = s.currentXPS(g)
	}
	if way == AsItIs {
		one.Means, one.Why = way, why
		return one, nil, nil
	}
	qdiscs := s.planQdiscs(g)
	if way == ByProgram {
		g = s.carriable(g)
	}
	one.taps = g.taps
	if way == ByProgram { // the number that a packet carries ends there
		one.Queues = min(one.Queues, setting.MaxLanes)
	}
	lanes := Windows(g.senders, one.Queues, s.queueNodes(g), before)
	worse := s.crowding(g, lanes)
	if worse != "" && len(before) > 0 { // without keeping current windows
		lanes = Windows(g.senders, one.Queues, s.queueNodes(g), nil)
		worse = s.crowding(g, lanes)
	}
	if worse != "" {
		if s.options.By != "" || len(s.options.Weights) > 0 {
			return one, nil, &Refusal{"what was asked for makes it worse: " + worse, "leave out --by and --weight; " +
				"or watch longer, while all guests send as they usually do"}
		}
		one.Means, one.Why = AsItIs, "there are too few queues for all lanes, and no division of them is better than "+
			"what was seen: "+worse
		return one, qdiscs, nil
	}
	one.Means, one.Why, one.Lanes = way, why, lanes
	if way == ByXPS {
		return one, append(s.planXPS(g, one), qdiscs...), nil
	}
	return one, append(s.planProgram(g, one), qdiscs...), nil
}

// means returns the gentlest means that works and why, or refuses the requested one.
func (s *steerer) means(g group) (Means, string, error) {
	noXPS, noProgram := s.noXPS(g), s.noProgram(g)
	switch s.options.By {
	case ByXPS:
		if noXPS != "" {
			return "", "", &Refusal{"XPS does not keep these lanes apart: " + noXPS, "mpps path --steer --by program " +
				"carries the queue's number in the packet; or 'mpps plan' first, where vhost threads can be placed"}
		}
		return ByXPS, "asked for by name", nil
	case ByProgram:
		if noProgram != "" {
			return "", "", &Refusal{noProgram, "give each vhost thread a CPU of its own ('mpps plan'), then mpps " +
				"path --steer --by xps"}
		}
		return ByProgram, "asked for by name", nil
	}
	if why := s.alreadyApart(g); why != "" {
		return AsItIs, why, nil
	}
	switch {
	case noXPS == "":
		return ByXPS, "each vhost thread sends from a dedicated CPU: the CPU names the queue", nil
	case noProgram == "":
		return ByProgram, noXPS, nil
	}
	return "", "", &Refusal{
		fmt.Sprintf("nothing keeps lanes apart here: %s; %s", noXPS, noProgram),
		"give each vhost thread a CPU of its own ('mpps plan'), then mpps path --steer",
	}
}

// change returns one planned change.
func (s *steerer) change(id, title string, a setting.Address, want setting.Want, risk goal.Risk, stage datapath.Stage,
	because string) plan.Change {
	return plan.Change{
		ID: id, Title: title, Address: a, From: s.host.Readings.At(a), To: want.Target(), Want: want, Risk: risk,
		Lasts: setting.Kinds[a.Kind].Lasts, Because: because, Stage: stage, Severity: knob.Medium,
	}
}

// summary describes the lanes in one line.
func (d *Steered) summary() string {
	users, most := map[int]int{}, 0
	for _, l := range d.Lanes {
		for q := range l.Count {
			users[l.Base+q]++
			most = max(most, users[l.Base+q])
		}
	}
	text := fmt.Sprintf("%s on %s of %d", words.Count(len(d.Lanes), "tap"), words.Count(len(users), "queue"), d.Queues)
	return words.Either(most > 1, fmt.Sprintf("%s, up to %d on one: there are fewer queues than lanes", text, most),
		text+", no two on one")
}

// fewestQueues returns the number of queues of the group's NIC that has the fewest.
func (s *steerer) fewestQueues(g group) int {
	return slices.MinFunc(g.ports, func(a, b port) int { return cmp.Compare(a.queues, b.queues) }).queues
}
