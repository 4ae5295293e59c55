// Command mpps-guest is the whole user space of a lab guest: its init and the agent, the far end of a measurement.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"mpps/internal/lab/guestinit"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/outcome"
	"mpps/internal/version"
)

func main() {
	if !guestinit.IsInit() {
		fmt.Fprintln(os.Stderr, "mpps-guest: error: this is the init of a lab's guest, and not process 1")
		fmt.Fprintln(os.Stderr, "hint: see 'mpps-lab --help'")
		os.Exit(outcome.CodeUsage)
	}
	guestinit.Run(serve)
}

// serve runs the agent on every address. The secret is on the kernel command line (mpps.secret=TEXT). The machine ends
// when serve returns, which a client may ask for.
func serve(ctx context.Context) error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("kernel command line: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := agent.Listen("", ":"+agent.Port, agent.Options{
		Version: version.Version, Secret: secret(string(cmdline)), Open: true,
		PowerOff: func() error {
			stop()
			return nil
		},
	})
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// secret returns the secret in a kernel command line, nil if there is none.
func secret(cmdline string) []byte {
	for word := range strings.FieldsSeq(cmdline) {
		if text, ok := strings.CutPrefix(word, "mpps.secret="); ok && text != "" {
			return []byte(text)
		}
	}
	return nil
}
