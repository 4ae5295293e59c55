package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/domain"
	"mpps/internal/ops/definition"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// domainShown is the answer of mpps domain show.
type domainShown struct {
	Source string         `json:"source"`          // "guest vm1", or the file
	State  string         `json:"state,omitempty"` // of a guest: running, shut off …
	Guest  domain.Guest   `json:"guest"`           // what the definition says
	Values []domain.Value `json:"values"`          // everything that can be edited, by path
	// Pending are the paths in which a running guest is not what its definition says: they take effect at its next start.
	Pending []string `json:"pending"`
}

func (a *app) domainShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "what a definition says about CPUs, memory, NICs and devices",
		Long: `Shows what a guest's definition says of everything that matters to packets and
latency, with -v every value by the path that 'mpps domain tune --set' takes.
NAME is a guest of this host; FILE is a path, a name that ends in .xml, or - for
standard input.

  mpps domain show vm1
  virsh dumpxml vm1 | mpps domain show - -v`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := definition.Of(cmd.Context(), a.env(), given[0], a.stdin)
			if err != nil {
				return err
			}
			shown := domainShown{Source: d.Name, Guest: d.Doc.Guest(), Values: d.Doc.Values(), Pending: []string{}}
			if d.Guest != nil {
				shown.State, shown.Pending = d.Guest.State, d.Guest.Pending
			}
			return a.out.Answer(report.Answer{
				Verb: "domain-show", Host: d.HostName(), Result: shown, Warnings: unclear(shown.Guest),
				Text: func(t *report.Text) {
					report.Domain(t, shown.State, shown.Guest, shown.Pending)
					if a.verbose {
						report.DomainValues(t, shown.Values)
					}
				},
			})
		},
	}
}

// unclear warns of what a definition says and nobody can understand.
func unclear(g domain.Guest) []outcome.Warning {
	var all []outcome.Warning
	for _, m := range g.Unclear {
		all = append(all, outcome.Warning{Code: "unclear", Text: m.Where + " is " + quote(m.Found) + ", which libvirt could not read either"})
	}
	return all
}
