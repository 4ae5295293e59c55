package measure

import (
	"context"
	"fmt"
	"time"
)

// Sent is what the generator did in one trial.
type Sent struct {
	Frames  uint64
	Elapsed time.Duration // first to last frame
	Slipped time.Duration // schedule given up
	Floor   time.Duration // how long a frame may have waited for its batch: a floor under one-way delays
	Errors  uint64        // frames that the interface refused
	Ways    []Sent        // two-way: the directions apart
}

// Arrived is what the receiver has counted since Prepare.
type Arrived struct {
	Frames     uint64 // duplicates included
	Duplicated uint64
	Reordered  uint64
	Overrun    uint64 // frames that reached the receiver and found its ring full
	Exact      bool   // the sequence was judged as a whole: one CPU, nothing out of the window

	// SpanFrames frames arrived in Span, by the receiver's own clock: nearly all of them, from the first to the last. A
	// Span of 0 says that the receiver does not tell.
	Span       time.Duration
	SpanFrames uint64

	Ways []Arrived // two-way: the directions apart
}

// Unique is the number of different frames that arrived.
func (a Arrived) Unique() uint64 { return a.Frames - min(a.Duplicated, a.Frames) }

// Path is a way for packets through a device under test, with a generator at one end and a receiver at the other.
// Package rig makes them from package traffic.
type Path interface {
	// Prepare makes both ends ready for a load: the generator is set up and the receiver stands at zero. Nothing may be
	// on its way.
	Prepare(ctx context.Context, load Load) error
	// Send sends the load, at its rate for its duration, and returns when the last frame was handed to the device. An
	// ended context stops it early; what was sent until then is returned and is no error.
	Send(ctx context.Context, load Load) (Sent, error)
	// Arrived reads the receiver.
	Arrived(ctx context.Context) (Arrived, error)
	// Latency is the one-way delays since Prepare, nil where the ends do not share a clock or none were taken.
	Latency(ctx context.Context) (*Latency, error)
	// CPU reads the CPU times of every machine on the way, the near one (that pays for the device) first.
	CPU(ctx context.Context) ([]MachineTimes, error)
	// Counters reads the interfaces on the way.
	Counters(ctx context.Context) (Counters, error)
	// GeneratorAlone measures the generator without the device.
	GeneratorAlone(ctx context.Context, load Load) Alone
	// ReceiverAlone measures the receiver without the device.
	ReceiverAlone(ctx context.Context, load Load) Alone
}

// MachineTimes are the CPU times of a machine on the way.
type MachineTimes struct {
	Where   string
	Times   CPUTimes
	Threads ThreadTimes // of the near machine; nil where they are not known
}

// Bench takes samples over a path.
type Bench struct {
	Path     Path
	Progress func(Step)    // called before each step; may be nil
	Settle   time.Duration // how long late frames are waited for at the most; 0: 2 s, as RFC 2544 section 23 has it
	Still    time.Duration // … and for how long the counter must stand still to stop waiting earlier; 0: 300 ms
	Poll     time.Duration // between looks at the counter; 0: 10 ms
}

// Step is a part of a measurement that is about to begin.
type Step struct {
	What string // "generator alone", "receiver alone", "warm-up", "trial"
	N, M int    // trial N of M
	Last *Sample
}

func (b *Bench) step(s Step) {
	if b.Progress != nil {
		b.Progress(s)
	}
}

// Trial sends the load once and counts what arrives, late frames waited for. The counts are exact: every frame of the
// trial counts, the first as well as the last.
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
	// What was sent is counted to the end, even when the user has had enough.
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
	s.account(before, after, arrived.Unique())
	s.CPUNsPerPacket = s.CPUNsPerUnit
	return s, nil
}

