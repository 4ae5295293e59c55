package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func whole() Inputs {
	return Inputs{Guest: "vm1", Via: "br0", Out: "br1", From: "eth1", Agent: "192.0.2.2:7878",
		VFAgent: "192.0.2.3:7878", CPUs: "20-23", Dir: "d"}.Defaults()
}

// walk does every step that is due, as a machine that owes what is said, and lists their IDs.
func walk(r *Run, owes func(id string) []setting.Needs) []string {
	var ids []string
	for s := r.Next(); s != nil; s = r.Next() {
		ids = append(ids, s.ID)
		if s.For != "" {
			r.Pass(s)
			continue
		}
		if s.Gives == Applied {
			r.Standing = append(r.Standing, "tx-"+s.ID)
			for _, needs := range owes(s.ID) {
				r.Owes.Add(needs)
			}
		}
		if s.Phase == Undo {
			r.Standing = nil
		}
		s.State = Ended
	}
	return ids
}

func TestWays(t *testing.T) {
	guest, boot := setting.RestartOf("vm1"), setting.Reboot()
	for name, c := range map[string]struct {
		of   *Experiment
		owes map[string][]setting.Needs
		want string
	}{
		"nothing waits": {throughput, nil, "machine before plan1 apply1 after rollback verify"},
		"the guest waits": {throughput, map[string][]setting.Needs{"apply1": {guest}},
			"machine before plan1 apply1 restart plan2 apply2 after rollback verify"},
		"the host waits": {throughput, map[string][]setting.Needs{"apply1": {boot, guest}},
			"machine before plan1 apply1 boot resume plan2 apply2 after rollback verify"},
		"one queue, then many": {queues, map[string][]setting.Needs{"queues1": {guest}, "queuesN": {guest}},
			"machine queues1 restart1 one queuesN restartN met many steer kept apart rollback verify"},
		"it had many": {queues, map[string][]setting.Needs{"queues1": {guest}}, "machine queues1 restart1 " +
			"one queuesN met many steer kept apart rollback verify"},
		"a function":           {sriov, nil, "machine check tap-rx tap-tx assign address vf-rx vf-tx rollback verify"},
		"modes change nothing": {modes, nil, "machine modes"},
		"realtime at once":     {realtime, nil, "machine before-idle before plan1 apply1 stands after-idle after rollback verify"},
		"realtime over a boot": {realtime, map[string][]setting.Needs{"apply1": {boot, guest}},
			"machine before-idle before plan1 apply1 boot resume plan2 apply2 stands after-idle after rollback verify"},
		"and the guest again": {realtime, map[string][]setting.Needs{"apply1": {boot}, "resume": {guest}},
			"machine before-idle before plan1 apply1 boot resume restart plan2 apply2 stands after-idle after rollback verify"},
		"and what comes of it": {realtime, map[string][]setting.Needs{"apply1": {boot}, "apply2": {guest}},
			"machine before-idle before plan1 apply1 boot resume plan2 apply2 again stands after-idle after rollback verify"},
		"realtime, guest alone": {realtime, map[string][]setting.Needs{"apply1": {guest}},
			"machine before-idle before plan1 apply1 restart plan2 apply2 stands after-idle after rollback verify"},
	} {
		r := c.of.Begin(whole(), time.Unix(0, 0))
		got := strings.Join(walk(r, func(id string) []setting.Needs { return c.owes[id] }), " ")
		must.Equal(t, got, c.want, "%s", name)
	}
	in := whole()
	in.NoReboot = true
	r := throughput.Begin(in, time.Unix(0, 0))
	got := strings.Join(walk(r, func(id string) []setting.Needs {
		return map[string][]setting.Needs{"apply1": {boot, guest}}[id]
	}), " ")
	if want := "machine before plan1 apply1 restart plan2 apply2 after rollback verify"; got != want || !r.Owes.Boot {
		t.Errorf("without a reboot: %s, owes %+v", got, r.Owes)
	}
	in.Keep = true
	for _, e := range All() {
		must.Hold(t, !slices.ContainsFunc(e.Steps(in), func(s Step) bool { return s.Phase == Undo }),
			"%s: --keep puts things back", e.Name)
	}
}

// TestNothingToPutBack: without a transaction there is no rollback, which would take back somebody else's.
func TestNothingToPutBack(t *testing.T) {
	r := throughput.Begin(whole(), time.Unix(0, 0))
	var ids []string
	for s := r.Next(); s != nil; s = r.Next() {
		ids = append(ids, s.ID)
		s.State = Ended
	}
	must.Hold(t, !slices.Contains(ids, "rollback"), "done: %v", ids)
}

func TestWaits(t *testing.T) {
	then := Waited{BootID: "a", PID: 100}
	for name, c := range map[string]struct {
		kind    For
		now     Waited
		answers error
		over    bool
	}{
		"rebooted":           {Boot, Waited{"b", 0}, nil, true},
		"not rebooted":       {Boot, Waited{"a", 200}, nil, false},
		"restarted":          {Restart, Waited{"a", 200}, nil, true},
		"runs as before":     {Restart, Waited{"a", 100}, nil, false},
		"is shut down":       {Restart, Waited{"a", 0}, nil, false},
		"same PID, new boot": {Restart, Waited{"b", 100}, nil, true},
		"somebody answers":   {Answer, then, nil, true},
		"nobody answers":     {Answer, then, errors.New("connection refused"), false},
	} {
		s := &StepDone{Step: Step{For: c.kind, At: "192.0.2.1:7878"}, Waited: &then}
		over, todo := s.Over(c.now, c.answers)
		must.Hold(t, over == c.over && over == (todo == ""), "%s: over %v, %q", name, over, todo)
	}
}

