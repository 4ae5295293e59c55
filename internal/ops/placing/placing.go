// Package placing computes which CPUs, node and pages each guest should have.
package placing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Request says what to place.
type Request struct {
	Snapshot string // a file of 'mpps snapshot' instead of the machine
	Goal     goal.Goal
	Guests   []placement.Guest // hypothetical guests
	Reserves []placement.Reserve
	Daemons  []placement.Daemon // none: those found on the host
	Move     []string           // guests that may move although they are pinned well, or "all"
	Strict   bool               // relax no rule: refuse guests instead
}

// Answer is a placement.
type Answer struct {
	placement.Result
	Goal  goal.Goal `json:"goal"`
	Added []string  `json:"added"` // hypothetical guests

	Host     *facts.Host       `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Place places all running guests of a host, and hypothetical ones, at once.
func Place(ctx context.Context, env *ops.Env, a Request) (*Answer, error) {
	h, err := env.Gather(ctx, ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := ops.CheckGoal(h.Facts, a.Goal); err != nil {
		return nil, err
	}
	result, added, err := a.place(h.Facts)
	if err != nil {
		return nil, err
	}
	return &Answer{Result: *result, Goal: a.Goal, Added: added, Host: h.Facts,
		Warnings: append(ops.Caveats(h.Facts, a.Goal), platformWarnings(h.Facts)...)}, nil
}

// few lists the first of some names.
func few(names []string) string {
	if len(names) <= 6 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:6], ", "), len(names)-6)
}

// platformWarnings says, by platform, which guests mpps cannot give their places.
func platformWarnings(h *facts.Host) []outcome.Warning {
	names := map[facts.Platform][]string{}
	for i := range h.Guests {
		if g := &h.Guests[i]; g.Active() && g.Rewrites() {
			names[g.Platform()] = append(names[g.Platform()], g.Name)
		}
	}
	var all []outcome.Warning
	for _, p := range slices.Sorted(maps.Keys(names)) {
		all = append(all, outcome.Warning{
			Code: "platform",
			Text: fmt.Sprintf("%s regenerates definitions when it starts guests, so that places last only if they are "+
				"set there: %s", p.Title(), few(names[p])),
			Hint: "'mpps handover' says what to set there",
		})
	}
	return all
}

// place returns the placement and the sorted names of the hypothetical guests.
func (a *Request) place(h *facts.Host) (*placement.Result, []string, error) {
	if role := h.Role(); role.Declined() {
		return nil, nil, outcome.Failed(errors.New(role.Why()), "'mpps inspect' draws the host")
	}
	ask := placement.From(h, a.Goal)
	ask.Reserves, ask.Strict = a.Reserves, a.Strict
	if len(a.Daemons) > 0 {
		ask.Daemons = a.Daemons
	}
	names := map[string]bool{}
	for _, guest := range ask.Guests {
		names[guest.Name] = true
	}
	for _, name := range a.Move {
		if name != "all" && !names[name] {
			return nil, nil, outcome.Failed(fmt.Errorf("--move %s: no such guest runs here", name),
				"name a running guest, or all")
		}
	}
	for _, r := range a.Reserves {
		if err := checkNode(h, "--reserve", r.Node); err != nil {
			return nil, nil, err
		}
		if n, _ := h.Topology.Node(r.Node); r.CPUs > len(n.CPUs) {
			return nil, nil, outcome.Failed(fmt.Errorf("--reserve: %d CPUs of node %d, which has %d", r.CPUs, r.Node,
				len(n.CPUs)), "CPUs of that node: "+n.CPUs.String())
		}
	}
	for _, d := range a.Daemons {
		if err := checkNode(h, "--daemon", d.Node); err != nil {
			return nil, nil, err
		}
	}
	var added []string
	for guest := range facts.Each(a.Guests) {
		if names[guest.Name] {
			return nil, nil, outcome.Failed(fmt.Errorf("--add: guest %s runs here already, or is added twice",
				guest.Name), "give it another name")
		}
		names[guest.Name] = true
		added = append(added, guest.Name)
		for j := range guest.NICs {
			if err := findNIC(h, ask, &guest.NICs[j]); err != nil {
				return nil, nil, err
			}
		}
	}
	slices.Sort(added)
	if len(added) == 0 && len(a.Move) == 0 {
		return placement.Place(ask), nil, nil
	}
	return placement.Add(ask, a.Guests, a.Move), added, nil
}

func checkNode(h *facts.Host, flag string, id int) error {
	if _, ok := h.Topology.Node(id); !ok {
		nodes := facts.Map(h.Topology.Nodes, func(n facts.Node) string { return fmt.Sprint(n.ID) })
		return outcome.Failed(fmt.Errorf("%s: no node %d on this host", flag, id),
			"nodes of this host: "+strings.Join(nodes, ", "))
	}
	return nil
}

// findNIC fills in the physical NIC and node of an added guest's NIC: the one named, or the only one that carries
// guests' packets.
func findNIC(h *facts.Host, ask placement.Ask, n *placement.Interface) error {
	if n.NIC == "" && len(ask.NICs) == 1 {
		n.NIC = ask.NICs[0].Name
	}
	n.Node = -1
	nic := facts.Find(h.NICs, func(nic *facts.NIC) bool { return nic.Name == n.NIC })
	switch {
	case nic != nil:
		n.Node = nic.Node
	case n.NIC != "":
		return outcome.Failed(errors.New("--add: no NIC "+strconv.Quote(n.NIC)+" on this host"),
			"see 'mpps inspect' for its NICs")
	}
	return nil
}
