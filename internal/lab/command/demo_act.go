package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"mpps/internal/lab"
	"mpps/internal/report"
)

// act is one part of the demo.
type act struct {
	what  string
	about time.Duration // usual duration on two quiet cores
	// expect, if set, estimates about when the act begins.
	expect func(context.Context) time.Duration
	limit  time.Duration // its deadline
	do     func(context.Context) error
	repeat bool // only measures: is repeated once if it fails while its box is alive
	noHost bool // needs no box: its failure replaces none, and its time does not count towards demoLimit
}

// The demo promises a maximum silence, and a maximum number of lines per act and of columns per line.
const (
	demoSilence = 15 * time.Second
	demoPulse   = 2 * time.Second // … on a terminal, which a heartbeat does not fill
	demoLines   = 25
	demoColumns = 80
)

// demoLimit bounds a demo from its first box on, in fair time (lab.FairTimeout).
const demoLimit = 15 * time.Minute

var (
	errDemoDeadline = errors.New("the act took longer than its deadline")
	errDemoLimit    = fmt.Errorf("the demo took longer than %.0f minutes", demoLimit.Minutes())
)

// demoBoxes is the number of boxes, one after the other, that a demo uses before it gives up: nested emulation is not
// perfect.
const demoBoxes = 2

// stage plays acts: it announces them, prints a heartbeat, ends them at their deadline, and starts over on a fresh host
// if one died.
type stage struct {
	terminal, log io.Writer
	live          bool // the terminal redraws: the next line replaces a heartbeat
	limit         func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	reopen        func(ctx context.Context, why string) error // gives up the box; the first act starts a fresh one
	checkAlive    func(context.Context) error                 // what died or hangs on the host; nil: nothing
	after         func() error                                // writes the report so far

	mu      sync.Mutex
	started time.Time
	act     act // the current one, and its start
	begun   time.Time
	spoken  time.Time // when the last line was printed
	noted   time.Time // … or added to the log
	beating bool      // the terminal's last line is a heartbeat
	detail  string    // last line of the running program
	printed int       // lines of this act
	partial []byte    // incomplete line for the log
}

// play plays the acts in order: first those that need no box, then the others within demoLimit.
func (s *stage) play(ctx context.Context, acts []act) error {
	s.started = time.Now()
	ended := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(ended) })
	defer beating.Wait()
	defer close(ended)
	first := 0
	for ; first < len(acts) && acts[first].noHost; first++ {
		if err := s.playAct(ctx, first, acts); err != nil {
			return fmt.Errorf("%s: %w", acts[first].what, err)
		}
	}
	whole, cancel := s.limit(ctx, demoLimit)
	defer cancel()
	err := s.playInBoxes(whole, first, acts)
	if err != nil && whole.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errDemoLimit, err)
	}
	return err
}

// playInBoxes plays the acts from first on, and starts over from there in a fresh box if one died. A failure in a box
// that is alive ends the demo.
func (s *stage) playInBoxes(ctx context.Context, first int, acts []act) error {
	boxes, repeated := 1, map[int]bool{}
	for i := first; i < len(acts); i++ {
		err := s.playAct(ctx, i, acts)
		if err == nil {
			continue
		}
		died := errors.Is(err, lab.ErrGone) || errors.Is(err, lab.ErrFreshLab) || errors.Is(err, errDemoDeadline)
		if ctx.Err() == nil && !errors.Is(err, errDemoDeadline) {
			dead := s.checkAlive(ctx)
			died = died || dead != nil
			if dead != nil && !errors.Is(dead, lab.ErrGone) {
				err = fmt.Errorf("%w: %w", dead, err)
			}
		}
		if !died && acts[i].repeat && !repeated[i] && ctx.Err() == nil {
			repeated[i] = true
			s.say("  that failed (%v): once more", err)
			i--
			continue
		}
		if !died || boxes == demoBoxes || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", acts[i].what, err)
		}
		boxes, repeated = boxes+1, map[int]bool{}
		s.printed = 0
		why := fmt.Sprintf("%s: %v", acts[i].what, err)
		s.note(why)
		why, _, _ = strings.Cut(why, "\n")
		s.say("the emulated host died or hung: a fresh one, from the start\n  %s", why)
		if err := s.reopen(ctx, why); err != nil {
			return fmt.Errorf("a fresh emulated host: %w", err)
		}
		i = first - 1
	}
	return nil
}

