package watch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/realtime"
	"mpps/internal/change/apply"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

var everything = map[Source]bool{Values: true, Isolated: true, Observed: true, Boots: true, Services: true}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// look is the nth look, with findings "source code object" of which those that begin with ~ must be seen twice.
func look(n int, findings ...string) Look {
	l := Look{At: began.Add(time.Duration(n) * 30 * time.Second), Host: "h", Saw: everything, Isolated: setting.CPUs(2, 3),
		From: "isolcpus", State: State{Daemons: map[string]bool{}, Guests: map[string]int{}}}
	for _, text := range findings {
		rest, twice := strings.CutPrefix(text, "~")
		fields := strings.SplitN(rest, " ", 3)
		l.Findings = append(l.Findings, Finding{Source: Source(fields[0]), Code: fields[1], Object: fields[2],
			From: "a", To: "b", Severity: knob.High, Twice: twice})
	}
	return l
}

func reported(events []Event) string {
	all := facts.Map(events, func(e Event) string { return e.Event + " " + e.Code + " " + e.Object })
	return strings.Join(all, "; ")
}

// TestHolds: what happens must be seen twice and be gone twice, what is configured counts at once, and what stood at
// the first look is marked.
func TestHolds(t *testing.T) {
	w := New()
	for i, c := range []struct {
		look Look
		want string
	}{
		{look(0, "isolated lists.isolcpus isolcpus", "~observed threads.user_ran thread x (1)"),
			"begins lists.isolcpus isolcpus"},
		{look(1, "isolated lists.isolcpus isolcpus", "~observed threads.user_ran thread x (2)"),
			"begins threads.user_ran thread x (2)"},
		{look(2, "~observed threads.kernel_ran thread kworker/u8:1 (7)"), "ends lists.isolcpus isolcpus"},
		{look(3, "~observed threads.kernel_ran thread kworker/u9:3 (9)", "~observed threads.user_ran thread x (3)"),
			"begins threads.kernel_ran thread kworker/u9:3 (9)"},
		{look(4), ""},
		{look(5), "ends threads.kernel_ran thread kworker/u9:3 (9); ends threads.user_ran thread x (3)"},
		{look(6, "~values value.drifted ksm:run"), ""},
		{look(7), ""}, // put back by the service that does so: never told
		{look(8, "~values value.drifted ksm:run"), ""},
	} {
		events := w.Observe(c.look)
		must.Equal(t, reported(events), c.want, "look %d: told", i)
		for _, e := range events {
			if e.Event == Begins && e.Found != (i == 0 || i == 1) || e.Event == Ends &&
				(e.Since == nil || e.To != "a") || e.Schema != Schema || e.Host != "h" {
				t.Errorf("look %d: %+v", i, e)
			}
		}
	}
}

// TestUnseen: a part that could not be looked at is told, ends nothing, and the host is not said to be fine.
func TestUnseen(t *testing.T) {
	w := New()
	w.Observe(look(0, "isolated irq.aimed irq 4"))
	for n := 1; n < 4; n++ {
		l := look(n)
		l.Saw = map[Source]bool{Values: true}
		l.Unseen = map[Source]string{Isolated: "no proc", Observed: "no proc"}
		want := ""
		if n == 2 {
			want = "begins watch.unseen isolated; begins watch.unseen observed"
		}
		must.Equal(t, reported(w.Observe(l)), want, "look %d: told", n)
		must.Hold(t, !w.OK(), "a host that was not seen is said to be fine")
	}
	must.Equal(t, reported(w.Observe(look(4, "isolated irq.aimed irq 4"))), "", "told")
	must.Equal(t, reported(w.Observe(look(5))),
		"ends irq.aimed irq 4; ends watch.unseen isolated; ends watch.unseen "+"observed", "told")
	must.Hold(t, w.OK(), "nothing stands, and the host is not fine")
	left := look(6)
	left.Saw = map[Source]bool{Isolated: true}
	if got := reported(w.Observe(left)); got != "" || !w.OK() {
		t.Errorf("a part that was left out on purpose: told %q", got)
	}
}

