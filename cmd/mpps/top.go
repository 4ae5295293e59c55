package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/bottleneck"
	"mpps/internal/facts"
	"mpps/internal/host"
	"mpps/internal/report"
	"mpps/internal/report/top"
)

// topFlags are the flags of mpps top.
type topFlags struct {
	every, length time.Duration
	guest, sort   string
	netns         []string
	load          string
	once, all     bool
	counters      bool
	looks         bool // a flag was given that only a live machine has
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "the path from NIC to guest, live: rates, use, losses, bottleneck",
		Long: `Shows what every station of the packet path does, from the NICs over softirqs,
bridges and taps to vhost threads and vCPUs, with each queue, thread and CPU:
how many packets per second pass, how busy it is, what waits there, what is lost
and by which counter; and in the first line what holds the path back, which
'mpps diagnose' says in full. Nothing is changed. Looking takes at most 2 % of
one CPU: where a look is dearer the next one waits.

On a terminal it stays; ? explains the keys, q ends. Elsewhere, or with --json,
it prints one look after the other, with --once a single one.

  mpps top
  mpps top --guest web --every 2s
  mpps top --once
  mpps top --json --for 1m             a line of JSON a look
  mpps top --netns blue
  mpps top --load load.json            what 'mpps diagnose -o load.json' saw

Exit codes: 0 ended, by a key, a signal or --for · 1 failed.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.looks = slices.ContainsFunc([]string{"every", "for", "netns", "counters"}, cmd.Flags().Changed)
			if err := f.check(a.root); err != nil {
				return err
			}
			return a.runTop(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.every, "every", time.Second, "how long between two looks, 200ms to 1m")
	flags.DurationVar(&f.length, "for", 0, "for how long; 0 until it is ended")
	flags.BoolVar(&f.once, "once", false, "one look, and the end")
	flags.StringVar(&f.guest, "guest", "", "show guests with this in their names alone")
	flags.StringVar(&f.sort, "sort", string(top.ByPath), "what comes first among NICs, guests and queues: "+topOrders())
	flags.BoolVar(&f.all, "idle", false, "show what nothing passed, too")
	flags.BoolVar(&f.counters, "counters", false, "load nothing into the kernel: counters alone, with less certainty")
	flags.StringArrayVar(&f.netns, "netns", nil, "show the devices and sockets of this network namespace too (ip netns list; may be repeated)")
	flags.StringVar(&f.load, "load", "", "show this file, written by 'mpps diagnose -o', instead of looking")
	return cmd
}

func topOrders() string {
	var names []string
	for _, s := range top.Sorts {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (f *topFlags) check(root string) error {
	switch {
	case f.every < 200*time.Millisecond || f.every > time.Minute:
		return usage(fmt.Errorf("--every %v: expected 200ms to 1m", f.every), "1s is the usual")
	case f.length < 0:
		return usage(fmt.Errorf("--for %v: expected a time such as 10m", f.length), "leave it out to look until the end")
	case f.once && f.length > 0:
		return usage(errors.New("--once is one look, --for looks for a while"), "leave one of the two out")
	case !slices.Contains(top.Sorts, top.Sort(f.sort)):
		return usage(fmt.Errorf("--sort %q: expected one of %s", f.sort, topOrders()), "")
	case slices.Contains(f.netns, ""):
		return usage(errors.New("--netns: expected the name of a network namespace, found nothing"), "see 'ip netns list'")
	case f.load != "" && f.looks:
		return usage(errors.New("--load is a file, and --every, --for, --netns and --counters are for looking"), "leave one of them out")
	case f.load == "" && root != "/":
		return usage(errors.New("--root is for recorded machines, and top looks at a live one"), "leave --root out, or give --load FILE")
	}
	return nil
}

// runTop shows one look after the other until it is ended.
func (a *app) runTop(ctx context.Context, f *topFlags) error {
	view := &top.View{Guest: f.guest, Sort: top.Sort(f.sort), Idle: f.all, Every: f.every}
	if f.load != "" {
		h, err := readSnapshot(f.load)
		switch {
		case err != nil:
			return err
		case h.Load == nil:
			return failed(fmt.Errorf("%s holds a host, but not what its stages did", f.load), "make one with 'mpps diagnose -o FILE' while traffic runs")
		}
		look := lookOf(h, h.Load, h.Taken)
		look.CostMS = h.Load.CostMS
		return a.printLook(look, view)
	}
	ctx, stop := untilHangup(ctx) // the terminal is to be given back
	defer stop()
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	m, err := host.Open(a.root)
	if err != nil {
		return failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	defer m.Close()
	m.LookInside(host.NoGuest)
	l := &looker{machine: m, flags: f}
	if !a.json && !f.once {
		s, err := a.out.Screen(a.stdin)
		if err != nil {
			return errors.Join(failed(err, "mpps top --once needs no terminal"), closeScreen(s))
		}
		if s != nil {
			return a.liveTop(ctx, l, view, s)
		}
	}
	defer l.close()
	for ctx.Err() == nil {
		look := l.next(ctx)
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

// Shares of one CPU that looking may take, as how many times its cost passes until it is done again.
const (
	perLook      = 50  // 2 %
	perInventory = 200 // what there is changes seldom
)

// settledLooks are looks behind which their usual cost is known.
const settledLooks = 5

// longestPause is until when a look is taken however dear it is: the host's watch keeps within 2 % of its interval by itself.
const longestPause = 10 * time.Second

// looker takes looks at a machine.
type looker struct {
	machine *host.Machine
	flags   *topFlags

	facts *facts.Host
	watch *host.LoadWatch
	until time.Time     // the inventory is taken anew
	used  time.Duration // CPU time of the process at the end of the last look
	pause time.Duration // until the next look is due
	taken int
	dear  bool          // tracepoints and a profile cost too much here: counters alone
	usual time.Duration // what a look has cost, the last ones counting most
}

func (l *looker) next(ctx context.Context) *bottleneck.Look {
	if l.facts == nil {
		l.used, l.pause = host.UsedTime(), l.flags.every
	}
	if time.Now().After(l.until) {
		l.inventory(ctx)
	}
	load := l.watch.Next(ctx, l.pause)
	if ctx.Err() != nil && !(errors.Is(ctx.Err(), context.DeadlineExceeded) && (l.taken == 0 || load.Seconds >= l.flags.every.Seconds()/2)) {
		return nil // what is left of an interval when --for is over is shown where it says anything
	}
	l.taken++
	look := lookOf(l.facts, load, time.Now())
	used := host.UsedTime() // with what drawing the last one took
	cost := used - l.used
	l.used = used
	if l.usual == 0 {
		l.usual = cost
	}
	l.usual += (cost - l.usual) / 4 // one that is dear by chance does not hold up the next
	l.pause = max(l.flags.every, min(l.usual*perLook, longestPause))
	look.CostMS = float64(cost) / float64(time.Millisecond)
	// What tracepoints and a profile cost grows with the interval: to wait longer does not help there.
	if span := time.Duration(load.Seconds * float64(time.Second)); load.Method == facts.ByTracepoints && l.taken >= settledLooks && l.usual*perLook > span*11/10 {
		l.dear = true
		l.close()
		l.begin(ctx)
	}
	if l.dear {
		look.Unseen = append(look.Unseen, facts.Unseen{What: "reasons of drops, waits for CPUs, where CPU time goes", Why: "to see them takes more than 2 % of a CPU here"})
	}
	return look
}

// lookOf is what a load shows of a host.
func lookOf(h *facts.Host, l *facts.Load, at time.Time) *bottleneck.Look {
	return &bottleneck.Look{
		Schema: bottleneck.LookSchema, At: at, Host: h.Name, Seconds: l.Seconds, Method: l.Method, CPUs: l.CPUs,
		Stations: bottleneck.Stations(h, l), Diagnosis: bottleneck.Find(h, l), Unseen: l.Unseen,
	}
}

// inventory takes what there is anew: guests come and go.
func (l *looker) inventory(ctx context.Context) {
	used := host.UsedTime()
	l.close()
	l.facts = l.machine.Inventory(ctx)
	host.Read(ctx, l.machine.Mechanisms(), l.facts, bottleneck.Addresses())
	l.begin(ctx)
	cost := host.UsedTime() - used
	l.until = time.Now().Add(max(15*time.Second, cost*perInventory))
	l.used += cost // stretched by itself
}

// begin watches from now on.
func (l *looker) begin(ctx context.Context) {
	l.watch = l.machine.WatchLoad(ctx, l.facts, host.LoadOptions{
		Interval: l.pause, Netns: append([]string{""}, l.flags.netns...), Counters: l.flags.counters || l.dear,
	})
}

func (l *looker) close() {
	if l.watch != nil {
		_ = l.watch.Close() // nothing of it is needed any more
	}
}
