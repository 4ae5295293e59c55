package tuning

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
)

var (
	channels = setting.Of(setting.NICChannels, "eth0", "combined")
	weight   = setting.Of(setting.Sysctl, "net.core.dev_weight")
	backlog  = setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
)

func irq(n int) setting.Address {
	return setting.Of(setting.IRQAffinity, "eth0", "rx-"+strconv.Itoa(n), strconv.Itoa(40+n))
}

// queued is a machine in memory. Its NIC has an interrupt for each channel, which comes with a mask of the driver's and
// goes with the channel.
type queued struct {
	values map[setting.Address]setting.Reading
	refuse setting.Address // writes of it but that of the beginning's value; none: empty
}

func newQueued() *queued {
	q := &queued{values: map[setting.Address]setting.Reading{weight: setting.Value("64"),
		backlog: setting.Value("1000")}}
	q.resize("2")
	return q
}

func (q *queued) resize(to string) {
	n, _ := strconv.Atoi(to)
	q.values[channels] = setting.Value(to)
	for i := range 8 {
		if delete(q.values, irq(i)); i < n {
			q.values[irq(i)] = setting.Value("0-3")
		}
	}
}

func (q *queued) Read(_ context.Context, a setting.Address) setting.Reading {
	if r, there := q.values[a]; there {
		return r
	}
	return setting.Missing("no such value")
}

func (q *queued) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	if a == q.refuse && to.Value != "0-3" {
		return errors.New("no")
	}
	switch {
	case a == channels:
		q.resize(to.Value)
	case to.State == setting.Absent:
		delete(q.values, a)
	default:
		q.values[a] = to
	}
	return nil
}

type noPipe struct{ io.Writer }

func (noPipe) Close() error { return nil }

// standing is a tuning run on such a machine.
func standing(t *testing.T, q *queued) *trialHost {
	t.Helper()
	root := t.TempDir()
	j := must.Get(journal.Open(root))(t)
	t.Cleanup(func() { j.Close() })
	mechanisms := setting.Mechanisms{}
	for kind := range setting.Kinds {
		mechanisms[kind] = q
	}
	return &trialHost{
		env: &ops.Env{Root: root, Version: "test", Out: ops.Deaf{}}, session: journal.NewSession("tune"),
		orphans: &change.OrphanGuard{To: noPipe{io.Discard}}, live: true,
		engine: &change.Engine{Engine: &apply.Engine{Mechanisms: mechanisms, Journal: j, Host: "box", BootID: "boot",
			Version: "test"}},
		host: &ops.Host{Facts: &facts.Host{Name: "box", Readings: facts.Readings{}, Lasting: &facts.Lasting{}},
			Mechanisms: mechanisms},
		plan: &plan.Plan{Schema: plan.Schema, Goal: goal.Unlimited()}, changes: map[string][]foundChange{},
		keptKeys: map[string]bool{},
	}
}

func wants(id string, a setting.Address, from, to string) plan.Change {
	return plan.Change{ID: id, Address: a, From: setting.Value(from), To: setting.Value(to), Want: setting.Exact(to),
		Risk: goal.None, Lasts: setting.Kinds[a.Kind].Lasts}
}

// ward is what a process that watches was told, line by line.
type ward struct{ lines []string }

