package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/report"
	"mpps/internal/report/top"
)

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
