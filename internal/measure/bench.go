package measure

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Sent is what the generator did in one trial.
type Sent struct {
	Frames  uint64
	Elapsed time.Duration // first to last frame
	Slipped time.Duration // how far the sender fell behind its schedule
	Floor   time.Duration // longest wait of a frame for its batch: one-way delays are at least this
	Errors  uint64        // frames that the interface refused
	Ways    []Sent        // each direction or agent, if there are several
}

// Arrived is what the receiver has counted since Prepare.
type Arrived struct {
	Frames     uint64 // duplicates included
	Duplicated uint64
	Reordered  uint64
	Overrun    uint64 // frames that reached the receiver and found its ring full
	Exact      bool   // the whole sequence was checked: one CPU, no frame outside the window

	// SpanFrames frames arrived within Span by the receiver's own clock: nearly all frames, first to last. Span is 0 if
	// the receiver does not measure it.
	Span       time.Duration
	SpanFrames uint64

	Ways []Arrived // each direction or agent, if there are several
}

// Unique returns the number of distinct frames that arrived.
func (a Arrived) Unique() uint64 { return a.Frames - min(a.Duplicated, a.Frames) }

// Path leads through a device under test, with a generator at one end and a receiver at the other. Package rig builds
// paths from package traffic.
type Path interface {
	// Prepare readies both ends for a load: it sets up the generator and zeroes the receiver. No frame may be in
	// flight.
	Prepare(ctx context.Context, load Load) error
	// Send sends the load, at its rate and for its duration, and returns once the last frame was handed to the device.
	// A cancelled context stops it early: it then returns what was sent, without an error.
	Send(ctx context.Context, load Load) (Sent, error)
	// Progress returns how many frames Send has handed to the device so far; before it begins, what the last one had.
	// It may be called while Send runs.
	Progress() uint64
	// Arrived reads the receiver.
	Arrived(ctx context.Context) (Arrived, error)
	// Starved reports whether another machine has been silent for so long that sending must end, or its control
	// connection is lost. It is false if both ends are on this machine.
	Starved() bool
	// Latency returns the one-way delays since Prepare; nil if the ends do not share a clock or no delays were taken.
	Latency(ctx context.Context) (*Latency, error)
	// CPU reads the CPU times of every machine on the path. The near machine, which runs the device, comes first.
	CPU(ctx context.Context) ([]MachineTimes, error)
	// Counters reads the counters of the interfaces on the path.
	Counters(ctx context.Context) (Counters, error)
	// GeneratorAlone measures the generator without the device.
	GeneratorAlone(ctx context.Context, load Load) Alone
	// ReceiverAlone measures the receiver without the device.
	ReceiverAlone(ctx context.Context, load Load) Alone
}

// MachineTimes are the CPU times of one machine on the path.
type MachineTimes struct {
	Where   string
	Times   CPUTimes
	Threads ThreadTimes // of the near machine; nil if unknown
}

// Bench takes samples over a path.
type Bench struct {
	Path     Path
	Progress func(Step)    // called before each step; may be nil
	Settle   time.Duration // longest wait for late frames; 0: 2 s, as in RFC 2544 section 23
	Still    time.Duration // … and how long the count must not move to stop earlier; 0: 300 ms
	Poll     time.Duration // between two readings of the count; 0: 10 ms
}

// Step is the next step of a measurement.
type Step struct {
	What string // "generator alone", "receiver alone", "the machine without the load", "warm-up", "trial"
	N, M int    // trial N of M
	Last *Sample
}

// stepTo returns progress, or a function that does nothing for nil.
func stepTo(progress func(Step)) func(Step) {
	if progress == nil {
		return func(Step) {}
	}
	return progress
}

