package main

import (
	"testing"

	"github.com/spf13/pflag"

	"mpps/internal/lab/command"
	"mpps/internal/must"
)

// TestLabCommandLines: what mpps-lab runs on an emulated host is what mpps takes.
func TestLabCommandLines(t *testing.T) {
	for _, experiment := range []string{"throughput", "modes"} {
		w := written{where: "mpps-lab acceptance " + experiment, words: command.Acceptance(experiment)}
		if err := w.parses(); err != nil {
			t.Errorf("%s: %v", w, err)
		}
	}
	modes, _, err := command.Root().Find([]string{"modes"})
	must.Do(t, err)
	there := (&app{}).benchModes().Flags()
	modes.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "only" || f.Name == "help" {
			return
		}
		if same := there.Lookup(f.Name); same == nil || same.Shorthand != f.Shorthand {
			t.Errorf("mpps-lab modes has --%s, mpps bench modes has not", f.Name)
		}
	})
}
