package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mpps/docs/knobs"
	"mpps/internal/advise/knob"
	"mpps/internal/report"
)

func (a *app) explainCommand() *cobra.Command {
	var list, asMarkdown bool
	var search string
	cmd := &cobra.Command{
		Use:   "explain ID | --list | --search TEXT",
		Short: "why a value matters, what it costs, how to see that it worked",
		Long: `Shows what the catalogue knows of one knob, by the ID that audit and plan print.
--search finds the knobs that speak of something: advice that you have read
somewhere is found by its own words, right or wrong.

  mpps explain domain.queues
  mpps explain --list
  mpps explain --search sched_rt_period_us=-1
  mpps explain domain.queues --markdown`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, ids []string) error {
			switch {
			case (list || search != "") && len(ids) > 0:
				return usage(fmt.Errorf("--list and --search take no ID, found %q", ids[0]), "")
			case list && search != "":
				return usage(fmt.Errorf("--list shows all knobs, --search some of them"), "give one of the two")
			case search != "":
				return a.searchKnobs(search)
			case list:
				return a.listKnobs(asMarkdown)
			case len(ids) == 0:
				return usage(fmt.Errorf("expected the ID of a knob"), "'mpps explain --list' shows all of them")
			}
			k, near := knob.Find(ids[0])
			if k == nil {
				hint := "'mpps explain --list' shows all of them"
				if len(near) > 0 {
					hint = "did you mean " + strings.Join(near, " or ") + "?"
					if hits := knob.Search(ids[0]); len(hits) > 0 && hits[0].Field != "near" &&
						len(strings.Fields(ids[0])) == 1 {
						hint += fmt.Sprintf(" 'mpps explain --search %s' shows what is said of it", ids[0])
					}
				}
				return usage(fmt.Errorf("unknown knob %q", ids[0]), hint)
			}
			return a.out.Answer(report.Answer{
				Verb: "explain", Result: k.Page(),
				Text: func(t *report.Text) {
					if asMarkdown {
						writeMarkdown(t, knobs.Page(k.ID))
						return
					}
					report.Knob(t, k)
				},
			})
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "every knob, in path order")
	cmd.Flags().StringVar(&search, "search", "", "the knobs that speak of this")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "as a page of documentation")
	return cmd
}

// writeMarkdown writes a page of documentation unchanged.
func writeMarkdown(t *report.Text, markdown string) {
	for line := range strings.Lines(markdown) {
		t.Line("%s", strings.TrimSuffix(line, "\n"))
	}
}

// searchKnobs shows the knobs whose text matches.
func (a *app) searchKnobs(text string) error {
	hits := knob.Search(text)
	return a.out.Answer(report.Answer{
		Verb: "explain-search", Result: knob.Hits{Search: text, Hits: append([]knob.Hit{}, hits...)},
		Text: func(t *report.Text) { report.Hits(t, text, hits) },
	})
}

func (a *app) listKnobs(asMarkdown bool) error {
	return a.out.Answer(report.Answer{
		Verb: "explain-list", Result: knob.List(),
		Text: func(t *report.Text) {
			if asMarkdown {
				writeMarkdown(t, knobs.Page("README"))
				return
			}
			report.Knobs(t, knob.Catalogue())
		},
	})
}
