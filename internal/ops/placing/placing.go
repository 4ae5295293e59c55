// Package placing answers which CPUs, node and pages each guest should have.
package placing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Ask is what is placed.
type Ask struct {
	Snapshot string // a file of 'mpps snapshot' instead of the machine
	Goal     goal.Goal
	Guests   []placement.Guest // that the host does not have: what if
	Reserves []placement.Reserve
	Daemons  []placement.Daemon // instead of those that are seen; none: these
	Move     []string           // guests that may move although they are pinned well, or "all"
	Strict   bool               // no rule gives way: guests are refused instead
}

// Placed is the answer.
type Placed struct {
	placement.Result
	Added []string `json:"added"` // guests that the host does not have: what if

	Host     *facts.Host       `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Place places all running guests of a host at once, and those that are added.
func Place(ctx context.Context, env *ops.Env, a Ask) (*Placed, error) {
	h, err := env.Gather(ctx, ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := h.Has(a.Goal); err != nil {
		return nil, err
	}
	result, added, err := a.place(h.Facts)
	if err != nil {
		return nil, err
	}
	return &Placed{Result: *result, Added: added, Host: h.Facts, Warnings: ops.Caveats(h.Facts, a.Goal)}, nil
}

// place places the host's guests and those that are added.
func (a *Ask) place(h *facts.Host) (*placement.Result, []string, error) {
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
		if err := hasNode(h, "--reserve", r.Node); err != nil {
			return nil, nil, err
		}
		if n, _ := h.Topology.Node(r.Node); r.CPUs > len(n.CPUs) {
			return nil, nil, outcome.Failed(fmt.Errorf("--reserve: %d CPUs of node %d, which has %d", r.CPUs, r.Node,
				len(n.CPUs)),
				"CPUs of that node: "+n.CPUs.String())
		}
	}
	for _, d := range a.Daemons {
		if err := hasNode(h, "--daemon", d.Node); err != nil {
			return nil, nil, err
		}
	}
	var added []string
	for i := range a.Guests {
		guest := &a.Guests[i]
		if names[guest.Name] {
			return nil, nil, outcome.Failed(fmt.Errorf("--add: guest %s runs here already, or is added twice",
				guest.Name),
				"give it another name")
		}
		names[guest.Name] = true
		added = append(added, guest.Name)
		for j := range guest.NICs {
			if err := behind(h, ask, &guest.NICs[j]); err != nil {
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

func hasNode(h *facts.Host, flag string, id int) error {
	if _, ok := h.Topology.Node(id); !ok {
		var nodes []string
		for _, n := range h.Topology.Nodes {
			nodes = append(nodes, fmt.Sprint(n.ID))
		}
		return outcome.Failed(fmt.Errorf("%s: no node %d on this host", flag, id),
			"nodes of this host: "+strings.Join(nodes, ", "))
	}
	return nil
}

// behind finds the physical NIC of an added guest's NIC: the one named, or the only one that carries guests' packets.
func behind(h *facts.Host, ask placement.Ask, n *placement.Interface) error {
	if n.NIC == "" && len(ask.NICs) == 1 {
		n.NIC = ask.NICs[0].Name
	}
	n.Node = -1
	for _, nic := range h.NICs {
		if nic.Name == n.NIC {
			n.Node = nic.Node
			return nil
		}
	}
	if n.NIC != "" {
		return outcome.Failed(errors.New("--add: no NIC "+strconv.Quote(n.NIC)+" on this host"),
			"see 'mpps inspect' for its NICs")
	}
	return nil
}
