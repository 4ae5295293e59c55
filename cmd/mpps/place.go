package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/ops/placing"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/seats"
)

func (a *app) placeCommand() *cobra.Command {
	var flags goalFlags
	var ask placing.Request
	var output string
	var wishes placeWishes
	var detailed bool
	cmd := verb("place", "compute CPUs, NUMA node and huge pages for each guest", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			if err := wishes.parse(&ask); err != nil {
				return err
			}
			ask.Goal = g
			p, err := placing.Place(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			picture := &seats.Placing{Host: p.Host, Result: &p.Result, Added: p.Added}
			if output != "" {
				err := a.writeEncoded(output, func(w io.Writer) error {
					return seats.HTML(w, picture, version, time.Now())
				})
				if err != nil {
					return err
				}
			}
			if output != "-" {
				err = a.out.Answer(report.Answer{
					Verb: "place", Host: p.Host.Name, Result: p, Warnings: p.Warnings,
					Text: func(t *report.Text) {
						t.WrapIf(g.Unnamed, "", "%s", g.Why())
						seats.Text(t, picture)
					},
				})
				if err != nil {
					return err
				}
			}
			return exitIf(detailed && len(p.Refused) > 0, outcome.CodeDrifted)
		})
	flags.add(cmd, a)
	f := cmd.Flags()
	f.StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cli.OutputVar(f, &output, "output,o", "", "draw as this HTML file; - is standard output")
	f.StringArrayVar(&wishes.add, "add", nil, "guest to add: name=, vcpus=, memory=, optionally pps=, queues=, "+
		"nics=, nic=, cpus=, latency=, hugepages, vf; no spaces; repeatable")
	f.StringArrayVar(&wishes.reserve, "reserve", nil, "resources kept for the host: node=, cpus=, memory=; repeatable")
	f.StringArrayVar(&wishes.daemon, "daemon", nil, "daemon of the host: name=, node=, cpus=, memory= (default: the "+
		"storage daemons found, one CPU each); repeatable")
	f.StringSliceVar(&ask.Move, "move", nil, "guests that may move although they are pinned well, or all")
	f.BoolVar(&ask.Strict, "strict", false, "relax no rule; refuse guests instead")
	f.BoolVar(&detailed, "detailed-exit-code", false, "exit code 4 if a guest does not fit")
	return cmd
}

// placeWishes are the flags for what to place in addition to what the host has.
type placeWishes struct{ add, reserve, daemon []string }

func (w *placeWishes) parse(into *placing.Request) error {
	return cmp.Or(parseAll(&into.Guests, "add", w.add, placing.ParseGuest),
		parseAll(&into.Reserves, "reserve", w.reserve, placing.ParseReserve),
		parseAll(&into.Daemons, "daemon", w.daemon, placing.ParseDaemon))
}

// parseAll appends the parsed values of a repeated flag.
func parseAll[T any](into *[]T, flag string, texts []string, parse func(string) (T, error)) error {
	for _, text := range texts {
		v, err := parse(text)
		if err != nil {
			return usage(fmt.Errorf("--%s %s: %w", flag, text, err), "see 'mpps place --help'")
		}
		*into = append(*into, v)
	}
	return nil
}