// TestLost: a host whose CPUs are set aside no more is not realtime, and that is told once and until they are again;
// what stood there stands while it is looked at. A host that has set none aside was never realtime.
func TestLost(t *testing.T) {
	w := New()
	for i, c := range []struct {
		aside, from string
		seen        bool
		findings    []string
		want        string
		ok          bool
		watched     string
	}{
		{"", "", true, nil, "", false, ""},
		{"2-3", "isolated partitions", true, nil, "changed isolation.came CPUs set aside", true, "2-3"},
		{"2-4", "isolated partitions", true, nil, "changed isolation.came CPUs set aside", true, "2-4"},
		{"2-4", "isolated partitions", true, []string{"isolated irq.default x"}, "begins irq.default x", false, "2-4"},
		{"", "", false, nil, "", false, "2-4"}, // nobody could look
		{"2", "isolated partitions", true, []string{"isolated irq.default x"}, "begins isolation.lost CPUs set aside",
			false, "2-4"},
		{"", "", true, []string{"isolated irq.default x"}, "", false, "2-4"},
		{"2-4", "isolated partitions", true, []string{"isolated irq.default x"}, "ends isolation.lost CPUs set aside",
			false, "2-4"},
		{"2-4", "isolated partitions", true, nil, "ends irq.default x", true, "2-4"},
	} {
		l := look(i, c.findings...)
		var err error
		if l.Isolated, err = setting.ParseCPUs(c.aside); err != nil {
			t.Fatal(err)
		}
		l.From = c.from
		if !c.seen {
			l.Saw, l.Findings = map[Source]bool{Values: true}, nil
		}
		events := w.Observe(l)
		if got := reported(events); got != c.want || w.OK() != c.ok || w.IsolatedCPUs(nil).String() != c.watched {
			t.Errorf("look %d: told %q, ok %v, watched %s; expected %q, %v, %s", i, got, w.OK(), w.IsolatedCPUs(nil), c.want,
				c.ok, c.watched)
		}
		for _, e := range events {
			if e.Code == "isolation.lost" && e.Event == Begins && (e.From != "2-4 (isolated partitions)" ||
				e.To != "2 (isolated partitions)" || e.Severity != knob.High ||
				!strings.Contains(e.Hint, "CPUs 3-4 ")) {
				t.Errorf("look %d: %+v", i, e)
			}
			if e.Code == "isolation.came" && i == 1 && (e.From != "none" || e.To != "2-3 (isolated partitions)") {
				t.Errorf("look %d: %+v", i, e)
			}
		}
	}
}

// TestChanges: what may change without being wrong is told once.
func TestChanges(t *testing.T) {
	host := func(args, version string, daemons []facts.Service, guests ...facts.Guest) *facts.Host {
		return &facts.Host{
			Kernel: facts.Kernel{Realtime: true, Release: "6.12.1-rt-amd64"}, Services: daemons, Guests: guests,
			Boot: &facts.Boot{Next: "0", Entries: []facts.BootEntry{{ID: "0", Arguments: args, Version: version}}},
		}
	}
	w := New()
	take := func(n int, h *facts.Host) string {
		l := look(n)
		l.State, l.Findings = StateOf(h), BootFindings(h)
		return reported(w.Observe(l))
	}
	tuned := func(runs bool) []facts.Service { return []facts.Service{{Name: "tuned", Running: runs}} }
	guest := func(pid int) facts.Guest { return facts.Guest{Name: "rt1", State: "running", PID: pid} }
	unknown := host("", "", nil)
	unknown.Boot.Next = ""
	for n, c := range []struct {
		h    *facts.Host
		want string
	}{
		{host("ro isolcpus=2-3 quiet", "6.12.1-rt-amd64", tuned(false)), ""},
		{host("ro quiet", "6.12.1-rt-amd64", tuned(false)), "changed boot.arguments next boot"},
		{unknown, ""},
		{host("ro quiet", "6.13.1-amd64", tuned(true), guest(7)), "begins boot.not_realtime next boot; changed " +
			"boot.kernel next boot; changed service.started tuned; changed guest.started rt1"},
		{host("ro quiet", "6.13.1-amd64", tuned(true), guest(9)), "changed guest.started rt1"},
		{host("ro quiet", "6.12.2+deb13-rt-amd64", nil), "ends boot.not_realtime next boot; changed boot.kernel next " +
			"boot; changed guest.stopped rt1; changed service.stopped tuned"},
		{host("ro quiet", "5.14.0-427.rt14.712.el9", nil), "changed boot.kernel next boot"},
	} {
		must.Equal(t, take(n, c.h), c.want, "look %d: told", n)
	}
	for version, is := range map[string]bool{"6.12.48+deb13-rt-amd64": true, "5.4.17-2136.uek": false,
		"6.1.0-start-1": false, "5.15.0-1-realtime": true, "4.18.0-1.rt7.1": true} {
		must.Equal(t, realtimeName(version), is, "%s", version)
	}
}