// Trial sends the load once and counts what arrives, late frames included. The counts are exact: every frame counts,
// the first and the last too.
func (b *Bench) Trial(ctx context.Context, load Load) (Sample, error) {
	if err := b.Path.Prepare(ctx, load); err != nil {
		return Sample{}, fmt.Errorf("prepare: %w", err)
	}
	before, err := b.Path.CPU(ctx)
	if err != nil {
		return Sample{}, fmt.Errorf("read CPU times: %w", err)
	}
	sent, err := b.Path.Send(ctx, load)
	if err != nil {
		return Sample{}, fmt.Errorf("send: %w", err)
	}
	stopped := time.Now()
	// Even if the user stops early, what was sent is counted to the end.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	after, err := b.Path.CPU(finish)
	if err != nil {
		return Sample{}, fmt.Errorf("read CPU times: %w", err)
	}
	arrived, drain, err := b.settle(finish, sent.Frames, stopped)
	if err != nil {
		return Sample{}, fmt.Errorf("read the receiver: %w", err)
	}
	latency, err := b.Path.Latency(finish)
	if err != nil {
		return Sample{}, fmt.Errorf("read the latency histogram: %w", err)
	}
	s := sampleOf(load, sent, arrived, drain)
	if s.Latency = latency; latency != nil {
		s.Latency.FloorNs = uint64(sent.Floor)
	}
	s.addCPU(before, after, arrived.Unique())
	s.CPUNsPerPacket = s.CPUNsPerUnit
	return s, nil
}

// settle waits for late frames until all have arrived, the count stands still or the time is up. It returns how long
// after the stop frames still arrived.
func (b *Bench) settle(ctx context.Context, sent uint64, stopped time.Time) (Arrived, time.Duration, error) {
	limit, still := cmp.Or(b.Settle, 2*time.Second), cmp.Or(b.Still, 300*time.Millisecond)
	poll := cmp.Or(b.Poll, 10*time.Millisecond)
	arrived, err := b.Path.Arrived(ctx)
	if err != nil {
		return arrived, 0, err
	}
	// The first reading follows the stop at once: frames counted by then took no measurable time to drain.
	var drain time.Duration
	moved := stopped
	for arrived.Unique() < sent && time.Since(stopped) < limit && time.Since(moved) < still {
		if err := Pause(ctx, poll); err != nil {
			return arrived, drain, err
		}
		next, err := b.Path.Arrived(ctx)
		if err != nil {
			return arrived, drain, err
		}
		if next.Frames != arrived.Frames {
			moved = time.Now()
			drain = moved.Sub(stopped)
		}
		arrived = next
	}
	return arrived, drain, nil
}

// Pause waits for d, or until ctx ends, and then returns its cause.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sampleOf makes a sample from the counts of one trial.
func sampleOf(load Load, sent Sent, arrived Arrived, drain time.Duration) Sample {
	unique := arrived.Unique()
	s := Sample{
		OfferedPPS: load.Offered(), Sent: sent.Frames, Received: arrived.Frames, Lost: minus(sent.Frames, unique),
		Duplicated: arrived.Duplicated, Reordered: arrived.Reordered, Seconds: sent.Elapsed.Seconds(),
		Drain: drain.Seconds(), SlippedNs: uint64(sent.Slipped), SendErrors: sent.Errors, Overrun: arrived.Overrun,
	}
	if load.Rate == 0 && s.Seconds > 0 {
		s.OfferedPPS = float64(s.Sent) / s.Seconds
	}
	s.PPS = receivedRate(arrived, sent.Elapsed, drain)
	if len(sent.Ways) > 1 && len(arrived.Ways) == len(sent.Ways) {
		s.addWays(load, sent, arrived, drain)
	}
	if unique > sent.Frames {
		s.Warnings = append(s.Warnings, Warning{
			Code: "more-received-than-sent",
			Text: fmt.Sprintf("%d different frames arrived and %d were sent: something else sends test frames here, "+
				"or frames of an earlier trial came late", unique, sent.Frames),
			Hint: "end other measurements on this path and repeat",
		})
	}
	if !arrived.Exact {
		s.Warnings = append(s.Warnings, Warning{
			Code: "sequence-not-exact",
			Text: "frames of one stream arrived on several CPUs or very late: duplicates and reordering are a lower " +
				"bound, the counts of sent, received and lost are not affected",
			Hint: "one flow (--flows 1) arrives on one CPU",
		})
	}
	if arrived.Reordered > 0 && load.Flows > 1 {
		s.Warnings = append(s.Warnings, Warning{
			Code: "order-across-flows",
			Text: "the sequence runs over all flows of a sender: frames of different flows that took different " +
				"queues count as out of order, which harms nobody",
			Hint: "measure the order within a flow with --flows 1",
		})
	}
	return s
}

