package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
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