func (s *stage) playAct(ctx context.Context, i int, acts []act) error {
	a := acts[i]
	if a.expect != nil {
		a.about = a.expect(ctx)
	}
	s.mu.Lock()
	s.printed, s.detail = 0, ""
	s.act, s.begun = a, time.Now()
	s.mu.Unlock()
	once := ""
	if a.noHost {
		once = "once, "
	}
	s.say("[%d/%d, %s] %s (%sabout %s)", i+1, len(acts), seconds(time.Since(s.started)), a.what, once,
		seconds(a.about))
	limited, cancel := s.limit(ctx, a.limit)
	defer cancel()
	err := a.do(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: %w", errDemoDeadline, err)
	}
	return errors.Join(err, s.after())
}

// beat prints a line whenever the terminal has been silent for a while: during an act, and while a host that may have
// died is examined and replaced.
func (s *stage) beat(ended <-chan struct{}) {
	most := demoSilence
	if s.live {
		most = demoPulse
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.clear()
			return
		case <-tick.C:
			s.mu.Lock()
			silent, detail, a, begun := time.Since(s.spoken), s.detail, s.act, s.begun
			s.mu.Unlock()
			if silent < most {
				continue
			}
			ran := time.Since(begun)
			line := "… still running, " + seconds(ran) + " of about " + seconds(a.about)
			if ran > a.about {
				line = "… still running, " + seconds(ran) + "; about " + seconds(a.about) + " on a quiet machine"
			}
			if detail != "" {
				line += ": " + detail
			}
			s.pulse(line)
		}
	}
}

// pulse prints a heartbeat: a line on the terminal and in the log, or on a live terminal one that the next replaces.
func (s *stage) pulse(line string) {
	if !s.live {
		s.print(line)
		return
	}
	s.mu.Lock()
	quiet := time.Since(s.noted)
	fmt.Fprint(s.terminal, "\r\x1b[K", report.Cut(line, demoColumns-1))
	s.beating = true
	s.mu.Unlock()
	if quiet >= demoSilence {
		s.note(line)
	}
}

// clear removes a heartbeat from the terminal.
func (s *stage) clear() {
	if s.beating {
		fmt.Fprint(s.terminal, "\r\x1b[K")
		s.beating = false
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// say prints lines of the act on the terminal, wrapped, and in the log. Lines above the limit only go to the log.
func (s *stage) say(format string, values ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, values...)) {
		line = strings.TrimRight(line, "\n")
		s.note(line)
		for _, part := range wrapped(line) {
			s.mu.Lock()
			s.printed++
			s.detail = "" // it was an earlier program's
			full := s.printed > demoLines
			s.mu.Unlock()
			if !full {
				s.show(part)
			}
		}
	}
}

// wrapped breaks a line that is too long at its spaces. A word may be longer.
func wrapped(line string) []string {
	text := strings.TrimLeft(line, " ")
	drawn := report.Draw(demoColumns, func(t *report.Text) { t.Row(line[:len(line)-len(text)], text) })
	return strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
}

// print prints a line in the log, and on the terminal as far as it has room.
func (s *stage) print(line string) {
	s.note(line)
	s.show(report.Cut(line, demoColumns))
}

func (s *stage) show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoken = time.Now()
	s.clear()
	fmt.Fprintln(s.terminal, line)
}

// note adds a line to the log.
func (s *stage) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = time.Now()
	fmt.Fprintf(s.log, "%s %s\n", s.noted.UTC().Format("15:04:05"), line)
}

// Write adds a program's output to the log, each line with its time, and keeps the last line for the heartbeat.
func (s *stage) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partial = append(s.partial, text...)
	for {
		at := bytes.IndexByte(s.partial, '\n')
		if at < 0 {
			return len(text), nil
		}
		line := strings.TrimSpace(string(s.partial[:at]))
		s.partial = s.partial[at+1:]
		if line != "" {
			s.detail = line
		}
		if _, err := fmt.Fprintf(s.log, "%s %s\n", time.Now().UTC().Format("15:04:05"), line); err != nil {
			return 0, err
		}
	}
}