// addWays adds the directions of a two-way trial. An extra frame in one direction does not make up for a loss in the
// other.
func (s *Sample) addWays(load Load, sent Sent, arrived Arrived, drain time.Duration) {
	load.TwoWay = false
	s.Lost, s.PPS = 0, 0
	for i := range sent.Ways {
		one := sampleOf(load, sent.Ways[i], arrived.Ways[i], drain)
		s.Ways = append(s.Ways, Way{
			Sent: one.Sent, Received: one.Received, Lost: one.Lost, Duplicated: one.Duplicated,
			Reordered: one.Reordered, PPS: one.PPS, SlippedNs: one.SlippedNs, SendErrors: one.SendErrors,
			Overrun: one.Overrun,
		})
		s.Lost, s.PPS = s.Lost+one.Lost, s.PPS+one.PPS
	}
}

// receivedRate returns the rate at which distinct frames arrived, per second. The buffers of an overloaded device are
// still full when the sender stops; counting what drains from them would make the device look faster. So the rate is
// taken over the receiver's own Span, or else over sending plus drain. It never exceeds the rate over the sending time:
// a shorter Span comes from a batch that was delivered late.
func receivedRate(a Arrived, sending, drain time.Duration) float64 {
	unique := float64(a.Unique())
	if sending <= 0 {
		return 0
	}
	if a.Span <= 0 || a.SpanFrames == 0 {
		return unique / (sending + drain).Seconds()
	}
	spanned := float64(a.SpanFrames) / a.Span.Seconds() * unique / float64(a.Frames)
	return min(unique/sending.Seconds(), spanned)
}

// addCPU adds how the CPUs of the machines spent the trial, and the near machine's cost for each of n units.
func (s *Sample) addCPU(before, after []MachineTimes, n uint64) {
	s.CPU = []MachineCPU{}
	for i := range after {
		if i < len(before) && before[i].Where == after[i].Where {
			s.CPU = append(s.CPU, Between(after[i].Where, before[i].Times, after[i].Times))
		}
	}
	if len(s.CPU) > 0 && n > 0 {
		s.CPUNsPerUnit = s.CPU[0].Busy() * 1e9 / float64(n)
	}
	if len(s.CPU) > 0 && before[0].Threads != nil {
		s.Threads = threadUse(before[0].Threads, after[0].Threads, n)
	}
}

// Run measures the load: generator and receiver alone, then warm-up, then the trials. The caller fills in what it knows
// of the run (Kind, Host, Environment, Load, From, To); Run adds the rest and judges it. If the context ends, the
// samples so far are judged, the run is marked partial and no error is returned. A failure is returned as an error
// along with what was measured.
func (b *Bench) Run(ctx context.Context, run *Run) error { return b.campaign().run(ctx, run) }

// Once takes one sample of the load for a campaign over modes. Unlike Run it does not measure the idle machine and
// gives no verdict; generator and receiver are measured alone only if alone is set.
func (b *Bench) Once(ctx context.Context, run *Run, alone bool) error {
	c := b.campaign()
	if !alone {
		c.baselines = nil
	}
	return c.once(ctx, run)
}

// baselines measures generator and receiver alone.
func (b *Bench) baselines(ctx context.Context, run *Run) error {
	alone := run.Load
	alone.Duration = max(200*time.Millisecond, min(time.Second, run.Load.Duration/4))
	for _, part := range []struct {
		what    string
		measure func(context.Context, Load) Alone
		result  **Alone
	}{
		{"generator alone", b.Path.GeneratorAlone, &run.Baseline.Generator},
		{"receiver alone", b.Path.ReceiverAlone, &run.Baseline.Receiver},
	} {
		stepTo(b.Progress)(Step{What: part.what})
		// The better of two attempts is closer to what the part can do.
		best := part.measure(ctx, alone)
		if again := part.measure(ctx, alone); best.Error == "" && again.PPS > best.PPS {
			best = again
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		*part.result = &best
	}
	return nil
}

func (b *Bench) campaign() *campaign {
	return &campaign{step: stepTo(b.Progress), cpu: b.Path.CPU, counters: b.Path.Counters, trial: b.Trial,
		baselines: b.baselines}
}
