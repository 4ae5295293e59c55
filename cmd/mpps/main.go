// Command mpps tunes a KVM host's network data path for throughput and latency, and measures the effect. One file per
// sub-command, or for a family of them: flags, wiring, exit codes. The work is done in internal/.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/site"
	"mpps/internal/cli"
	"mpps/internal/guestinit"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	build "mpps/internal/version"
)

var version = build.Version

func main() {
	if guestinit.IsInit() { // of a guest that 'mpps acceptance --make-guests' made
		guestinit.Run(guestinit.Serve)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, alone: true}
	os.Exit(a.run(os.Args[1:]))
}

// softLimit is the memory limit of the garbage collector, in bytes. Without it the collector may run late when other
// processes keep the CPUs busy, and a host of guests has no memory to spare. It is not a hard limit (runtime/debug,
// SetMemoryLimit).
const softLimit = 384 << 20

// app is one invocation: its streams and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	json    bool
	quiet   bool
	noColor bool
	verbose bool
	root    string
	virsh   string // words, without quotes
	connect string

	format string // text, json, or a name of export.Formats; empty if the command has no --format

	exitCodes string // of another monitor: nagios or npd; empty: those of mpps

	alone    bool           // the process runs this command and no other, such as a step of the acceptance protocol
	approved bool           // what is asked for was approved as a whole: apply does not ask
	restarts []plan.Restart // that the changes made wait for; read by the acceptance protocol
	trial    func()         // called when a trial begins; nil: the acceptance protocol does not ask

	path  string          // of the command: "mpps bench pps"
	reads atomic.Bool     // the command only reads; set after path and out
	out   *report.Printer // made once the flags are known
	gone  func()          // called when the reader of the output has gone
}

// env returns the environment of the verbs.
func (a *app) env() *ops.Env {
	return &ops.Env{Root: a.root, Version: version, Out: a.out, Libvirt: a.libvirt(), Trial: a.trial}
}

// libvirt returns how libvirt is reached, as far as the flags have it.
func (a *app) libvirt() site.Libvirt {
	return site.Libvirt{Virsh: strings.Fields(a.virsh), Connect: a.connect}
}

// run runs one command and returns its exit code.
func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	defer stop()
	ctx, gone := context.WithCancelCause(ctx)
	a.gone = func() { gone(cli.ErrNoReader) }
	defer gone(nil)
	if err := untilSignal(ctx, &a.reads, func() error { return a.execute(ctx, args) }); err != nil {
		return a.exitCode(cli.Fail(a.out, a.path, err), outcome.Silent(err))
	}
	return outcome.CodeOK
}

// patience is how long a command that only reads may go on after a signal.
const patience = time.Second

// untilSignal runs a command. One that only reads is given up soon after a signal: it may be in a long loop, or in a
// call that the kernel does not return from, and it leaves nothing behind. All others end by themselves, since they
// undo what they have begun.
func untilSignal(ctx context.Context, reads *atomic.Bool, command func() error) error {
	done := make(chan error, 1)
	go func() { done <- command() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			if reads.Load() {
				return outcome.Failed(fmt.Errorf("given up while reading: %w", context.Cause(ctx)), "")
			}
		}
	}
}

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) error {
	root := a.command()
	cli.Completion(root)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if a.out == nil { // the flags themselves were wrong
		a.out = report.NewPrinter(a.stdout, a.stderr, report.Options{NoColor: a.noColor})
	}
	return err
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:     "mpps",
		Short:   "tune a KVM host for packet rate and latency, and prove the gain",
		Version: version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.path = cmd.CommandPath()
			manner := mannerOf(cmd)
			if a.alone && manner != "" && manner != readsWidely && os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS(1)
			}
			if err := a.chooseFormat(cmd); err != nil {
				return err
			}
			a.out = report.NewPrinter(a.stdout, a.stderr, report.Options{
				JSON: a.json, Quiet: a.quiet, NoColor: a.noColor, Verbose: a.verbose, Version: version, Gone: a.gone,
			})
			if err := cli.CheckValues(cmd); err != nil {
				return err
			}
			if err := a.libvirt().Check(); err != nil {
				return usage(fmt.Errorf("--%w", err), "")
			}
			a.reads.Store(manner == onlyReads || manner == readsWidely)
			if a.alone && !a.reads.Load() {
				cli.OutliveReader()
			}
			return a.checkRoot()
		},
	}
	cli.Root(root, func(cmd *cobra.Command) error { return a.overview(cmd.Context()) })
	root.SetFlagErrorFunc(badFlag)
	cli.Flags(root.PersistentFlags(), &a.json, &a.quiet, &a.noColor, &a.verbose)
	root.PersistentFlags().StringVar(&a.root, "root", "/", "root directory of the host's files")
	root.PersistentFlags().StringVar(&a.virsh, "virsh", "", "virsh in a container, such as 'podman exec -i "+
		"libvirt virsh'")
	cli.CheckLater(root.PersistentFlags(), "virsh", isProgram)
	root.PersistentFlags().StringVar(&a.connect, "connect", "", "URI of libvirt on this host (default qemu:///system)")
	cobra.EnableCommandSorting = false
	for _, g := range a.groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(movedCommand("lab"), movedCommand("demo"))
	root.SetHelpCommandGroupID(moreGroup)
	addHelp(root)
	a.complete(root)
	return root
}

