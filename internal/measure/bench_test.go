package measure

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/must"
)

// device is a simulated path: a generator that makes at most `makes` packets a second, a device that forwards at most
// `carries` and holds up to `buffer` more, a receiver that sees at most `counts`. Time does not pass.
type device struct {
	makes, carries, counts float64
	lets                   float64 // what the path, on the sender's CPU, lets it send; 0: all
	buffer                 uint64
	duplicates             uint64
	late                   []uint64 // frames that turn up only at the n-th look
	foreign                uint64
	counterError           error
	sendError              error
	afterSend              func()

	arrived Arrived
	looks   int
	ticks   uint64
	dropped uint64
}

func (d *device) Prepare(context.Context, Load) error {
	d.arrived, d.looks = Arrived{Exact: true}, 0
	return nil
}

func (d *device) Send(_ context.Context, load Load) (Sent, error) {
	if d.sendError != nil {
		return Sent{}, d.sendError
	}
	pps := d.makes
	if load.Rate > 0 {
		pps = math.Min(pps, load.Rate)
	}
	if d.lets > 0 {
		pps = math.Min(pps, d.lets)
	}
	seconds := load.Duration.Seconds()
	sent := uint64(pps * seconds)
	through := min(sent, uint64(d.carries*seconds)+d.buffer)
	seen := min(through, uint64(d.counts*seconds))
	d.arrived.Overrun = through - seen
	d.dropped += sent - through
	for _, n := range d.late {
		seen -= n
	}
	d.arrived.Frames = seen + d.duplicates + d.foreign
	d.arrived.Duplicated = d.duplicates
	d.ticks += uint64(seconds * userHZ / 2) // half a CPU
	if d.afterSend != nil {
		d.afterSend()
	}
	return Sent{Frames: sent, Elapsed: load.Duration}, nil
}

func (d *device) Progress() uint64 { return 0 }

func (d *device) Starved() bool { return false }

func (d *device) Arrived(context.Context) (Arrived, error) {
	if d.looks > 0 && d.looks <= len(d.late) {
		d.arrived.Frames += d.late[d.looks-1]
	}
	d.looks++
	return d.arrived, nil
}

func (d *device) Latency(context.Context) (*Latency, error) {
	return NewLatency("one-way", []Bucket{{1000, 1999, 100}}), nil
}

func (d *device) CPU(context.Context) ([]MachineTimes, error) {
	return []MachineTimes{{Where: "host",
		Times: CPUTimes{Taken: time.Now(), CPU: map[int]Ticks{0: {SoftIRQ: d.ticks}}}}}, nil
}

func (d *device) Counters(context.Context) (Counters, error) {
	return Counters{{Where: "host", Interface: "tap0", Name: "tx_dropped"}: d.dropped}, d.counterError
}

func (d *device) GeneratorAlone(context.Context, Load) Alone {
	return Alone{PPS: d.makes, How: "simulated"}
}
func (d *device) ReceiverAlone(context.Context, Load) Alone {
	return Alone{PPS: d.counts, How: "simulated"}
}

func newRun(rate float64) *Run {
	return &Run{Kind: PPS, Host: "h", Load: Load{Rate: rate, FrameBytes: 64, Flows: 1, Duration: 2 * time.Second,
		Repeat: 6}}
}

