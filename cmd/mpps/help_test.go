package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	"mpps/internal/lab/command"
	"mpps/internal/must"
)

// everyCommand lists the commands, those below others too.
func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		all = append(all, everyCommand(below)...)
	}
	return all
}

// TestHelpFitsATerminal draws the help of every command.
func TestHelpFitsATerminal(t *testing.T) {
	var text bytes.Buffer
	root, lab := (&app{stdout: &text, stderr: &text}).command(), command.Root()
	root.SetOut(&text)
	lab.SetOut(&text)
	for _, cmd := range append(everyCommand(root), everyCommand(lab)...) {
		text.Reset()
		must.Do(t, cmd.Help())
		if err := wide(text.String(), 80); err != nil {
			t.Errorf("%s --help: %v", cmd.CommandPath(), err)
		}
	}
}
