package journal

import (
	"strings"
	"testing"
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestResume: what is kept comes back, an older journal keeps nothing, one of a later format is read all the same and
// says so.
func TestResume(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	kept, err := Resume{Goal: goal.Goal{Latency: 50 * time.Microsecond, CPUs: setting.CPUs(2, 3), Guest: "rt1",
		Consent: []goal.Risk{goal.Data}},
		Kernel: "6.12-rt", Site: "0a",
		Later: []Postponed{{After: "reboot of the host", IDs: []string{"rt.rcuc"}}}}.Encode()
	check(t, err)
	first := create(t, d, l, Header{Kind: Apply, Resume: kept})
	older := create(t, d, l, Header{Kind: Apply, Goal: []byte(`{"pps":1.8e6,"loss":0}`)})
	later := create(t, d, l, Header{Kind: Apply, Resume: []byte(`{"schema":"mpps.resume/2","goal":"something else"}`),
		Follows: first.TX()})
	for _, w := range []*Writer{first, older, later} {
		add(t, w, intent(1, "net.a", "1", "2"), done(1, "2"), Record{Event: Committed})
	}
	load := func(w *Writer) *Transaction {
		of, err := d.Load(w.TX())
		check(t, err)
		return of
	}
	r, err := load(first).Resume()
	must.Hold(t, err == nil && r.Goal.Latency == 50*time.Microsecond && r.Goal.CPUs.String() == "2-3" &&
		r.Goal.Guest == "rt1" && r.Goal.Consents(goal.Data) && r.Kernel == "6.12-rt" && r.Site == "0a" &&
		len(r.Later) == 1, "read %+v, %v", r, err)
	if r, err := load(older).Resume(); r != nil || err != nil {
		t.Errorf("an older journal keeps %+v, %v", r, err)
	}
	if r, err := load(later).Resume(); r != nil || err == nil ||
		!strings.Contains(err.Error(), "is mpps.resume/2, this mpps reads mpps.resume/1") {
		t.Errorf("a later format: %+v, %v", r, err)
	}
	ledger, err := d.Ledger()
	check(t, err)
	if chain := ledger.Chain(load(later)); len(chain) != 2 || chain[0].Header.TX != first.TX() {
		t.Errorf("chain is %v", chain)
	}
}

// TestFollowsIsChecked: a header cannot follow itself, a later one or nothing that is a name.
func TestFollowsIsChecked(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	for _, of := range []string{"x", "29991120T211530.123456Z-3f9a1c"} {
		w := create(t, d, l, Header{Kind: Apply, Follows: of})
		must.Say(t, must.Err(d.Load(w.TX())), "not the name of an earlier "+"transaction", "follows %s", of)
	}
}
