// Command mpps-lab tries mpps on an emulated KVM host: by hand, as a demo, and with guests of all NIC modes.
package main

import (
	"os"

	"mpps/internal/lab/command"
)

func main() { os.Exit(command.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
