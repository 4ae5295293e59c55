package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/lab"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// Up is the result of up.
type Up struct {
	Name  string    `json:"name"`
	Accel lab.Accel `json:"accel"` // kvm or tcg
	Share string    `json:"share"` // directory here that is /share in the lab
	Netns string    `json:"netns"` // network namespace with the far ends of its NICs
}

// List is the result of list.
type List struct {
	Labs   []lab.Info `json:"labs"`
	Unused []string   `json:"unused"` // folders of the cache that no lab uses, which clean removes
}

func (a *app) upCommand() *cobra.Command {
	var systemd, persist, libvirt, realtime bool
	var kernelArgs []string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "boot the lab; it stays up when this command ends",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := a.host()
			if err != nil {
				return err
			}
			c := lab.Config{Name: a.name, Persist: persist, Args: kernelArgs, Detached: true, Log: a.steps()}
			if systemd {
				c.Mode = lab.Systemd
			}
			if realtime {
				c.Realtime = lab.RealtimeBooted
			}
			l, err := lab.Start(cmd.Context(), c)
			if err != nil {
				return nameUsage(err)
			}
			defer l.Close()
			err = l.Install(cmd.Context(), host)
			if err == nil && libvirt {
				err = l.EnsureLibvirt(cmd.Context())
			}
			if err == nil {
				err = l.Detach()
			}
			if err != nil {
				return errors.Join(err, l.Stop(cmd.Context()))
			}
			result := Up{l.Name(), l.Accel(), l.ShareDir(), l.Netns()}
			return a.out.Answer(report.Answer{Verb: "lab-up", Host: l.Name(), Result: result,
				Text: func(t *report.Text) {
					t.Line("lab %s is up (%s)", result.Name, result.Accel)
					t.Wrap("its /share is ", result.Share)
					t.Wrap("the far ends of its NICs are in network namespace ", result.Netns)
					t.Line("'mpps-lab run -- COMMAND', 'mpps-lab ssh', 'mpps-lab down'")
				}})
		},
	}
	a.nameFlag(cmd)
	cmd.Flags().BoolVar(&systemd, "systemd", false, "boot a full Debian with systemd (27 s) instead of a bare shell "+
		"(5 s)")
	cmd.Flags().BoolVar(&libvirt, "libvirt", false, "also start libvirt in the bare shell (9 s more)")
	cmd.Flags().BoolVar(&persist, "persist", false, "keep the file system across reset and down")
	cmd.Flags().BoolVar(&realtime, "realtime", false, "boot Debian's PREEMPT_RT kernel, downloaded first (30 s)")
	cmd.Flags().StringArrayVar(&kernelArgs, "arg", nil, "kernel argument, such as isolcpus=3; repeatable")
	return cmd
}

// onLab returns a command for a running lab.
func (a *app) onLab(use, short string, check cobra.PositionalArgs,
	do func(context.Context, *lab.Lab, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cli.Args(check),
		RunE: func(cmd *cobra.Command, given []string) error {
			l, err := attach(a.name)
			if err != nil {
				return err
			}
			defer l.Close()
			return do(cmd.Context(), l, given)
		},
	}
	a.nameFlag(cmd)
	return cmd
}

func (a *app) nameFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.name, "name", "default", "name of the lab")
}

func (a *app) runCommand() *cobra.Command {
	return a.onLab("run -- COMMAND [ARGS…]", "run a command in the lab and return its exit code",
		cobra.MinimumNArgs(1),
		func(ctx context.Context, l *lab.Lab, argv []string) error {
			r, err := l.Exec(ctx, lab.Cmd{Argv: argv,
				Stdout: report.Read{Writer: a.stdout, Gone: a.opts.Gone}, Stderr: a.stderr})
			if err != nil {
				return err
			}
			return outcome.Exit(r.Code)
		})
}

