// Command mpps-guest is the whole user space of a lab guest: its init and the agent, the far end of a measurement.
package main

import (
	"fmt"
	"os"

	"mpps/internal/guestinit"
	"mpps/internal/outcome"
)

func main() {
	if !guestinit.IsInit() {
		fmt.Fprintln(os.Stderr, "mpps-guest: error: this is the init of a lab's guest, and not process 1")
		fmt.Fprintln(os.Stderr, "hint: see 'mpps-lab --help'")
		os.Exit(outcome.CodeUsage)
	}
	guestinit.Run(guestinit.Serve)
}
