package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mpps/internal/lab"
	"mpps/internal/measure"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
)

// Names below the lab's /share.
const (
	modesSamples = "modes.campaign.jsonl" // samples as they are taken
	modesAnswer  = "modes.json"           // the result
)

// maxMends is how often guests are restarted before the result stays partial.
const maxMends = 2

// measureOn measures, repairs the lab after failures and continues, until all is measured or repairing does not help.
func (s *modesScene) measureOn(ctx context.Context, w *modesWatch, argv []string) error {
	for round := 0; ; round++ {
		failure := s.measure(ctx, w, argv)
		if code, _ := outcome.Of(failure); failure == nil || ctx.Err() != nil || round == maxMends ||
			code == outcome.CodeUsage {
			return failure
		}
		c, err := w.read()
		if err != nil {
			return errors.Join(failure, err)
		}
		s.step("%v", failure)
		if err := s.mend(ctx, c, failure); err != nil {
			return errors.Join(failure, err)
		}
		if c != nil {
			argv = resumeInLab()
		}
	}
}

// modeArg returns the value of --mode for a mode of the lab.
func modeArg(m measure.Mode) string {
	text := m.Name + "=" + m.Agent + ",from=" + m.From
	for _, option := range [][2]string{{"gateway", m.Gateway}, {"frozen", m.Frozen}, {"plan", m.Plan}} {
		if option[1] != "" {
			text += "," + option[0] + "=" + option[1]
		}
	}
	return text
}

func modesCommand() []string {
	return []string{"mpps", "bench", "modes", "--json", "--keep=false", "--secret-file", "/share/secret", "-o",
		"/share/" + modesAnswer}
}

func resumeInLab() []string { return append(modesCommand(), "--resume", "/share/"+modesSamples) }

// errStalled: the lab's host shows no sign of life.
var errStalled = errors.New("the lab host takes no more samples: it hangs")

// stall is the time for a sample in addition to its traffic, on a busy machine.
const stall = 3 * time.Minute

// measure runs the command on the lab's host. When ctx ends the command is interrupted and has time to write its
// results.
func (s *modesScene) measure(ctx context.Context, w *modesWatch, argv []string) error {
	// Remove the result of an earlier round.
	if err := os.Remove(filepath.Join(w.share, modesAnswer)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(watching, func() { cancel(errStalled) })
	}()
	r, err := s.lab.Exec(limited, lab.Cmd{Argv: argv, Grace: 30 * time.Second})
	stopWatch()
	<-watched
	if cause := context.Cause(limited); errors.Is(cause, errStalled) {
		return cause
	}
	if err == nil && r.Code != outcome.CodeOK {
		err = fmt.Errorf("on the emulated host: %s", lastLines(r.Stderr))
		if r.Code == outcome.CodeUsage {
			err = outcome.Usage(err, "")
		}
	}
	return err
}

// lastLines returns the end of a program's output on one line, without its error prefix.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(len(lines)-2, 0):]
	return strings.TrimPrefix(strings.Join(lines, "; "), "mpps: error: ")
}

// modesWatch follows a campaign on the lab's host through its file of samples, shows progress and copies the file to
// where it outlives the lab.
type modesWatch struct {
	env   *ops.Env
	share string
	log   *bench.CampaignLog
	stall time.Duration
	seen  int64
}

// watch calls stalled if nothing happens for too long.
func (w *modesWatch) watch(ctx context.Context, stalled func()) {
	moved := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := os.Stat(filepath.Join(w.share, modesSamples))
		if err != nil || info.Size() == w.seen {
			if time.Since(moved) > w.stall {
				stalled()
				return
			}
			continue
		}
		w.seen, moved = info.Size(), time.Now()
		c, err := w.read()
		if err != nil || c == nil {
			continue // a sample is being written: read at the next tick
		}
		if _, more := c.Next(); more {
			bench.ShowProgress(w.env, c.Progress())
		}
		_ = w.copy() // once more in the end, where an error counts
	}
}

// read returns the campaign so far, nil if there is none yet.
func (w *modesWatch) read() (*measure.ModesCampaign, error) {
	text, err := os.ReadFile(filepath.Join(w.share, modesSamples))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, _, err := measure.DecodeCampaign(bytes.NewReader(text))
	return c, err
}

// result returns the command's result, or what follows from its samples; nil if there is nothing.
func (w *modesWatch) result() (*measure.Modes, error) {
	m, err := saved.ReadModes(filepath.Join(w.share, modesAnswer))
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	c, err := w.read()
	if err != nil || c == nil {
		return nil, err
	}
	return c.Result(), nil
}

// copy saves the samples.
func (w *modesWatch) copy() error {
	if w.log.Name == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(w.share, modesSamples))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(w.log.Name), 0o755)
	}
	if err == nil {
		err = ops.ReplaceFile(w.log.Name, text)
	}
	if err != nil {
		return outcome.Failed(fmt.Errorf("campaign %s: %w", w.log.Name, err),
			"--checkpoint names another file; with --keep=false there is none")
	}
	return nil
}
