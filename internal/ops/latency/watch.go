package latency

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"mpps/internal/machine"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// watchEvery is how often the host's counters are read, as long as reading takes at most a tenth of it.
const watchEvery = 100 * time.Millisecond

// watching reads the host's counters beside a measurement.
type watching struct {
	counters *machine.Disturbances
	recorder *wakeup.Recorder
	cost     time.Duration
	end      chan struct{}
	done     chan struct{}
}

// watch begins to read counters.
func (t *target) watch() *watching {
	w := &watching{counters: t.machine.WatchDisturbances(t.physical, t.pid, t.vcpus), recorder: wakeup.NewRecorder(),
		end: make(chan struct{}), done: make(chan struct{})}
	w.recorder.Add(time.Now(), w.counters.Tally())
	go w.run()
	return w
}

func (w *watching) run() {
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

// read takes a reading and returns how long it took. It counts for the moment in the middle.
func (w *watching) read() time.Duration {
	began := time.Now()
	tally := w.counters.Tally()
	took := time.Since(began)
	w.recorder.Add(began.Add(took/2), tally)
	w.cost += took
	return took
}

func (w *watching) stop() *wakeup.Series {
	close(w.end)
	<-w.done
	s := w.recorder.Series(w.counters.Unseen(), w.cost)
	_ = w.counters.Close() // of a file that was only read
	return s
}

// loads are what runs beside a run.
type loads struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	lock   sync.Mutex
	list   []wakeup.Load
}

// loadMargin is by how much a load outlives its run where nobody is left to end it.
const loadMargin = 30 * time.Second

// startLoads starts what was asked for beside a run. What cannot run says why, and the measurement goes on.
func (t *target) startLoads(ctx context.Context, o *Options) *loads {
	l := &loads{list: []wakeup.Load{}}
	ctx, l.cancel = context.WithCancel(ctx)
	planned := o.For + o.For/4 + loadMargin
	here, err := t.machine.Here()
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
	l.start(ctx, here, planned, "host", cpus, program(onHost.self(), cpus))
	if t.guest != nil {
		l.start(ctx, t.place, planned, "guest "+t.guest.Name, t.idle, program(t.self(), t.idle))
	}
	return l
}

// loadCPUs are the host's CPUs that a load may keep busy: those that are neither measured, nor isolated, nor given to a
// vCPU of a guest,
// which would share them with it. A vCPU that may run on every CPU is given none.
func loadCPUs(h *facts.Host, measured setting.CPUSet) setting.CPUSet {
	free := h.Topology.Online.Minus(measured).Minus(h.Topology.Isolated)
	for i := range h.Guests {
		g := &h.Guests[i]
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

func (l *loads) start(ctx context.Context, place *machine.Place, planned time.Duration, where string,
	cpus setting.CPUSet,
	argv []string) {
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

// loadName is a load's program in words.
func loadName(argv []string) string {
	if len(argv) > 2 && argv[1] == "latency" {
		return "mpps: busy threads that copy memory"
	}
	return strings.Join(argv, " ")
}

// stop ends all, and adds to the list what is not yet there.
func (l *loads) stop(before []wakeup.Load) []wakeup.Load {
	l.cancel()
	l.all.Wait()
	for _, load := range l.list {
		known := false
		for _, have := range before {
			known = known || have.Where == load.Where && have.What == load.What && have.Error == load.Error
		}
		if !known {
			before = append(before, load)
		}
	}
	return before
}
