package agent

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/talk"
)

// ErrImplausible means that an agent answered what no agent measures: its other answers are worth nothing either.
var ErrImplausible = errors.New("the agent answered what cannot be")

// Bounds of what an agent answers. Whatever is below them can be added up, compared, stored and shown.
const (
	maxName     = 256         // bytes of the name of a host, an interface, a counter
	maxNote     = 2 * maxText // bytes of a warning
	maxNotes    = 32          // warnings of an answer
	maxLinks    = 4096        // interfaces, addresses of each, counters
	maxCPUs     = 4096        // the most that KVM can be built for (CONFIG_KVM_MAX_NR_VCPUS, arch/x86/kvm/Kconfig)
	maxStat     = maxCPUs * 256
	maxStreams  = 1024 // of a sink; traffic.SinkConfig
	maxCount    = 1 << 56
	maxDuration = 48 * time.Hour // a generator that has no end is waited for for a day
	maxPPS      = 1e12
)

// plausible returns an error unless an answer is within the bounds.
func plausible(answer any) error {
	switch a := answer.(type) {
	case *Info:
		return a.plausible()
	case *string:
		lines := strings.Count(*a, "\n")
		return within(len(*a) <= maxStat && lines <= maxCPUs+1, "a text of %d bytes in %d lines", len(*a), lines)
	case *Counters:
		for name := range *a {
			if len(name) > maxName {
				return within(false, "a counter's name of %d bytes", len(name))
			}
		}
		return within(len(*a) <= maxLinks, "%d counters", len(*a))
	case *[]traffic.Bin:
		for _, bin := range *a {
			if err := counts(bin.Count); err != nil {
				return err
			}
		}
		return within(len(*a) <= maxLinks, "%d steps of a histogram", len(*a))
	case *Started:
		return errors.Join(names(string(a.Method), a.Addr), counts(uint64(max(0, a.Streams))))
	case *GenStatus:
		if a.Result != nil {
			return errors.Join(counts(a.Sent), generated(a.Result))
		}
		return counts(a.Sent)
	case *traffic.Counts:
		return received(a)
	case *traffic.Alone:
		return errors.Join(names(string(a.Method)), notes(a.Warnings), counts(a.Sent, a.Counted), times(a.Elapsed),
			within(a.PPS >= 0 && a.PPS <= maxPPS, "%g packets per second", a.PPS))
	case *talk.ServerCounts:
		return counts(a.Received, a.Transactions)
	}
	return nil
}

func (i *Info) plausible() error {
	err := errors.Join(names(i.MPPS, i.Host, i.Kernel, i.Live), notes(append(i.Warnings, i.LiveWhy)),
		within(i.CPUs >= 0 && i.CPUs <= maxCPUs, "%d CPUs", i.CPUs),
		within(len(i.Allowed) <= maxCPUs, "%d CPUs that it may use", len(i.Allowed)),
		within(len(i.Links) <= maxLinks, "%d interfaces", len(i.Links)))
	for _, cpu := range i.Allowed {
		err = errors.Join(err, within(cpu >= 0 && cpu < maxCPUs, "CPU %d", cpu))
	}
	for _, l := range i.Links[:min(len(i.Links), maxLinks)] {
		err = errors.Join(err, names(l.Name, l.Kind, l.MAC), names(l.Addrs[:min(len(l.Addrs), maxLinks)]...),
			within(len(l.Addrs) <= maxLinks, "%d addresses of an interface", len(l.Addrs)),
			within(l.TxQueues >= 0 && l.TxQueues <= math.MaxUint16, "%d queues", l.TxQueues))
	}
	return first(err)
}

func received(c *traffic.Counts) error {
	err := errors.Join(names(string(c.Method)), notes(c.Warnings),
		counts(c.Received, c.Bytes, c.Duplicated, c.Reordered, c.TooLate, c.Stamped, c.Other, c.Foreign, c.Overrun,
			c.Spanned),
		within(len(c.Streams) <= maxStreams, "%d streams", len(c.Streams)))
	return first(err)
}

func generated(r *traffic.Result) error {
	return first(errors.Join(names(string(r.Method)), notes(r.Warnings), counts(r.Sent, r.Refused, r.Bytes),
		times(r.Elapsed, r.Slipped, r.BatchDelay), within(len(r.Workers) <= maxStreams, "%d workers", len(r.Workers))))
}

// first returns the first of joined errors: one is enough, and there may be thousands.
func first(err error) error {
	var all interface{ Unwrap() []error }
	for errors.As(err, &all) {
		err = all.Unwrap()[0]
	}
	return err
}

func within(is bool, what string, args ...any) error {
	if is {
		return nil
	}
	return fmt.Errorf("%w: "+what, append([]any{ErrImplausible}, args...)...)
}

func names(all ...string) error {
	for _, name := range all {
		if len(name) > maxName {
			return within(false, "a name of %d bytes", len(name))
		}
	}
	return nil
}

func notes(all []string) error {
	for _, text := range all {
		if len(text) > maxNote {
			return within(false, "a warning of %d bytes", len(text))
		}
	}
	return within(len(all) <= maxNotes, "%d warnings", len(all))
}

func counts(all ...uint64) error {
	for _, n := range all {
		if n > maxCount {
			return within(false, "a count of %d", n)
		}
	}
	return nil
}

func times(all ...time.Duration) error {
	for _, d := range all {
		if d < 0 || d > maxDuration {
			return within(false, "a time of %v", d)
		}
	}
	return nil
}
