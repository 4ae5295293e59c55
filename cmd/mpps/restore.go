package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/host"
	"mpps/internal/lasting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

// restoreMemory is what the watching process knows of values that were changed by hand, below the root. It is gone after
// a reboot, like those changes.
const restoreMemory = "run/mpps/restore.json"

func (a *app) restoreCommand() *cobra.Command {
	var watch, insist, vfs bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "put back applied values that something has reset",
		Long: `Puts back the values that a reboot, an ifup or a guest's start has reset: those
that 'mpps apply' has noted in /var/lib/mpps/desired.json because nothing else
makes them last. mpps-restore.service runs it with --watch: it then follows the
kernel's events of network devices and the start of guests, and puts back what
they reset. A value that somebody changes by hand is reported (by it, by 'mpps
status' and 'mpps verify') and left alone until its device or guest is made
anew, or until 'mpps restore --insist'.

  mpps restore
  mpps restore --insist
  systemctl status mpps-restore

Exit codes: 0 everything stands · 1 something could not be put back ·
4 something was changed by hand and is left alone · 11 another mpps is at work.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.env().NeedsRoot("restore"); err != nil {
				return err
			}
			e, err := a.engine(nil)
			if err != nil {
				return err
			}
			defer e.close()
			r := &apply.Restorer{Engine: e.Engine, Insist: insist}
			r.Desired = func() ([]lasting.Value, error) { return desired(cmd.Context(), e) }
			if vfs {
				if watch {
					return usage(errors.New("--vfs and --watch: expected one of them"), "")
				}
				return a.restoreVFs(cmd.Context(), e, r, wait)
			}
			if watch {
				return a.watchRestore(cmd.Context(), e, r)
			}
			return a.restoreOnce(cmd.Context(), e, r)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "stay, and put back what events reset (for mpps-restore.service)")
	cmd.Flags().BoolVar(&vfs, "vfs", false, "once, and only what makes virtual functions what they are (for mpps-vfs.service)")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "with --vfs: how long to wait for devices and links")
	cmd.Flags().BoolVar(&insist, "insist", false, "put back also what somebody changed by hand")
	return cmd
}

// desired reads the list of values to be put back; none where there is no list.
func desired(ctx context.Context, e *engine) ([]lasting.Value, error) {
	switch found := e.Mechanisms.Read(ctx, setting.Of(setting.File, lasting.DesiredFile)); found.State {
	case setting.Absent:
		return nil, nil
	case setting.Unknown:
		return nil, errors.New(found.Why)
	default:
		return lasting.ParseDesired(found.Value)
	}
}

// restoreOnce puts back everything that is off, but for what the watching process knows to be changed by hand.
func (a *app) restoreOnce(ctx context.Context, e *engine, r *apply.Restorer) error {
	if err := a.lentNow(ctx, r); err != nil {
		return err
	}
	pass, err := r.Once(ctx, a.recall(e.BootID).ByHand)
	if err != nil {
		return err
	}
	err = a.out.Answer(report.Answer{Verb: "restore", Host: e.name, Result: pass, Text: func(t *report.Text) { report.PutBack(t, pass) }})
	switch {
	case err != nil:
		return err
	case pass.Failed() > 0:
		return outcome.Exit(outcome.CodeFailed)
	case len(pass.ByHand) > 0:
		return outcome.Exit(outcome.CodeDrifted)
	}
	return nil
}

// watchRestore stays and puts values back. First it puts back what nobody confirmed before the host was started anew.
func (a *app) watchRestore(ctx context.Context, e *engine, r *apply.Restorer) error {
	e.watchGuests(ctx, a.root)
	expired, err := e.Expired(ctx)
	for _, x := range expired {
		a.out.Step("transaction %s was not confirmed before the host was started anew: %s put back", x.Of, counted(x.Written(), "value"))
	}
	if err != nil {
		a.out.Failure(err, "")
	}
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	happened, err := m.Events(ctx)
	if err != nil {
		return err
	}
	r.Due = (&functionKeeper{machine: m, had: sriov.NewMemory()}).due
	if err := r.Load(); err != nil {
		return err
	}
	remembered := a.recall(e.BootID)
	r.Recall(remembered.ByHand)
	return r.Watch(ctx, remembered.BootID == "", translate(ctx, happened), func(pass apply.Pass, err error) {
		if err == nil {
			err = a.remember(memory{BootID: e.BootID, ByHand: pass.ByHand})
		}
		if err != nil {
			a.out.Failure(err, "")
		}
		for _, b := range pass.PutBack {
			if b.Error != "" {
				a.out.Step("not put back: %s", b.Error)
				continue
			}
			a.out.Step("put back %s: %s, was %s", b.Address, b.To, b.From)
		}
		for _, b := range pass.ByHand {
			a.out.Step("left alone, changed by hand: %s is %s, wanted %s", b.Address, b.Found, b.Wanted)
		}
	})
}

// translate hands the machine's events to the engine.
func translate(ctx context.Context, in <-chan host.Event) <-chan apply.Event {
	out := make(chan apply.Event)
	go func() {
		defer close(out)
		for e := range in {
			select {
			case out <- apply.Event{Object: e.Object, Anew: e.Anew, Carrier: e.Carrier, Function: e.Function, Guest: apply.GuestChange(e.Guest)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// memory is what is remembered while the host runs.
type memory struct {
	BootID string         `json:"boot_id"`
	ByHand []apply.ByHand `json:"by_hand"`
}

// recall reads the memory; an empty one where there is none of this boot.
func (a *app) recall(boot string) memory {
	text, err := os.ReadFile(filepath.Join(a.root, restoreMemory))
	var m memory
	if err != nil || json.Unmarshal(text, &m) != nil || m.BootID != boot {
		return memory{}
	}
	return m
}

func (a *app) remember(m memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(a.root, restoreMemory)
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return ops.ReplaceFile(name, append(text, '\n'))
}
