package latency

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mpps/internal/machine"
	"mpps/internal/machine/place"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// watchEvery is the time between two readings of the host's counters, unless a reading takes more than a tenth of it.
const watchEvery = 100 * time.Millisecond

// counterWatch reads the host's counters during a measurement.
type counterWatch struct {
	counters *machine.Disturbances
	recorder *wakeup.Recorder
	cost     time.Duration
	end      chan struct{}
	done     chan struct{}
}

// watch begins to read counters.
func (t *target) watch() *counterWatch {
	w := &counterWatch{counters: t.machine.WatchDisturbances(t.physical, t.pid, t.vcpus),
		recorder: wakeup.NewRecorder(),
		end:      make(chan struct{}), done: make(chan struct{})}
	w.recorder.Add(time.Now(), w.counters.Tally())
	go w.run()
	return w
}

func (w *counterWatch) run() {
	defer close(w.done)
	every := watchEvery
	for {
		select {
		case <-w.end:
			w.read()
			return
		case <-time.After(every):
		}
		every = max(watchEvery, 10*w.read())
	}
}

// read takes a reading and returns how long it took. The reading is dated at the middle of that time.
func (w *counterWatch) read() time.Duration {
	began := time.Now()
	tally := w.counters.Tally()
	took := time.Since(began)
	w.recorder.Add(began.Add(took/2), tally)
	w.cost += took
	return took
}

func (w *counterWatch) stop() *wakeup.Series {
	close(w.end)
	<-w.done
	s := w.recorder.Series(w.counters.Unseen(), w.cost)
	_ = w.counters.Close() // only read from
	return s
}

// loads are the programs that load CPUs during a run.
type loads struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	lock   sync.Mutex
	list   []wakeup.Load
}

// loadMargin is by how much a load outlives its run if mpps dies and cannot stop it.
const loadMargin = 30 * time.Second

// startLoads starts the loads of a run. A load that cannot run records why, and the measurement continues.
func (t *target) startLoads(ctx context.Context, o *Options) *loads {
	l := &loads{list: []wakeup.Load{}}
	ctx, l.cancel = context.WithCancel(ctx)
	planned := o.For + o.For/4 + loadMargin
	here, err := place.Here(t.machine.Tree)
	if err != nil || o.Load == "none" {
		return l
	}
	program := func(self string, cpus setting.CPUSet) []string {
		if o.Load == "stress-ng" {
			return []string{"stress-ng", "--taskset", cpus.String(), "--cpu", fmt.Sprint(len(cpus)), "--vm", "1",
				"--vm-bytes", "5%", "--sched", "other", "--timeout", fmt.Sprint(int(planned.Seconds()))}
		}
		return []string{self, "latency", "load", "--cpu", cpus.String(), "--for", planned.String()}
	}
	if o.Load != "own" && o.Load != "stress-ng" {
		l.start(ctx, here, planned, "host", nil, strings.Fields(o.Load))
		return l
	}
	onHost := &target{}
	cpus := loadCPUs(t.facts, t.physical)
	l.start(ctx, here, planned, "host", cpus, program(onHost.command(), cpus))
	if t.guest != nil {
		l.start(ctx, t.place, planned, "guest "+t.guest.Name, t.idle, program(t.command(), t.idle))
	}
	return l
}

// loadCPUs returns the host's CPUs that a load may keep busy: those that are neither measured, nor isolated, nor pinned
// to a vCPU. A vCPU that may run on every CPU counts as not pinned.
func loadCPUs(h *facts.Host, measured setting.CPUSet) setting.CPUSet {
	free := h.Topology.Online.Minus(measured).Minus(h.Topology.Isolated)
	for g := range facts.Each(h.Guests) {
		if !g.Active() {
			continue
		}
		given, seen := setting.CPUSet{}, false
		for _, th := range g.Threads {
			if th.Role == "vcpu" {
				seen = true
				if len(h.Topology.Online.Minus(th.Affinity)) > 0 {
					given = given.Or(th.Affinity)
				}
			}
		}
		for _, pin := range g.Pins {
			if !seen && len(pin) > 0 && len(h.Topology.Online.Minus(pin)) > 0 {
				given = given.Or(pin)
			}
		}
		free = free.Minus(given)
	}
	return free
}

func (l *loads) start(ctx context.Context, place *place.Place, planned time.Duration, where string,
	cpus setting.CPUSet, argv []string) {
	load := wakeup.Load{Where: where, What: loadName(argv), CPUs: cpus}
	if cpus != nil && len(cpus) == 0 {
		load.Error = "there is no CPU left for it: all are measured, isolated or a guest's"
		l.list = append(l.list, load)
		return
	}
	l.list = append(l.list, load)
	at := len(l.list) - 1
	l.all.Go(func() {
		e, err := place.Run(ctx, planned, argv...)
		l.lock.Lock()
		defer l.lock.Unlock()
		switch {
		case err != nil:
			l.list[at].Error = err.Error()
		case e.Cut: // as it should be
		case e.Problem() != "":
			l.list[at].Error = e.Problem()
		default:
			l.list[at].Error = fmt.Sprintf("it ended by itself after %.0f s", e.To.Sub(e.From).Seconds())
		}
	})
}

// loadName describes a load's command.
func loadName(argv []string) string {
	if len(argv) > 2 && argv[1] == "latency" {
		return "mpps: busy threads that copy memory"
	}
	return strings.Join(argv, " ")
}

// stop ends all loads and appends those that before does not list yet.
func (l *loads) stop(before []wakeup.Load) []wakeup.Load {
	l.cancel()
	l.all.Wait()
	for _, load := range l.list {
		if !slices.ContainsFunc(before, func(have wakeup.Load) bool {
			return have.Where == load.Where && have.What == load.What && have.Error == load.Error
		}) {
			before = append(before, load)
		}
	}
	return before
}