func TestOwed(t *testing.T) {
	var o Owed
	for _, needs := range []setting.Needs{{}, setting.RestartOf("vm1"), setting.RestartOf("vm1"), setting.Reboot(),
		{Kind: setting.OtherNeed, Words: "reboot of guest vm1"}} {
		o.Add(needs)
	}
	must.Hold(t, o.Boot && len(o.Restart) == 2, "%+v", o)
}

// TestSteps: what every experiment must have.
func TestSteps(t *testing.T) {
	for _, e := range All() {
		must.Hold(t, Find(e.Name) == e && e.Title != "" && e.Founding != "" && e.Takes != 0 && len(e.Wants) != 0 &&
			len(e.Needs) != 0, "%s says too little of itself", e.Name)
		ids := map[string]bool{}
		measured := 0
		for _, s := range e.Steps(whole()) {
			must.Hold(t, !ids[s.ID], "%s: two steps %s", e.Name, s.ID)
			ids[s.ID] = true
			if s.Does == "" || s.For == "" && s.Phase != Undo && len(s.Argv) == 0 {
				t.Errorf("%s: step %s says nothing", e.Name, s.ID)
			}
			switch s.Gives {
			case GivesRun, Searched, Campaign, Wakeups:
				measured++
			}
		}
		must.Hold(t, measured != 0, "%s measures nothing", e.Name)
		for _, f := range e.Figures(whole()) {
			if !strings.HasPrefix(f.ID, e.Name+".") || f.What == "" || f.Unit == "" || f.Read == nil ||
				f.Founding > 0 && !f.AsFound && len(f.Look) == 0 {
				t.Errorf("%s: figure %+v", e.Name, f)
			}
		}
		again := e.Steps(whole())
		one, _ := json.Marshal(e.Steps(whole()))
		two, _ := json.Marshal(again)
		must.Hold(t, bytes.Equal(one, two), "%s: two calls differ", e.Name)
	}
	must.Hold(t, Find("speed") == nil, "an experiment that is none was found")
}

func TestDecode(t *testing.T) {
	p := &Report{Schema: Schema, Runs: []*Run{throughput.Begin(whole(), time.Unix(0, 0))}}
	text := must.Get(json.Marshal(p))(t)
	back, err := Decode(bytes.NewReader(text))
	must.Hold(t, err == nil && back.Last("throughput") != nil &&
		len(back.Last("throughput").Steps) == len(p.Runs[0].Steps) && back.Last("sriov") == nil, "%+v, %v", back, err)
	must.Hold(t, back.Last("throughput").Unfinished() && !(*Run)(nil).Unfinished(), "what is unfinished")
	for _, wrong := range []string{"", "[]", `{"schema": "mpps.run/1"}`, `{"schema": "` + Schema + `", "runs": [null]}`,
		`{"schema": "` + Schema + `", "runs": [{"name": "speed"}]}`} {
		must.Is(t, must.Err(Decode(strings.NewReader(wrong))), ErrNotAReport, "%q", wrong)
	}
}

// TestRenew: a run that is resumed does what its experiment does, whatever its file calls its steps' commands.
func TestRenew(t *testing.T) {
	for _, e := range All() {
		begun := e.Begin(whole(), time.Unix(0, 0))
		planted := []string{"search", "--trial-command", "touch /planted"}
		read := func(change func(*Run)) *Run {
			r := &Run{}
			must.Do(t, json.Unmarshal(must.Get(json.Marshal(begun))(t), r))
			for i := range r.Steps {
				s := &r.Steps[i].Step
				s.Argv, s.Again, s.Beside, s.Kept, s.At, s.Phase = planted, planted, planted, "/planted", "planted", Look
			}
			change(r)
			return r
		}
		r := read(func(*Run) {})
		must.Hold(t, r.Renew(), "%s: its own steps are refused", e.Name)
		must.Equal(t, string(must.Get(json.Marshal(r))(t)), string(must.Get(json.Marshal(begun))(t)), "%s", e.Name)
		for name, change := range map[string]func(*Run){
			"another step":         func(r *Run) { r.Steps[0].ID = "planted" },
			"a step less":          func(r *Run) { r.Steps = r.Steps[1:] },
			"an answer of another": func(r *Run) { r.Steps[0].File = "../planted.json" },
		} {
			must.Hold(t, !read(change).Renew(), "%s: %s is taken", e.Name, name)
		}
		kept := read(func(r *Run) { r.Inputs.Keep = true })
		must.Hold(t, kept.Renew() && !slices.ContainsFunc(kept.Steps, func(s StepDone) bool { return s.Phase == Undo }),
			"%s: --keep puts things back", e.Name)
	}
}