func (a *app) sshCommand() *cobra.Command {
	return a.onLab("ssh", "open a shell in the lab", cobra.NoArgs,
		func(ctx context.Context, l *lab.Lab, _ []string) error {
			in, file := a.stdin.(*os.File)
			if !file || !report.IsTerminal(in) {
				return outcome.Usage(errors.New("standard input is no terminal"), "'mpps-lab run -- COMMAND' runs a "+
					"single command")
			}
			return l.Interactive(ctx, in, a.stdout)
		})
}

func (a *app) putCommand() *cobra.Command {
	return a.onLab("put FILE NAME", "copy a file to /share/NAME in the lab", cobra.ExactArgs(2),
		func(_ context.Context, l *lab.Lab, files []string) error { return l.Put(files[1], files[0]) })
}

func (a *app) getCommand() *cobra.Command {
	return a.onLab("get NAME FILE", "copy /share/NAME of the lab to a file", cobra.ExactArgs(2),
		func(_ context.Context, l *lab.Lab, files []string) error { return l.Get(files[0], files[1]) })
}

// bootCommand returns a verb that boots a lab again and installs mpps.
func (a *app) bootCommand(use, short string, boot func(*lab.Lab, context.Context) error) *cobra.Command {
	return a.onLab(use, short, cobra.NoArgs, func(ctx context.Context, l *lab.Lab, _ []string) error {
		host, err := a.host()
		if err == nil {
			err = boot(l, ctx)
		}
		if err != nil {
			return err
		}
		return l.Install(ctx, host)
	})
}

func (a *app) downCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "down", Short: "stop the lab and remove what it left on this machine", Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := lab.Down(cmd.Context(), a.name, a.steps())
			if errors.Is(err, fs.ErrNotExist) {
				return notUp(a.name)
			}
			return nameUsage(err)
		},
	}
	a.nameFlag(cmd)
	return cmd
}

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the labs on this machine",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			labs, err := lab.List()
			if err != nil {
				return err
			}
			unused, err := lab.Unused(lab.Dir())
			if err != nil {
				return err
			}
			return a.out.Answer(listed(List{labs, unused}))
		},
	}
}

func listed(l List) report.Answer {
	return report.Answer{Verb: "lab-list", Result: l, Text: func(t *report.Text) {
		if len(l.Labs) == 0 {
			t.Line("no lab is up")
		}
		var left []string
		for _, i := range l.Labs {
			state := "running"
			switch {
			case i.Orphaned:
				state, left = "its process has ended", append(left, i.Name)
			case !i.Running:
				state = "not running"
			}
			t.Line("%-16s %-8s %-8s %s", i.Name, i.Mode, i.Accel, state)
		}
		for _, name := range left {
			t.Line("left by a process that has ended, removed by 'mpps-lab down --name %s'", name)
		}
		if len(l.Unused) > 0 {
			t.Line("in use by no lab, removed by 'mpps-lab clean':")
		}
		for _, dir := range l.Unused {
			t.Line("  %s", dir)
		}
	}}
}

func (a *app) cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "remove cached root trees and leftovers of dead labs",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := lab.Clean(cmd.Context(), lab.Dir()); err != nil {
				return err
			}
			a.out.Step("removed %s", lab.Dir())
			return nil
		},
	}
}

// attach returns a handle of a running lab.
func attach(name string) (*lab.Lab, error) {
	l, err := lab.Attach(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notUp(name)
	}
	return l, nameUsage(err)
}

func notUp(name string) error {
	return &outcome.Fault{Err: fmt.Errorf("lab %s is not up", name), Hint: "'mpps-lab up' boots it",
		Code: outcome.CodeNotConfigured}
}

// nameUsage turns an invalid --name into a usage error.
func nameUsage(err error) error {
	if errors.Is(err, lab.ErrName) {
		return outcome.Usage(err, "give another --name")
	}
	return err
}

// steps prints the lab's progress.
func (a *app) steps() func(string) {
	return func(text string) { a.out.Step("%s", text) }
}
