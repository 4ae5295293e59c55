package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/report"
)

// helpTexts are the long helps of the commands: help/bench_pps.txt is that of 'mpps bench pps'.
//
//go:embed help/*.txt
var helpTexts embed.FS

// addHelp gives a command, and those below it, their long help. Hidden ones have none.
func addHelp(cmd *cobra.Command) {
	name := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "mpps "), " ", "_")
	if text, err := helpTexts.ReadFile("help/" + name + ".txt"); err == nil {
		cmd.Long = strings.TrimSpace(string(text))
	}
	for _, c := range cmd.Commands() {
		addHelp(c)
	}
}

// complete makes the shell complete what only this host and the catalogue know: settings, guests, NICs, transactions
// and the values of flags that take few.
func (a *app) complete(root *cobra.Command) {
	for _, c := range root.Commands() {
		a.complete(c)
	}
	arguments := map[string]func(*cobra.Command) []string{
		"ID": knobIDs, "[TX]": a.transactions, "GUEST": a.guests, "[GUEST]": a.guests, "PF": a.physicalFunctions,
		"[PF]": a.physicalFunctions,
	}
	if words := strings.Fields(root.Use); len(words) > 1 && arguments[words[1]] != nil {
		root.ValidArgsFunction = completion(arguments[words[1]])
	}
	lists := map[string]func(*cobra.Command) []string{"guest": a.guests, "only": knobIDs, "leave": knobIDs,
		"fail-on": severities}
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		list := lists[f.Name]
		if few, is := f.Value.(interface{ Choices() []string }); is && len(few.Choices()) > 0 {
			list = func(*cobra.Command) []string { return few.Choices() }
		}
		if list != nil { // an error means that there is a completion already
			_ = root.RegisterFlagCompletionFunc(f.Name, completion(list))
		}
	})
}

// completion completes from a list; from nothing else, such as the names of files.
func completion(list func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		fit := facts.Where(list(cmd), func(name string) bool { return strings.HasPrefix(name, begun) })
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

func knobIDs(*cobra.Command) []string {
	return facts.Map(knob.Catalogue(), func(k *knob.Knob) string { return k.ID })
}

func severities(*cobra.Command) []string { return knob.Severities() }

// quietly makes a printer for commands that have none, because cobra completes without the checks of a run.
func (a *app) quietly() *ops.Env {
	a.out = report.NewPrinter(a.stdout, a.stderr, report.Options{Quiet: true})
	return a.env()
}

// known returns the host as far as it can be seen; the shell shows no errors.
func (a *app) known(cmd *cobra.Command) *facts.Host {
	h, err := a.quietly().Gather(cmd.Context(), ops.Look{})
	if err != nil {
		return &facts.Host{}
	}
	defer h.Close()
	return h.Facts
}

func (a *app) guests(cmd *cobra.Command) []string {
	return facts.Map(a.known(cmd).Guests, func(g facts.Guest) string { return g.Name })
}

func (a *app) physicalFunctions(cmd *cobra.Command) []string {
	var names []string
	for _, n := range a.known(cmd).NICs {
		if n.SRIOV != nil {
			names = append(names, n.Name)
		}
	}
	return names
}

func (a *app) transactions(*cobra.Command) []string {
	const last = 50
	t, _ := change.History(a.quietly(), last)
	if t == nil {
		return nil
	}
	var all []string
	for _, e := range t.Transactions {
		all = append(all, e.TX)
	}
	return all
}