// settle waits for late frames: until all have arrived, the count stands still, or the time is over. It returns how
// long after the stop frames were still seen to arrive.
func (b *Bench) settle(ctx context.Context, sent uint64, stopped time.Time) (Arrived, time.Duration, error) {
	limit, still, poll := or(b.Settle, 2*time.Second), or(b.Still, 300*time.Millisecond),
		or(b.Poll, 10*time.Millisecond)
	arrived, err := b.Path.Arrived(ctx)
	if err != nil {
		return arrived, 0, err
	}
	// Frames that came before the first look, right after the stop, took no draining that could be told.
	var drain time.Duration
	moved := stopped
	for arrived.Unique() < sent && time.Since(stopped) < limit && time.Since(moved) < still {
		if err := pause(ctx, poll); err != nil {
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

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// pause waits, or returns the context's cause if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sampleOf judges the counts of one trial.
func sampleOf(load Load, sent Sent, arrived Arrived, drain time.Duration) Sample {
	unique := arrived.Unique()
	s := Sample{
		OfferedPPS: load.Offered(), Sent: sent.Frames, Received: arrived.Frames, Lost: minus(sent.Frames, unique),
		Duplicated: arrived.Duplicated, Reordered: arrived.Reordered, Seconds: sent.Elapsed.Seconds(),
		Drain:     drain.Seconds(),
		SlippedNs: uint64(sent.Slipped), SendErrors: sent.Errors, Overrun: arrived.Overrun,
	}
	if load.Rate == 0 && s.Seconds > 0 {
		s.OfferedPPS = float64(s.Sent) / s.Seconds
	}
	s.PPS = carried(arrived, sent.Elapsed, drain)
	if len(sent.Ways) > 1 && len(arrived.Ways) == len(sent.Ways) {
		s.both(load, sent, arrived, drain)
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

// both keeps the directions of a two-way trial apart. A frame too many one way does not make up for one lost the other.
func (s *Sample) both(load Load, sent Sent, arrived Arrived, drain time.Duration) {
	load.TwoWay = false
	s.Lost, s.PPS = 0, 0
	for i := range sent.Ways {
		one := sampleOf(load, sent.Ways[i], arrived.Ways[i], drain)
		s.Ways = append(s.Ways, Way{
			Sent: one.Sent, Received: one.Received, Lost: one.Lost, Duplicated: one.Duplicated,
			Reordered: one.Reordered,
			PPS:       one.PPS, SlippedNs: one.SlippedNs, SendErrors: one.SendErrors, Overrun: one.Overrun,
		})
		s.Lost, s.PPS = s.Lost+one.Lost, s.PPS+one.PPS
	}
}

// carried is the rate at which different frames came through. A device that was sent more than it carries still has its
// buffers full when the sender stops, and what drains from them then would make it look faster: the receiver's own
// clock tells over how long frames arrived, or else the drain that was seen. Frames cannot come faster for long than
// they were sent: a shorter span (a batch delivered late) does not count.
func carried(a Arrived, sending, drain time.Duration) float64 {
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

// account adds what the machines' CPUs did during the trial, and the near machine's cost of each of n units.
func (s *Sample) account(before, after []MachineTimes, n uint64) {
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

// Run measures the load: generator and receiver alone, warm-up, then the trials. The caller has filled in what the run
// knows from elsewhere (Kind, Host, Environment, Load, From, To); Run adds the rest and judges. When the context ends,
// the samples taken so far are judged and the run is marked partial, which is no error; a failure is returned along
// with what there is.
func (b *Bench) Run(ctx context.Context, run *Run) error {
	return b.campaign().run(ctx, run, b.baselines)
}

// Once takes one sample of the load for a campaign: Run without a look at the idle machine and without a verdict, and
// with generator and receiver measured alone only where asked for.
func (b *Bench) Once(ctx context.Context, run *Run, alone bool) error {
	baselines := b.baselines
	if !alone {
		baselines = func(context.Context, *Run) error { return nil }
	}
	return b.campaign().once(ctx, run, baselines)
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
		b.step(Step{What: part.what})
		// What something can do is the best that it did.
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
	return &campaign{step: b.step, cpu: b.Path.CPU, counters: b.Path.Counters, trial: b.Trial}
}
