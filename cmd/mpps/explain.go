package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mpps/docs/knobs"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/lookup"
	"mpps/internal/report"
)

func (a *app) explainCommand() *cobra.Command {
	var list, asMarkdown bool
	var search string
	cmd := verb("explain ID | --list | --search TEXT", "explain a setting: why it matters, its cost and sources",
		cobra.MaximumNArgs(1), func(_ *cobra.Command, ids []string) error {
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
			if entry := lookup.EntryOf(ids[0]); entry != nil {
				return a.out.Answer(report.Answer{
					Verb: "explain-advice", Result: *entry,
					Text: func(t *report.Text) {
						if asMarkdown {
							writeMarkdown(t, entry.Markdown)
							return
						}
						report.Advice(t, *entry)
					},
				})
			}
			k := knob.Find(ids[0])
			if k == nil {
				return unknownKnob(ids[0])
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
		})
	cmd.Flags().BoolVar(&list, "list", false, "list all settings, in path order")
	cmd.Flags().StringVar(&search, "search", "", "find settings and advice by a word or a pasted line")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print as Markdown")
	return cmd
}

// unknownKnob returns the error for an ID that there is not, with what comes nearest.
func unknownKnob(id string) error {
	hint := "'mpps explain --list' shows all of them"
	if near := lookup.Suggest(id); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
		if hits := lookup.Search(id); len(hits) > 0 && hits[0].Field != "near" && len(strings.Fields(id)) == 1 {
			hint += fmt.Sprintf(" 'mpps explain --search %s' shows what is said of it", id)
		}
	}
	return usage(fmt.Errorf("unknown knob %q", id), hint)
}

// writeMarkdown writes a page of documentation unchanged.
func writeMarkdown(t *report.Text, markdown string) {
	for line := range strings.Lines(markdown) {
		t.Line("%s", strings.TrimSuffix(line, "\n"))
	}
}

// searchKnobs shows the knobs and the advice that a text is about.
func (a *app) searchKnobs(text string) error {
	found := lookup.Find(text)
	return a.out.Answer(report.Answer{
		Verb: "explain-search", Result: found,
		Text: func(t *report.Text) { report.Hits(t, found) },
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