// inNoTime runs a test with simulated clocks: pauses take none.
func inNoTime(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func quick(p Path) *Bench {
	return &Bench{Path: p, Still: 20 * time.Millisecond, Poll: time.Millisecond, Settle: time.Second}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name     string
		d        device
		rate     float64
		want     Limit
		pps      float64
		evidence string
	}{
		{"overloaded", device{makes: 5e6, carries: 1e6, counts: 20e6}, 0, ByDevice, 1e6,
			"more was sent than the path carries"},
		{"nothing lost, generator at its end", device{makes: 1e6, carries: 3e6, counts: 20e6}, 0, ByGenerator, 1e6,
			"alone"},
		{"ring of the receiver full", device{makes: 5e6, carries: 3e6, counts: 2.9e5}, 0, ByReceiver, 2.9e5,
			"ring full"},
		{"set rate carried", device{makes: 5e6, carries: 1e6, counts: 20e6}, 5e5, ByNothing, 5e5, "above this rate"},
		{"set rate not carried", device{makes: 5e6, carries: 1e6, counts: 20e6}, 2e6, ByDevice, 1e6, "50 %"},
		{"set rate not sent", device{makes: 5e6, carries: 1e7, counts: 20e6}, 6e6, ByGenerator, 5e6, "asked for"},
		{"set rate held back by the path", device{makes: 5e6, carries: 1e7, counts: 20e6, lets: 1e6}, 2e6, ByDevice,
			1e6, "held it back"},
		{"any rate held back by the path", device{makes: 5e6, carries: 1e7, counts: 20e6, lets: 1e6}, 0, ByDevice, 1e6,
			"let it send"},
		{"receiver alone is no faster", device{makes: 5e6, carries: 2e6, counts: 2.2e6}, 0, ByReceiver, 2e6,
			"receiver alone"},
		{"nothing sent", device{}, 0, ByGenerator, 0, "sent nothing"},
	} {
		t.Run(c.name, inNoTime(func(t *testing.T) {
			run := newRun(c.rate)
			must.Do(t, quick(&c.d).Run(t.Context(), run))
			must.Hold(t, run.LimitedBy == c.want && strings.Contains(strings.Join(run.Evidence, "\n"), c.evidence),
				"limited by %s: %q; expected %s with %q", run.LimitedBy, run.Evidence, c.want, c.evidence)
			if math.Abs(run.PPS-c.pps) > c.pps/1000 {
				t.Errorf("%v pps, expected %v", run.PPS, c.pps)
			}
			must.Hold(t, run.Sent == run.Received-run.Duplicated+run.Lost && len(run.Samples) == 6 && !run.Partial,
				"sent %d, received %d, lost %d in %d samples", run.Sent, run.Received, run.Lost, len(run.Samples))
			must.Equal(t, run.Valid(), c.want != ByGenerator && c.want != ByReceiver, "valid")
			again := *run
			again.Judge()
			must.Hold(t, len(again.Warnings) == len(run.Warnings) && again.Sent == run.Sent &&
				again.LimitedBy == run.LimitedBy, "judged again, the run says something else")
		}))
	}
}

func TestNoVerdictOnTheDeviceUnderOtherLoad(t *testing.T) {
	losing := Sample{Sent: 100, Received: 40, Lost: 60, Seconds: 1, PPS: 40}
	late := Sample{Sent: 100, Received: 100, Seconds: 1, PPS: 100}
	for _, c := range []struct {
		sample Sample
		rate   float64
		busy   float64
		cpus   int
		want   Limit
	}{
		{losing, 0, 0.9, 2, ByDevice}, {losing, 0, 1.1, 2, ByUnknown}, {losing, 0, 1.1, 4, ByDevice},
		{losing, 0, 1.1, 0, ByDevice},
		{late, 200, 1.1, 2, ByUnknown}, {late, 200, 1.1, 8, ByUnknown}, {late, 200, 1.1, 16, ByDevice},
		{late, 200, 0, 2, ByDevice},
		{late, 2e6, 1.1, 2, ByGenerator}, {late, 2e6, 0, 2, ByDevice}, // alone it makes half of that
	} {
		run := newRun(c.rate)
		run.Samples = []Sample{c.sample}
		run.Baseline.Generator = &Alone{PPS: 1e6}
		run.Baseline.BusyCPUs, run.Environment.CPUs = c.busy, c.cpus
		run.Judge()
		if run.LimitedBy != c.want || (c.want == ByUnknown || c.want == ByGenerator) != strings.Contains(
			strings.Join(run.Evidence, "; "), "others kept 1.1 CPUs busy") {
			t.Errorf("%v of %d CPUs: limited by %s: %q", c.busy, c.cpus, run.LimitedBy, run.Evidence)
		}
	}
}

func TestRunAccountsCostAndLoss(t *testing.T) { inNoTime(runAccountsCostAndLoss)(t) }

func runAccountsCostAndLoss(t *testing.T) {
	run := newRun(0)
	must.Do(t, quick(&device{makes: 4e6, carries: 1e6, counts: 2e7, duplicates: 5}).Run(t.Context(), run))
	if math.Abs(run.CPUNsPerPacket-500) > 1 { // half a CPU for a million packets a second
		t.Errorf("%v ns a packet, expected 500", run.CPUNsPerPacket)
	}
	must.Hold(t, run.Lost == 6*6_000_000 && run.Duplicated == 6*5 && len(run.Losses) == 1 &&
		run.Losses[0].Packets == run.Lost && run.UnexplainedLoss == 0,
		"lost %d, located %+v, %d unexplained", run.Lost, run.Losses, run.UnexplainedLoss)
	must.Hold(t, run.OfferedPPS == 4e6 && run.Latency != nil && run.Latency.Count == 600,
		"offered %v, latency %+v", run.OfferedPPS, run.Latency)
}

