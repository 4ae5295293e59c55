package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/report"
	"mpps/internal/report/seats"
)

// placed is the answer of mpps place.
type placed struct {
	placement.Result
	Added []string `json:"added"` // guests that the host does not have: what if
}

func (a *app) placeCommand() *cobra.Command {
	var flags goalFlags
	var snapshot, output string
	var wishes placeWishes
	var detailed bool
	cmd := &cobra.Command{
		Use:   "place",
		Short: "which CPUs, node and pages each guest should have, and why",
		Long: `Places all running guests at once: vCPUs, memory, vhost threads, emulators, NIC
interrupts, and what the host keeps. Draws the sockets, nodes and cores with who
sits where. Nothing is changed: 'mpps plan' plans the same placement.

Guests that are pinned well stay. With --add it answers "what if": the others
stay where they are, or would be, unless --move names them. A guest that finds
no place is refused, with what is short and the smallest thing that would help.

  mpps place
  mpps place --snapshot customer.json -o place.html
  mpps place --add name=vm9,vcpus=8,memory=16G,pps=1M
  mpps place --daemon name=osd,cpus=4,node=0 --reserve node=1,cpus=2,memory=8G`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			more, err := wishes.parse()
			if err != nil {
				return err
			}
			m, err := a.gather(cmd.Context(), snapshot)
			if err != nil {
				return err
			}
			defer m.close()
			if err := m.has(g); err != nil {
				return err
			}
			result, added, err := wishes.place(m.facts, g, more)
			if err != nil {
				return err
			}
			picture := &seats.Placing{Host: m.facts, Result: result, Added: added}
			if output != "" {
				var page bytes.Buffer
				if err := seats.HTML(&page, picture, version, time.Now()); err != nil {
					return err
				}
				if err := a.writeFile(output, page.Bytes()); err != nil {
					return err
				}
			}
			if output != "-" {
				err = a.out.Answer(report.Answer{
					Verb: "place", Host: m.facts.Name, Result: placed{Result: *result, Added: added}, Warnings: a.caveats(m.facts, g),
					Text: func(t *report.Text) { seats.Text(t, picture) },
				})
				if err != nil {
					return err
				}
			}
			if detailed && len(result.Refused) > 0 {
				return exit(exitDrifted)
			}
			return nil
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	f.StringVarP(&output, "output", "o", "", "write the picture to this HTML file; - is standard output")
	f.StringArrayVar(&wishes.add, "add", nil, "a guest that is not there: name=, vcpus=, memory=, and if need be pps=, queues=, nics=, nic=, cpus=, latency=, hugepages, vf; without blanks")
	f.StringArrayVar(&wishes.reserve, "reserve", nil, "what a node keeps for the host: node=, cpus=, memory=")
	f.StringArrayVar(&wishes.daemon, "daemon", nil, "what else the host runs, instead of the storage daemons that are seen (a CPU each): name=, node=, cpus=, memory=")
	f.StringSliceVar(&wishes.move, "move", nil, "guests that may move although they are pinned well, or all")
	f.BoolVar(&wishes.strict, "strict", false, "let no rule give way: refuse guests instead")
	f.BoolVar(&detailed, "detailed-exit-code", false, "exit with 4 where a guest finds no place")
	return cmd
}

// placeWishes are the flags that say what is to be placed besides what the host has.
type placeWishes struct {
	add, reserve, daemon, move []string
	strict                     bool
}

// wanted is what these flags say.
type wanted struct {
	guests   []placement.Guest
	reserves []placement.Reserve
	daemons  []placement.Daemon
}

func (w *placeWishes) parse() (wanted, error) {
	var all wanted
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	for _, text := range w.add {
		g, err := parseGuest(text)
		note("--add "+text, err)
		all.guests = append(all.guests, g)
	}
	for _, text := range w.reserve {
		r, err := parseReserve(text)
		note("--reserve "+text, err)
		all.reserves = append(all.reserves, r)
	}
	for _, text := range w.daemon {
		d, err := parseDaemon(text)
		note("--daemon "+text, err)
		all.daemons = append(all.daemons, d)
	}
	if len(errs) > 0 {
		return all, usage(errs[0], "see 'mpps place --help'")
	}
	return all, nil
}

// place places the host's guests and those that are added.
func (w *placeWishes) place(h *facts.Host, g goal.Goal, more wanted) (*placement.Result, []string, error) {
	ask := placement.From(h, g)
	ask.Reserves, ask.Strict = more.reserves, w.strict
	if len(more.daemons) > 0 {
		ask.Daemons = more.daemons
	}
	names := map[string]bool{}
	for _, guest := range ask.Guests {
		names[guest.Name] = true
	}
	for _, name := range w.move {
		if name != "all" && !names[name] {
			return nil, nil, failed(fmt.Errorf("--move %s: no such guest runs here", name), "name a running guest, or all")
		}
	}
	for _, r := range more.reserves {
		if err := hasNode(h, "--reserve", r.Node); err != nil {
			return nil, nil, err
		}
		if n, _ := h.Topology.Node(r.Node); r.CPUs > len(n.CPUs) {
			return nil, nil, failed(fmt.Errorf("--reserve: %d CPUs of node %d, which has %d", r.CPUs, r.Node, len(n.CPUs)), "CPUs of that node: "+n.CPUs.String())
		}
	}
	for _, d := range more.daemons {
		if err := hasNode(h, "--daemon", d.Node); err != nil {
			return nil, nil, err
		}
	}
	var added []string
	for i := range more.guests {
		guest := &more.guests[i]
		if names[guest.Name] {
			return nil, nil, failed(fmt.Errorf("--add: guest %s runs here already, or is added twice", guest.Name), "give it another name")
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
	if len(added) == 0 && len(w.move) == 0 {
		return placement.Place(ask), nil, nil
	}
	return placement.Add(ask, more.guests, w.move), added, nil
}

func hasNode(h *facts.Host, flag string, id int) error {
	if _, ok := h.Topology.Node(id); !ok {
		var nodes []string
		for _, n := range h.Topology.Nodes {
			nodes = append(nodes, fmt.Sprint(n.ID))
		}
		return failed(fmt.Errorf("%s: no node %d on this host", flag, id), "nodes of this host: "+strings.Join(nodes, ", "))
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
		return failed(errors.New("--add: no NIC "+quote(n.NIC)+" on this host"), "see 'mpps inspect' for its NICs")
	}
	return nil
}