func (l *ward) Write(p []byte) (int, error) {
	l.lines = append(l.lines, strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func (l *ward) Close() error { return nil }

// TestAllIsWatched: while everything that was kept is tried again, transaction by transaction, all of it is put back
// should mpps die, and nothing once it was taken back.
func TestAllIsWatched(t *testing.T) {
	h := standing(t, newQueued())
	kept := []tune.Candidate{
		keep(t, h, wants("nic.channels", channels, "2", "4")),
		keep(t, h, wants("sysctl.weight", weight, "64", "128")),
	}
	must.Do(t, h.Reset(t.Context()))
	whole := must.Get(h.Whole(t.Context(), kept))(t)
	var l ward
	h.orphans = &change.OrphanGuard{To: &l}
	must.Do(t, h.Try(t.Context(), whole))
	if last := l.lines[len(l.lines)-1]; len(h.tried) != 2 || last != strings.Join(h.tried, " ") {
		t.Errorf("tried %v, watched %q", h.tried, l.lines)
	}
	must.Do(t, h.Back(t.Context()))
	must.Equal(t, l.lines[len(l.lines)-1], "", "watched although it was taken back")
}

// keep has changes planned, and tries and keeps them as the first candidate that they are.
func keep(t *testing.T, h *trialHost, changes ...plan.Change) tune.Candidate {
	t.Helper()
	h.plan.Changes, h.stale = changes, false
	all := must.Get(h.Candidates(t.Context()))(t)
	must.Do(t, errors.Join(h.Try(t.Context(), all[0]), h.Keep(t.Context())))
	return all[0]
}

// onTop keeps new channels, and then on top of them the affinity of an interrupt that only they have.
func onTop(t *testing.T, h *trialHost) *tune.Result {
	t.Helper()
	kept := []tune.Candidate{
		keep(t, h, wants("nic.channels", channels, "2", "4")),
		keep(t, h, wants("sysctl.weight", weight, "64", "128")),
		keep(t, h, wants("nic.irq_affinity", irq(3), "0-3", "3")),
		keep(t, h, wants("sysctl.backlog", backlog, "1000", "5000")),
	}
	must.Get(h.Whole(t.Context(), kept))(t)
	r := &tune.Result{Verdict: tune.Met}
	for _, c := range kept {
		r.Kept, r.Added = append(r.Kept, c.Key), append(r.Added, c.Key)
	}
	return r
}

// TestFinalOnTop: what was kept on top of something kept is made to last by a transaction that follows, and one
// rollback of the first restores the beginning.
func TestFinalOnTop(t *testing.T) {
	q := newQueued()
	before := maps.Clone(q.values)
	h := standing(t, q)
	r := onTop(t, h)
	plans := must.Get(h.makeLasting(t.Context(), &Options{}, r))(t)
	must.Need(t, len(plans) == 2 && len(r.Chain) == 2 && r.TX == r.Chain[0],
		"%d plans, transactions %v, the first %s", len(plans), r.Chain, r.TX)
	for a, want := range map[setting.Address]string{channels: "4", irq(3): "3", weight: "128", backlog: "5000"} {
		if got := q.Read(t.Context(), a); got.Value != want {
			t.Errorf("%s is %s, expected %s", a, got, want)
		}
	}
	file := q.Read(t.Context(), setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf"))
	must.Hold(t, strings.Contains(file.Value, "net.core.dev_weight = 128") &&
		strings.Contains(file.Value, "net.core.netdev_max_backlog = 5000"), "what makes it last: %s", file)
	if got, want := r.UndoCommand(), "mpps rollback --with-later "+r.TX; got != want {
		t.Errorf("undone by %q, expected %q", got, want)
	}
	must.Get(h.engine.Rollback(t.Context(), apply.RollbackOptions{TX: r.TX, WithLater: true}))(t)
	must.Hold(t, maps.EqualFunc(q.values, before, setting.Reading.Same),
		"after the rollback: %v, expected %v", q.values, before)
}

// TestProposeOnTop: nothing stays of what is proposed, and its plans can be applied one behind the other.
func TestProposeOnTop(t *testing.T) {
	q := newQueued()
	before := maps.Clone(q.values)
	h := standing(t, q)
	r := onTop(t, h)
	plans := must.Get(h.makeLasting(t.Context(), &Options{Propose: true}, r))(t)
	must.Need(t, len(plans) == 2 && r.TX == "" && maps.EqualFunc(q.values, before, setting.Reading.Same),
		"%d plans, transaction %q, values %v", len(plans), r.TX, q.values)
	for i, p := range plans {
		if result, err := h.engine.Run(t.Context(), p, apply.Options{}); err != nil || result.Written() == 0 {
			t.Errorf("plan %d: %v", i+1, err)
		}
	}
	if got := q.Read(t.Context(), irq(3)); got.Value != "3" {
		t.Errorf("%s is %s", irq(3), got)
	}
	if got := planFiles("a/plan.json", 3); !slices.Equal(got,
		[]string{"a/plan.json", "a/plan.2.json", "a/plan.3.json"}) {
		t.Errorf("files %v", got)
	}
}

// TestFinalFails: where the second transaction fails, the first is put back, and the result does not say that anything
// was kept.
func TestFinalFails(t *testing.T) {
	q := newQueued()
	before := maps.Clone(q.values)
	h := standing(t, q)
	r := onTop(t, h)
	h.found = tune.Rate{PPS: 7}
	q.refuse = irq(3)
	must.Fail(h.makeLasting(t.Context(), &Options{}, r))(t, "no error")
	must.Hold(t, len(r.Chain) <= 0 && r.TX == "" && len(r.Kept) <= 0 && r.Verdict == tune.Failed && r.Final.PPS == 7 &&
		strings.Contains(r.Why, "and is put back"),
		"%s (%s), kept %v, transactions %v", r.Verdict, r.Why, r.Kept, r.Chain)
	must.Hold(t, maps.EqualFunc(q.values, before, setting.Reading.Same), "values %v, expected %v", q.values, before)
}

// TestKeptStays: what was kept is not replaced by what a later look finds to do of the same knob, and that can be
// tried.
func TestKeptStays(t *testing.T) {
	h := standing(t, newQueued())
	first := keep(t, h, wants("softirq.both", weight, "64", "128"))
	second := keep(t, h, wants("softirq.both", backlog, "1000", "5000"))
	must.Hold(t, first.Key != second.Key && slices.Equal(second.IDs, first.IDs),
		"keys %q and %q of knobs %v", first.Key, second.Key, second.IDs)
	must.Get(h.Whole(t.Context(), []tune.Candidate{first, second}))(t)
	must.Hold(t, len(h.whole) == 2 && h.whole[0][0].Address == weight && h.whole[1][0].Address == backlog,
		"kept %v", h.whole)
	// Put back and found again it is the same candidate.
	h.plan.Changes = []plan.Change{wants("softirq.both", weight, "64", "128")}
	h.stale = false
	if again, err := h.Candidates(t.Context()); err != nil || again[0].Key != first.Key {
		t.Errorf("found again: %v, %v", again, err)
	}
}

// TestResetGoesOn: a value that somebody else changed does not leave the others as they were tried.
func TestResetGoesOn(t *testing.T) {
	q := newQueued()
	h := standing(t, q)
	keep(t, h, wants("sysctl.weight", weight, "64", "128"))
	keep(t, h, wants("sysctl.backlog", backlog, "1000", "5000"))
	q.values[backlog] = setting.Value("7")
	err := h.Reset(t.Context())
	must.Hold(t, err != nil && strings.Contains(err.Error(), "somebody else changed") && !fullyRestored(err),
		"error %v", err)
	must.Hold(t, q.values[weight].Value == "64" && len(h.kept) <= 0,
		"weight %s, transactions %v", q.values[weight], h.kept)
}

// TestInterruptedWords: what is said of an interrupted run is what stands of it, and no other error is swallowed.
func TestInterruptedWords(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drift := &rollbackError{tx: "t1", drifted: true, err: errors.New("1 value of t1: somebody else changed it")}
	for _, c := range []struct {
		r        tune.Result
		failure  error
		says, no string
	}{
		{tune.Result{}, context.Canceled, "everything is as it was found", "somebody"},
		{tune.Result{}, errors.Join(context.Canceled, drift), "somebody else changed", ": everything is as"},
		{tune.Result{TX: "t1", Chain: []string{"t1"}}, context.Canceled, "'mpps rollback t1' undoes it",
			"everything is as"},
	} {
		env := &ops.Env{Out: ops.Deaf{}}
		_, _, err := finish(ctx, env, &Options{}, &c.r, nil, c.failure)
		must.Hold(t, err != nil && strings.Contains(err.Error(), c.says) && !strings.Contains(err.Error(), c.no) &&
			!strings.Contains(err.Error(), "canceled"), "%v: said %q, expected %q", c.failure, err, c.says)
	}
}

// sender is a gauge that counts what was asked of it.
type sender struct {
	Gauge
	flooding chan bool // an item while it floods
}

func (s *sender) Sample(context.Context, float64, time.Duration, bool) (Trial, error) {
	return Trial{Sent: 900, PPS: 800}, nil
}

func (s *sender) Flood(_ context.Context, _ float64, done <-chan struct{}) error {
	s.flooding <- true
	<-done
	<-s.flooding
	return nil
}

// TestUnder: packets are sent as long as what is done meanwhile takes, and what a trial sent is told.
func TestUnder(t *testing.T) {
	s := &sender{flooding: make(chan bool, 1)}
	h := &trialHost{gauge: s, live: true, trial: time.Second}
	err := h.withTraffic(t.Context(), 1000, func(context.Context) error {
		for range 50 {
			if len(s.flooding) == 1 {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		return errors.New("nothing is sent")
	})
	must.Hold(t, err == nil && len(s.flooding) == 0, "%v, %d still at it", err, len(s.flooding))
	if v, err := h.Sample(t.Context(), 1000, 1, false); v != 800 || err != nil || h.Sent() != 900 {
		t.Errorf("%g came through, %g were sent, %v", v, h.Sent(), err)
	}
}

// TestDiagnosisOfGuest: with a guest as the goal the path of another one is not what holds it back, as in 'mpps
// diagnose --guest'.
func TestDiagnosisOfGuest(t *testing.T) {
	load := func() *facts.Load {
		return &facts.Load{
			Seconds: 2, Method: facts.ByCounters, CPUs: []facts.CPULoad{{CPU: 0, Idle: 1},
				{CPU: 1, System: 0.99, Idle: 0.01}},
			Threads: []facts.ThreadLoad{{PID: 10, TID: 11, Comm: "vhost-10", Role: "vhost", Guest: "other", VCPU: -1,
				CPU: 1, Ran: 0.99, Policy: "other", Devices: []string{"vnet0"}}},
			Devices: []facts.DeviceLoad{{Name: "vnet0", Kind: "tap", Guest: "other", TxPackets: 2000000,
				Counters: map[string]uint64{"tx_dropped": 400000}}},
		}
	}
	h := standing(t, newQueued())
	if d := h.bottleneck(load()); d.Bottleneck == nil {
		t.Fatalf("nothing is named where no guest is the goal: %s", d.Why)
	}
	h.goal.Guest = "mine"
	if d := h.bottleneck(load()); d.Bottleneck != nil && d.Bottleneck.Kind == bottleneck.Vhost {
		t.Errorf("held back by %s", d.Bottleneck.Say)
	}
}

// TestMerged: of a value that several parts change, the first part's beginning and the last one's end count, at the
// first one's place.
func TestMerged(t *testing.T) {
	t.Parallel()
	change := func(name, from, to string) plan.Change {
		return plan.Change{Address: setting.Of(setting.Sysctl, name), From: setting.Value(from), To: setting.Value(to)}
	}
	got := mergeChanges([]plan.Change{change("a", "1", "2"), change("b", "1", "2")},
		[]plan.Change{change("a", "2", "3"), change("c", "1", "2")})
	want := []plan.Change{change("a", "1", "3"), change("b", "1", "2"), change("c", "1", "2")}
	must.Need(t, len(got) == len(want), "%+v", got)
	for i := range want {
		must.Hold(t, got[i].Address == want[i].Address && got[i].From.Value == want[i].From.Value &&
			got[i].To.Value == want[i].To.Value, "change %d: %+v, expected %+v", i+1, got[i], want[i])
	}
}

// TestSearching: a search takes no more than a sixth of the budget, and never more than a minute.
func TestSearching(t *testing.T) {
	t.Parallel()
	for budget, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Minute,
		90 * time.Second: 15 * time.Second} {
		must.Equal(t, searchOptions(goal.Goal{}, budget, 1e6, nil).Budget, want, "budget %v: a search", budget)
	}
}

// TestSooner: a reboot of the host waits until no guest's restart is left.
func TestSooner(t *testing.T) {
	guest, other, host := plan.Change{ID: "domain.queues", Needs: setting.RestartOf("vm1")},
		plan.Change{ID: "domain.backend", Needs: setting.RestartOf("vm2")},
		plan.Change{ID: "boot.aspm", Needs: setting.Reboot()}
	for _, c := range []struct{ all, want []plan.Change }{
		{[]plan.Change{host, guest, other}, []plan.Change{guest, other}}, {[]plan.Change{host}, []plan.Change{host}},
	} {
		if got := leastDisruptive(c.all); len(got) != len(c.want) || got[0].ID != c.want[0].ID {
			t.Errorf("%v, expected %v", got, c.want)
		}
	}
}

// TestLearnedOnce: behind a restart only what is tried there is learned.
func TestLearnedOnce(t *testing.T) {
	e := &tune.Earlier{Attempts: []tune.Attempt{{Key: "before", Outcome: tune.Useless}}}
	r := &tune.Result{Attempts: []tune.Attempt{e.Attempts[0], {Key: "restart of guest vm1", Outcome: tune.NotShown},
		{Key: "behind", Outcome: tune.Useless}}}
	if known := (tune.Effects{}).Learn("box", withoutEarlier(r, e)).Known; len(known) != 1 || known[0].Key != "behind" {
		t.Errorf("learned %+v", known)
	}
	must.Empty(t, (tune.Effects{}).Learn("box", withoutEarlier(&tune.Result{}, e)).Known, "learned of nothing")
	must.Hold(t, withoutEarlier(r, nil) == r, "without an earlier run not all is learned")
}