func TestLateFramesAreWaitedFor(t *testing.T) { inNoTime(lateFramesAreWaitedFor)(t) }

func lateFramesAreWaitedFor(t *testing.T) {
	d := &device{makes: 1000, carries: 1e6, counts: 1e6, late: []uint64{0, 0, 40, 0, 60}}
	b := quick(d)
	s, err := b.Trial(t.Context(), Load{Duration: time.Second})
	must.Do(t, err)
	if s.Sent != 1000 || s.Received != 1000 || s.Lost != 0 || s.Drain <= 0 || s.PPS >= 1000 {
		t.Errorf("%+v", s)
	}
	b.Still = time.Nanosecond
	if s, err = b.Trial(t.Context(), Load{Duration: time.Second}); err != nil || s.Lost == 0 {
		t.Errorf("without patience nothing was missed: %+v, %v", s, err)
	}
}

func TestMoreReceivedThanSentIsToldNotHidden(t *testing.T) {
	inNoTime(moreReceivedThanSentIsToldNotHidden)(t)
}

func moreReceivedThanSentIsToldNotHidden(t *testing.T) {
	run := newRun(0)
	must.Do(t, quick(&device{makes: 1000, carries: 1e6, counts: 1e6, foreign: 7}).Run(t.Context(), run))
	must.Hold(t, len(run.Warnings) != 0 && run.Warnings[0].Code == "more-received-than-sent",
		"warnings %+v", run.Warnings)
}

func TestInterruptedRunIsPartial(t *testing.T) { inNoTime(interruptedRunIsPartial)(t) }

func interruptedRunIsPartial(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &device{makes: 4e6, carries: 1e6, counts: 2e7}
	n := 0
	d.afterSend = func() {
		if n++; n == 3 {
			cancel()
		}
	}
	run := newRun(0)
	must.Do(t, quick(d).Run(ctx, run))
	must.Hold(t, run.Partial && len(run.Samples) == 2 && run.Warnings[0].Code == "partial" && run.LimitedBy == ByDevice,
		"partial %v, %d samples, warnings %+v", run.Partial, len(run.Samples), run.Warnings)
}

func TestFailureIsReturnedWithWhatThereIs(t *testing.T) {
	inNoTime(failureIsReturnedWithWhatThereIs)(t)
}

func failureIsReturnedWithWhatThereIs(t *testing.T) {
	broken := errors.New("interface is gone")
	d := &device{makes: 4e6, carries: 1e6, counts: 2e7, counterError: errors.New("no permission")}
	n := 0
	d.afterSend = func() {
		if n++; n == 4 {
			d.sendError = broken
		}
	}
	run := newRun(0)
	err := quick(d).Run(t.Context(), run)
	must.Hold(t, errors.Is(err, broken) && strings.Contains(err.Error(), "trial 5 of 6") && len(run.Samples) == 4 &&
		run.Partial, "error %v, %d samples, partial %v", err, len(run.Samples), run.Partial)
}

