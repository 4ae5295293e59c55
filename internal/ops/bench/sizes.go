package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/measure"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Sizes is one call of 'mpps search --sizes': a search at each frame size, in bytes with the FCS.
type Sizes struct {
	Search
	Frames   []int
	LineRate float64                      // of the link, bit/s; 0: not known
	Highest  func(frameBytes int) float64 // highest load in packets per second; 0: what the generator can do
}

// Run searches at one size after the other. A search that fails ends the run, and what was found by then is kept. The
// result is nil if there is nothing to show.
func (s *Sizes) Run(ctx context.Context, env *ops.Env) (found *measure.Sizes, saved []string, err error) {
	found = &measure.Sizes{Schema: measure.SchemaSizes, Name: s.Name, LineRate: s.LineRate, Started: time.Now().UTC()}
	all := !slices.ContainsFunc(measure.EthernetSizes(), func(n int) bool { return !slices.Contains(s.Frames, n) })
	for i, frame := range s.Frames {
		one := s.Search
		one.Options.FrameBytes, one.Options.AllSizes, one.Load.FrameBytes = frame, all, frame
		if highest := s.Highest(frame); highest > 0 {
			one.Options.MaxPPS, one.Options.MinPPS = highest, min(s.Options.MinPPS, highest/2)
		}
		var r *measure.Search
		r, err = one.find(ctx, env, fmt.Sprintf("%d bytes, %d of %d: ", frame, i+1, len(s.Frames)))
		if r != nil {
			found.Searches = append(found.Searches, r)
		}
		if err != nil {
			break
		}
	}
	if len(found.Searches) == 0 {
		return nil, nil, err
	}
	found.Partial = err != nil
	saved, failure := Save(env, s.Keep, found, found.Started, "sizes", found.Warn)
	switch {
	case failure != nil:
		return nil, nil, errors.Join(err, failure)
	case Interrupted(ctx, err):
		err = outcome.Failed(fmt.Errorf("interrupted in the search at %d bytes",
			s.Frames[min(len(found.Searches), len(s.Frames))-1]), "")
	case err == nil && !found.Valid():
		err = outcome.Exit(outcome.CodeNotDevice)
	}
	return found, saved, err
}