// TestFrom: rows of verify and findings of a check become findings here, each with the rule that fits it.
func TestFrom(t *testing.T) {
	a := setting.Of(setting.Sysctl, "vm.swappiness")
	rows, off := AppliedFindings(apply.Status{State: apply.IsDrifted, Rows: []apply.Row{
		{ID: "x", Address: a, Wanted: "1", Found: "60", State: apply.Drifted, Why: "is 60"},
		{ID: "y", Address: a, State: apply.Compliant}, {ID: "z", Address: a, State: apply.Untold},
		{ID: "k", Address: setting.Of(setting.KernelArg, "isolcpus"), Wanted: "2", Found: "absent", State: apply.Owned},
		{ID: "w", Address: a, State: apply.WaitsFor},
	}})
	must.Hold(t, off == 2 && len(rows) == 2 && rows[0].Code == "value.drifted" && rows[0].Twice &&
		rows[1].Code == "value.owned" && !rows[1].Twice && rows[0].From == "1" && rows[0].To == "60",
		"off %d: %+v", off, rows)
	if rows, _ := AppliedFindings(apply.Status{State: apply.IsInDoubt, Why: "y"}); len(rows) != 1 ||
		rows[0].Code != "value.in-doubt" {
		t.Errorf("%+v", rows)
	}
	r := &realtime.Report{}
	for _, id := range []string{"threads.user_ran", "threads.priority", "irq.came", "irq.aimed", "lists.next_boot",
		"guest.vcpu_wide"} {
		r.Findings = append(r.Findings, realtime.Finding{ID: id, Object: "o", Found: "f", Do: "d", Severity: knob.Low})
	}
	want := "observed true; isolated false; observed true; isolated true; boot false; isolated true"
	got := facts.Map(RealtimeFindings(r), func(f Finding) string { return fmt.Sprintf("%s %v", f.Source, f.Twice) })
	must.Equal(t, strings.Join(got, "; "), want, "%v", got)
	for _, k := range realtime.Kinds() { // every kind has a source and none is lost
		if all := RealtimeFindings(&realtime.Report{Findings: []realtime.Finding{{ID: k.ID}}}); len(all) != 1 ||
			all[0].Source == "" {
			t.Errorf("%s: %+v", k.ID, all)
		}
	}
}

// TestMetrics reads what is written back and compares it with what stands.
func TestMetrics(t *testing.T) {
	w := New()
	must.Contain(t, w.Metrics("1"), "mpps_realtime_ok 0\n")
	l := look(0, "isolated irq.aimed irq 4", "isolated irq.aimed irq 5", "~observed threads.user_ran thread x (1)")
	l.Values, l.Drifted, l.Took, l.Cost, l.Pause = 12, 3, 1500*time.Millisecond, 250*time.Millisecond, 30*time.Second
	l.Saw, l.Unseen = map[Source]bool{Isolated: true, Values: true}, map[Source]string{Observed: "not root"}
	w.Observe(l)
	text := w.Metrics(`1"`)
	must.Contain(t, text,
		"mpps_realtime_ok 0\n", "mpps_realtime_cpus 2\n",
		"mpps_realtime_findings{code=\"irq.aimed\",severity=\"high\"} 2\n", "mpps_applied_values 12\n",
		"mpps_drifted_values 3\n",
		"mpps_watch_source_success{source=\"isolated\"} 1\n", "mpps_watch_source_success{source=\"observed\"} 0\n",
		"mpps_watch_events_total{code=\"irq.aimed\"} 2\n",
		"mpps_watch_looks_total 1\n", "mpps_watch_pause_seconds 30\n", "mpps_watch_failed_looks_total 1\n",
		"mpps_watch_last_look_timestamp_seconds 1767323045\n", "mpps_watch_look_duration_seconds 1.5\n",
		"mpps_watch_cpu_seconds_total 0.25\n", `mpps_build_info{version="1\""} 1`+"\n")
	must.Hold(t, !strings.Contains(text, "source=\"boot\"") && !strings.Contains(text, "threads.user_ran"),
		"what was not looked at, or not seen twice, is there:\n%s", text)
	l = look(1)
	l.Saw = map[Source]bool{Isolated: true} // another mpps is at work
	if w.Observe(l); !strings.Contains(w.Metrics("1"), "\nmpps_applied_values 12\n") ||
		!strings.Contains(w.Metrics("1"), "\nmpps_drifted_values 3\n") {
		t.Errorf("a look that left the values out has forgotten them:\n%s", w.Metrics("1"))
	}
	typed := map[string]bool{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); fields[0] == "#" {
			if fields[1] == "TYPE" {
				typed[fields[2]] = true
			}
		} else if name, _, _ := strings.Cut(fields[0], "{"); !typed[name] {
			t.Errorf("%s has no type before it", name)
		}
	}
	if w.Observe(look(2)); strings.Contains(w.Metrics("1"), "mpps_realtime_ok 1\n") != w.OK() {
		t.Error("the metric is not what the watcher says")
	}
}

// TestRandom: over random looks everything that begins ends before it begins again, and at the end what stands is what
// has begun.
func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		w, open := New(), map[string]bool{}
		for n := range 40 {
			var all []string
			for i := range 6 {
				if random.IntN(2) == 0 {
					all = append(all, fmt.Sprintf("%sisolated c%d o%d", []string{"", "~"}[i%2], i, i/2))
				}
			}
			l := look(n, all...)
			if random.IntN(5) == 0 {
				l.Findings, l.Saw, l.Unseen = nil, map[Source]bool{Values: true}, map[Source]string{Isolated: "hidden"}
			}
			for _, e := range w.Observe(l) {
				key := e.Code + e.Object
				must.Need(t, e.Event == Begins != open[key],
					"seed %d, look %d: %s %s while it was %v", seed, n, e.Event, key, open[key])
				open[key] = e.Event == Begins
			}
		}
		standing := map[string]bool{}
		for _, f := range w.Standing() {
			standing[f.Code+f.Object] = true
		}
		for key, is := range open {
			must.Need(t, is == standing[key], "seed %d: %s was told %v and stands %v", seed, key, is, standing[key])
		}
	}
}