func TestDrainedBuffersAreNotSpeed(t *testing.T) {
	for _, c := range []struct {
		name           string
		a              Arrived
		sending, drain time.Duration
		want           float64
	}{
		{"nothing buffered", Arrived{Frames: 1000}, time.Second, 0, 1000},
		{"a drain that was seen", Arrived{Frames: 1500}, time.Second, 500 * time.Millisecond, 1000},
		{"one that only the receiver saw", Arrived{Frames: 1500, Span: 1490 * time.Millisecond, SpanFrames: 1490},
			time.Second, 0, 1000},
		{"a batch delivered at once", Arrived{Frames: 1000, Span: time.Millisecond, SpanFrames: 990}, time.Second, 0,
			1000},
		{"duplicates", Arrived{Frames: 2000, Duplicated: 500, Span: 2 * time.Second, SpanFrames: 2000}, time.Second, 0,
			750},
		{"nothing sent", Arrived{}, 0, 0, 0},
	} {
		if got := receivedRate(c.a, c.sending, c.drain); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestWhatTheSendersRingRefusedIsLocated(t *testing.T) {
	run := newRun(0)
	run.From = Endpoint{Where: "host", Interface: "veth0"}
	run.Samples = []Sample{{Sent: 100, Received: 40, Lost: 60, SendErrors: 50, Seconds: 1, PPS: 40}}
	run.Counters = []Delta{{Counter: Counter{Where: "host", Interface: "tap0", Name: "tx_dropped"}, Delta: 7}}
	for range 2 { // judging twice says the same
		run.Judge()
		must.Need(t, len(run.Losses) == 2 && run.Losses[0].Name == "xdp.ring_full" && run.Losses[0].Packets == 50 &&
			run.UnexplainedLoss == 3, "losses %+v, %d unexplained", run.Losses, run.UnexplainedLoss)
	}
}

func TestWhatTheSinkTookOutIsNotLost(t *testing.T) {
	end := Counter{Where: "agent", Interface: "eth0", Name: "rx_dropped"}
	for _, c := range []struct{ delta, want uint64 }{{1000, 0}, {1030, 30}, {20, 20}} {
		run := newRun(0)
		run.To = Endpoint{Where: "agent", Interface: "eth0"}
		run.Samples = []Sample{{Sent: 1100, Received: 1000, Lost: 100, Seconds: 1, PPS: 1000}}
		run.Counters = []Delta{{Counter: end, Delta: c.delta}}
		run.Judge()
		must.Hold(t, run.UnexplainedLoss == 100-c.want && len(run.Losses) == min(1, int(c.want)) &&
			run.Counters[0].Delta == c.delta,
			"%d dropped: losses %+v, %d unexplained", c.delta, run.Losses, run.UnexplainedLoss)
	}
}

// What one direction lost is lost although the other received too much, and the rates of both add up.
func TestTwoWay(t *testing.T) {
	load := Load{Rate: 100, TwoWay: true, Flows: 1}
	second := func(frames uint64) Sent { return Sent{Frames: frames, Elapsed: time.Second} }
	sent := Sent{Frames: 200, Elapsed: time.Second, Ways: []Sent{second(100), second(100)}}
	arrived := Arrived{Frames: 195, Exact: true, Ways: []Arrived{{Frames: 90, Exact: true}, {Frames: 105, Exact: true}}}
	s := sampleOf(load, sent, arrived, 0)
	must.Hold(t, s.OfferedPPS == 200 && s.Lost == 10 && s.PPS == 195 && len(s.Ways) == 2 && s.Ways[0].Lost == 10 &&
		s.Ways[1].PPS == 105, "%+v", s)
	s.Ways[0].SendErrors, s.Ways[1].SendErrors = 3, 4
	run := &Run{Kind: PPS, Load: load, Samples: []Sample{s, s}, From: Endpoint{Interface: "a"},
		To: Endpoint{Interface: "b"}}
	for range 2 {
		run.Judge()
		must.Hold(t, run.OfferedPPS == 200 && len(run.Ways) == 2 && run.Ways[0].Sent == 200 && run.Ways[0].PPS == 90 &&
			run.Ways[1].Lost == 0, "offered %g, ways %+v", run.OfferedPPS, run.Ways)
		must.Hold(t, len(run.Losses) == 2 && run.Losses[0].Interface == "b" && run.Losses[0].Packets == 8 &&
			run.Losses[1].Interface == "a" && run.Losses[1].Packets == 6, "losses %+v", run.Losses)
	}
}

// Only what a sink took out at its own end is left out of the drops there.
func TestTwoWaySinks(t *testing.T) {
	run := &Run{Kind: PPS, Load: Load{TwoWay: true}, From: Endpoint{Interface: "a"}, To: Endpoint{Interface: "b"},
		Ways: []Way{{Received: 100}, {Received: 50}},
		Counters: []Delta{{Counter: Counter{Interface: "a", Name: "rx_dropped"}, Delta: 57},
			{Counter: Counter{Interface: "b", Name: "rx_dropped"}, Delta: 100}}}
	if left := run.withoutSink(); len(left) != 1 || left[0].Interface != "a" || left[0].Delta != 7 {
		t.Errorf("%+v", left)
	}
}
