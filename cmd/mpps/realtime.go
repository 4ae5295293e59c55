package main

import "github.com/spf13/cobra"

func (a *app) realtimeCommand() *cobra.Command {
	return verbs("realtime", "check the CPUs of realtime guests", a.realtimeCheckCommand())
}
