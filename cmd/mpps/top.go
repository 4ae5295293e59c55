package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/cli"
	"mpps/internal/ops/load"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/top"
	"mpps/internal/words"
)

// topFlags are the flags of mpps top.
type topFlags struct {
	every, length time.Duration
	guest, sort   string
	netns         []string
	load          string
	once, all     bool
	counters      bool
	looks         bool // a flag was given that needs a live machine
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := verb("top", "watch the path live: rates, CPU use, losses, bottleneck", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			f.looks = slices.ContainsFunc([]string{"every", "for", "netns", "counters"}, cmd.Flags().Changed)
			if err := f.check(a.root); err != nil {
				return err
			}
			return a.runTop(cmd.Context(), &f)
		})
	flags := cmd.Flags()
	cli.DurationVar(flags, &f.every, "every", time.Second, 200*time.Millisecond, time.Minute,
		"sampling interval, 200ms to 1m")
	cli.DurationVar(flags, &f.length, "for", 0, 0, 0, "how long to run; 0 until stopped")
	flags.BoolVar(&f.once, "once", false, "print one sample and exit")
	flags.StringVar(&f.guest, "guest", "", "show only guests whose name contains this")
	cli.ChoiceVar(flags, &f.sort, "sort", string(top.ByPath),
		"sort order of NICs, guests and queues: "+strings.Join(topOrders(), ", "), topOrders()...)
	flags.BoolVar(&f.all, "idle", false, "also show idle devices and queues")
	flags.BoolVar(&f.counters, "counters", false, "use counters only, no eBPF or perf; less certain")
	flags.StringArrayVar(&f.netns, "netns", nil, "also show this network namespace (see 'ip netns list'); repeatable")
	cli.CheckLater(flags, "netns", isNamespace)
	flags.StringVar(&f.load, "load", "", "show this file of 'mpps diagnose -o' instead of the live host")
	return cmd
}

// topOrders returns the values of --sort.
func topOrders() []string {
	return words.Each(top.Sorts, func(s top.Sort) string { return string(s) })
}

func (f *topFlags) check(root string) error {
	switch {
	case f.once && f.length > 0:
		return usage(errors.New("--once is one look, --for looks for a while"), "leave one of the two out")
	case slices.Contains(f.netns, ""):
		return usage(errors.New("--netns: expected the name of a network namespace, found nothing"),
			"see 'ip netns list'")
	case f.load != "" && f.looks:
		return usage(errors.New("--load is a file, and --every, --for, --netns and --counters are for looking"),
			"leave one of them out")
	case f.load == "" && root != "/":
		return usage(errors.New("--root is for recorded machines, and top looks at a live one"),
			"leave --root out, or give --load FILE")
	}
	return nil
}

// runTop shows one look after the other until it is ended.
func (a *app) runTop(ctx context.Context, f *topFlags) error {
	view := &top.View{Guest: f.guest, Sort: top.Sort(f.sort), Idle: f.all, Every: f.every}
	if f.load != "" {
		h, err := load.Read(f.load)
		if err != nil {
			return err
		}
		look := load.Look(h, h.Load, h.Taken)
		look.CostMS = h.Load.CostMS
		return a.printLook(look, view)
	}
	l, err := load.Start(a.env(), f.every, f.netns, f.counters)
	if err != nil {
		return err
	}
	defer l.Stop()
	if f.length > 0 { // of looking: on a busy host it takes a second to begin
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	if !a.json && !f.once {
		s, err := a.out.Screen(a.stdin)
		if err != nil {
			return errors.Join(outcome.Failed(err, "mpps top --once needs no terminal"), closeScreen(s))
		}
		if s != nil {
			return a.liveTop(ctx, l, view, s)
		}
	}
	for ctx.Err() == nil {
		look := l.Next(ctx)
		if look == nil {
			return nil
		}
		if err := a.printLook(look, view); err != nil || f.once {
			return err
		}
	}
	return nil
}

func closeScreen(s *report.Screen) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

func (a *app) printLook(look *bottleneck.Look, view *top.View) error {
	if a.json {
		return a.out.Line(look, "")
	}
	return a.out.View(func(t *report.Text) {
		top.Draw(t, look, view)
		t.Blank()
	})
}

// lookSource gives looks, one after the other.
type lookSource interface {
	Next(context.Context) *bottleneck.Look // waits for it; nil if the context ended before
	Close()
}

// liveTop shows looks on a terminal and handles keys, until a key, a signal or the context ends it. It always restores
// the terminal.
func (a *app) liveTop(ctx context.Context, l lookSource, view *top.View, s *report.Screen) (err error) {
	defer s.Guard()
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGQUIT) // whose default leaves the terminal as it is
	defer stop()
	resized, stopped, goesOn := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(stopped, syscall.SIGTSTP)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(resized)
	defer signal.Stop(stopped)
	defer signal.Stop(goesOn)

	looking, end := context.WithCancel(ctx)
	taken := make(chan *bottleneck.Look)
	ended := make(chan struct{})
	defer func() {
		end()
		<-ended
	}()
	go func() {
		defer close(ended)
		defer s.Guard()
		defer l.Close()
		for {
			look := l.Next(looking)
			select {
			case <-looking.Done():
				return
			case taken <- look:
			}
		}
	}()

	view.Keys, view.Past = s.HasKeys(), &top.History{}
	keys := s.Keys()
	var shown *bottleneck.Look
	scroll, page := 0, 10
	draw := func() error {
		return s.Draw(func(t *report.Text) {
			_, view.Rows = s.Size()
			page = max(view.Rows/2, 1)
			if shown == nil {
				top.Wait(t, view)
				return
			}
			scroll = top.Draw(t, shown, view)
		})
	}
	for {
		if err := draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case look := <-taken:
			if look == nil { // the context ended
				continue
			}
			view.Past.Add(look)
			if !view.Paused || shown == nil {
				shown = look
			}
		case k, open := <-keys:
			if !open { // the keyboard is gone
				return nil
			}
			if view.Press(k, scroll, page) {
				return nil
			}
			if view.Step != 0 {
				shown, view.Step = view.Past.Step(shown, view.Step), 0
			}
			if !view.Paused && view.Past.Newest() != nil {
				shown = view.Past.Newest()
			}
		case <-resized:
		case <-stopped:
			if err := s.Stop(goesOn); err != nil {
				return err
			}
		case <-goesOn: // stopped by somebody else, who may have changed the terminal
			if err := errors.Join(s.Close(), s.Open()); err != nil {
				return err
			}
		}
	}
}
