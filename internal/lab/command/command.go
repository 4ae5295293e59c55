// Package command is mpps-lab: the emulated host by hand, the demo, and the measurements of whole hosts. It runs mpps
// there and imports none of its verbs.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/lab"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/version"
)

// app is one invocation: its streams and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	opts report.Options
	mpps string // the program for the emulated host; empty: see host
	name string // of the lab

	path string          // of the command: "mpps-lab up"
	out  *report.Printer // made once the flags are known
}

// Run runs the program and returns the exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	defer stop()
	cli.OutliveReader() // a demo, for example, ends its host before it ends
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	a.opts.Gone = func() { gone(cli.ErrNoReader) }
	root := a.root()
	cli.Completion(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return outcome.CodeOK
	}
	if a.out == nil { // the flags themselves were wrong
		a.out = report.NewPrinter(stdout, stderr, a.opts)
	}
	return cli.Fail(a.out, a.path, err)
}

// Root returns the root command, for tests of the documentation.
func Root() *cobra.Command { return (&app{stdout: io.Discard, stderr: io.Discard}).root() }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "mpps-lab",
		Short:   "run an emulated KVM host: libvirt, vhost-net, SR-IOV, two nodes",
		Long:    strings.TrimSpace(overview),
		Version: version.Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.path, a.opts.Version = cmd.CommandPath(), version.Version
			a.out = report.NewPrinter(a.stdout, a.stderr, a.opts)
			return cli.CheckValues(cmd)
		},
	}
	cli.Root(root, (*cobra.Command).Help)
	flags := root.PersistentFlags()
	cli.Flags(flags, &a.opts.JSON, &a.opts.Quiet, &a.opts.NoColor, &a.opts.Verbose)
	flags.StringVar(&a.mpps, "mpps", "", "mpps program for the emulated host (default: $MPPS_BIN, else the one next "+
		"to mpps-lab)")
	root.AddCommand(a.upCommand(), a.runCommand(), a.sshCommand(), a.putCommand(), a.getCommand(),
		a.bootCommand("reset", "cut the lab's power and boot it again",
			func(l *lab.Lab, ctx context.Context) error { return l.Reset(ctx) }),
		a.bootCommand("reboot", "reboot a lab made with --persist by its own boot menu", (*lab.Lab).Reboot),
		a.downCommand(), a.listCommand(), a.cleanCommand(), a.demoCommand(),
		a.campaignCommand(nicModes), a.campaignCommand(pathModes), a.acceptanceCommand())
	return root
}

const overview = `
Builds and boots a Debian 13 KVM host under QEMU, to try mpps without risk. The
root tree is built once (about a minute, 1.5 GB). Saved states, from which hosts
start in a second, take up to 10 GiB more; 'mpps-lab clean' removes both. Its
traffic never leaves the emulated host's own network.

  mpps-lab up                         boot it; it stays up
  mpps-lab run -- mpps inspect        run a command in it
  mpps-lab ssh                        open a shell in it
  mpps-lab down                       stop and remove it
  mpps-lab demo                       measure, apply and roll back a plan
  mpps-lab modes                      compare NIC modes
  mpps-lab paths                      compare bridge, OVS, NAT, macvtap, passt …

Exit codes: 0 done · 1 failed · 3 not configured, or the lab is not up ·
64 usage; 'run' returns the command's.
`

// host returns the path of mpps for the emulated host.
func (a *app) host() (string, error) {
	file := a.mpps
	if file == "" {
		file = os.Getenv("MPPS_BIN")
	}
	if file == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		file = filepath.Join(filepath.Dir(self), "mpps")
	}
	return program(file)
}

// programs are the binaries for an emulated host with guests.
type programs struct {
	host string // mpps
	init string // the guests' init: mpps-guest, built next to mpps
}

func (a *app) programs() (p programs, err error) {
	if p.host, err = a.host(); err == nil {
		p.init, err = program(filepath.Join(filepath.Dir(p.host), "mpps-guest"))
	}
	return p, err
}

// program refuses a missing file.
func program(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a file", file)
	}
	if err != nil {
		return "", &outcome.Fault{
			Err: fmt.Errorf("program for the emulated host %w", outcome.FileError(err)),
			Hint: "'make build' leaves mpps, mpps-guest and mpps-lab in one directory; --mpps or MPPS_BIN names " +
				"another mpps",
			Code: outcome.CodeNotConfigured,
		}
	}
	return file, nil
}