// checkRoot refuses a --root that exists but is not a directory, such as a pipe, on which reads would block.
func (a *app) checkRoot() error {
	if info, err := os.Stat(a.root); err == nil && !info.IsDir() {
		return outcome.Failed(fmt.Errorf("root directory of the machine %s: not a directory", a.root),
			ops.RootHint)
	}
	return nil
}

// group is a part of the help.
type group struct {
	title    string
	commands []*cobra.Command
}

const moreGroup = "More"

// verb returns a command that takes the arguments that n allows.
func verb(use, short string, n cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args(n), RunE: run}
}

// verbs returns a command that only holds others: alone it shows its help.
func verbs(name, short string, others ...*cobra.Command) *cobra.Command {
	cmd := verb(name, short, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	cmd.AddCommand(others...)
	return cmd
}

// groups returns the commands as the help shows them, in the order in which a user needs them.
func (a *app) groups() []group {
	return []group{
		{"Look", slices.Concat(
			withManner(onlyReads, a.inspectCommand(), a.auditCommand(), a.explainCommand()),
			withManner("", a.diagnoseCommand(), a.topCommand(), a.pathCommand()),
			withManner(onlyReads, a.placeCommand()))},
		{"Change", slices.Concat(
			withManner(onlyReads, a.planCommand(), a.handoverCommand()),
			withManner(sequential, a.applyCommand(), a.confirmCommand(), a.rollbackCommand(), a.restoreCommand(),
				a.domainCommand()),
			withManner(onlyReads, a.verifyCommand(), a.statusCommand(), a.historyCommand()))},
		{"Measure", slices.Concat(
			withManner("", a.benchCommand(), a.searchCommand(), a.latencyCommand(), a.tuneCommand()),
			withManner(onlyReads, a.reportCommand()),
			withManner("", a.agentCommand(), a.acceptanceCommand()))},
		{"SR-IOV and realtime", slices.Concat(
			withManner(sequential, a.sriovCommand()), withManner("", a.realtimeCommand()))},
		{moreGroup, slices.Concat(
			withManner(onlyReads, a.snapshotCommand()), withManner(readsWidely, a.fleetCommand()),
			withManner(sequential, a.attestCommand(), a.exportCommand(), a.versionCommand()))},
	}
}

// The manners of a command and those below it.
const (
	// sequential commands read, judge and write one thing after the other. Several processors would only wake each
	// other, on CPUs that guests use: with one, inspect takes half of the CPU time in the emulated host
	// (docs/benchmarks.md).
	sequential = "sequential"
	// onlyReads commands are sequential and never write to the machine.
	onlyReads = "reads"
	// readsWidely commands never write to the machine either, and read many files on all processors.
	readsWidely = "reads widely"
)

const mannerKey = "manner" // annotation of a command

// withManner gives commands their manner; empty: none.
func withManner(manner string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.Annotations = map[string]string{mannerKey: manner}
	}
	return commands
}

// mannerOf returns the manner of a command, or of the one that it belongs to.
func mannerOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		if manner, is := cmd.Annotations[mannerKey]; is {
			return manner
		}
	}
	return ""
}
