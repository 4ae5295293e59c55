package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// knobCase is one row of testdata/knobs: what a knob says of an address when this is found there.
type knobCase struct {
	ID       string
	At       string
	Found    *string // canonical; nil: nobody read it
	Absent   bool
	Held     bool // can be read and not set
	Max      *int64
	Goal     *goal.Goal        // 1.8 Mpps unless given
	Set      map[string]any    // path in host.json ("nics/0/up") → value
	Others   map[string]string // readings of other addresses
	Missing  []string          // other addresses where nothing is
	State    State
	Wanted   string
	Risk     goal.Risk
	Severity string
	Why      string // part of the reason
	Rules    int
	Blocked  bool
	Trial    string // what tune may try
}

// host is testdata/host.json with values replaced: two sockets of ten cores with two threads each (0–9 and 20–29 on
// node 0), eth0 on node 0 behind br0, and a guest of 4 vCPUs that is pinned well.
func host(t testing.TB, set map[string]any) *facts.Host {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/host.json"))(t)
	var tree any
	must.Do(t, json.Unmarshal(text, &tree))
	for _, path := range slices.Sorted(maps.Keys(set)) {
		tree = put(t, tree, strings.Split(path, "/"), set[path])
	}
	text = must.Get(json.Marshal(tree))(t)
	h := &facts.Host{}
	must.Do(t, json.Unmarshal(text, h))
	if len(h.Topology.CPUs) == 0 {
		twoSockets(h)
	}
	h.Readings = facts.Readings{}
	return h
}

func twoSockets(h *facts.Host) {
	var all []int
	for id := range 40 {
		node := id % 20 / 10
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Online: true, Package: node, Core: id % 20,
			Node: node, Siblings: setting.CPUs(id%20, id%20+20)})
		all = append(all, id)
	}
	h.Topology.Online = setting.CPUs(all...)
	for n := range 2 {
		cpus := append(append(setting.CPUSet{}, all[10*n:10*n+10]...), all[20+10*n:30+10*n]...)
		h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: n, CPUs: cpus, Memory: 64 << 30,
			Distances: [][]int{{10, 21}, {21, 10}}[n]})
	}
}

func put(t testing.TB, tree any, path []string, value any) any {
	t.Helper()
	if len(path) == 0 {
		return value
	}
	switch at := tree.(type) {
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i > len(at) {
			t.Fatalf("no element %s", path[0])
		}
		if i == len(at) {
			at = append(at, nil)
		}
		at[i] = put(t, at[i], path[1:], value)
		return at
	case nil:
		return put(t, map[string]any{}, path, value)
	case map[string]any:
		at[path[0]] = put(t, at[path[0]], path[1:], value)
		return at
	}
	t.Fatalf("no %s in a %T", path[0], tree)
	return nil
}

func TestKnobs(t *testing.T) {
	files, err := filepath.Glob("testdata/knobs/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	shown := map[string]map[State]bool{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var cases []knobCase
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for n, c := range cases {
			if shown[c.ID] == nil {
				shown[c.ID] = map[State]bool{}
			}
			shown[c.ID][c.State] = true
			if c.Trial != "" { // a knob may have nothing but this to say against a value
				shown[c.ID][Off] = true
			}
			t.Run(fmt.Sprintf("%s/%d-%s-%s", strings.TrimSuffix(filepath.Base(file), ".json"), n+1, c.ID, c.State),
				c.run)
		}
	}
	for _, k := range knob.Catalogue() {
		for _, state := range []State{OK, Off, Unknown} {
			must.Hold(t, shown[k.ID][state], "no case shows %s as %s", k.ID, state)
		}
	}
}

func (c knobCase) run(t *testing.T) {
	h := host(t, c.Set)
	a := must.Get(setting.ParseAddress(c.At))(t)
	switch {
	case c.Found != nil:
		h.Readings[a] = setting.Reading{State: setting.Known, Value: *c.Found, Max: c.Max, ReadOnly: c.Held}
	case c.Absent:
		h.Readings[a] = setting.Missing("not there")
	}
	for at, value := range c.Others {
		other := must.Get(setting.ParseAddress(at))(t)
		h.Readings[other] = setting.Value(value)
	}
	for _, at := range c.Missing {
		other := must.Get(setting.ParseAddress(at))(t)
		h.Readings[other] = setting.Missing("not there")
	}
	g := goal.Unlimited()
	if c.Goal != nil {
		g = *c.Goal
	}
	for _, f := range Run(h, g, knob.Catalogue()).Findings {
		if f.ID != c.ID || f.Address != a {
			continue
		}
		if f.State != c.State || c.Wanted != "" && f.Wanted != c.Wanted || c.Risk != "" && f.Risk != c.Risk ||
			!strings.Contains(f.Why, c.Why) ||
			c.Severity != "" && f.Severity.String() != c.Severity || len(f.Rules) != c.Rules ||
			c.Blocked != (f.Blocked != "") || c.Trial != trialOf(f) {
			t.Errorf("found %q: %s, wanted %q, severity %s, risk %s, rules %q, blocked %q, trial %q: %s\nexpected %+v",
				f.Found, f.State, f.Wanted, f.Severity, f.Risk, f.Rules, f.Blocked, trialOf(f), f.Why, c)
		}
		return
	}
	t.Errorf("%s has no finding at %s", c.ID, a)
}

// trialOf returns what tune may try in place of a value, "" if nothing.
func trialOf(f Finding) string {
	if f.Trial == nil {
		return ""
	}
	return f.Trial.Want.String()
}

func TestPure(t *testing.T) {
	h := host(t, nil)
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Value("1")
	}
	before := must.Get(json.Marshal(h))(t)
	for _, g := range []goal.Goal{goal.Unlimited(), {}, {PPS: 2e5}, {Latency: 20000}, {PPS: 5e6}} {
		first, second := Run(h, g, knob.Catalogue()), Run(h, g, knob.Catalogue())
		must.Hold(t, reflect.DeepEqual(first, second), "two audits of the same facts differ for %+v", g)
	}
	after, err := json.Marshal(h)
	must.Hold(t, err == nil && string(after) == string(before), "the audit changed the facts")
}

func TestDefaultTier(t *testing.T) {
	r := Run(host(t, nil), goal.Goal{PPS: 50e3}, knob.Catalogue())
	must.Hold(t, r.Tier == goal.Default && strings.HasPrefix(r.Verdict, "nothing needs tuning") && r.Counts[Off] == 0 &&
		r.Counts[NotApplicable] == len(r.Findings), "tier %s, %q, %v", r.Tier, r.Verdict, r.Counts)
}

// TestPassthrough: from 3 M on bridge, virtio and vhost no longer matter, and it is said why.
func TestPassthrough(t *testing.T) {
	r := Run(host(t, map[string]any{"guests/0/interfaces/0/model": "e1000", "netfilter/br_netfilter": true}),
		goal.Goal{PPS: 3e6}, knob.Catalogue())
	must.Hold(t, r.Tier == goal.Passthrough && strings.Contains(r.Why, "VF"), "tier %s: %s", r.Tier, r.Why)
	said := map[string]bool{}
	for _, f := range r.Findings {
		switch family, _, _ := strings.Cut(f.ID, "."); family {
		case "netfilter", "bridge", "overlay", "softirq", "vhost":
			must.Hold(t, f.State == NotApplicable && strings.Contains(f.Why, "no longer applies"),
				"%s at %s: %s, %s", f.ID, f.Address, f.State, f.Why)
			said[family] = true
		}
		if strings.HasPrefix(f.Address.Path, "vm1/interface/") && f.State != NotApplicable {
			t.Errorf("%s at %s: %s", f.ID, f.Address, f.State)
		}
	}
	must.Hold(t, len(said) == 5 && r.Counts[Off]+r.Counts[OK]+r.Counts[Unknown] != 0, "spoke of %v; %v", said, r.Counts)
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]any
		want string
	}{
		"a guest": {nil, "could not be judged"},
		"no guest": {map[string]any{"guests": []any{}, "as_root": true, "kvm/loaded": true},
			facts.RoleEmpty.Why() + "; "},
		"no KVM":      {map[string]any{"guests": []any{}, "as_root": true, "kvm/loaded": false}, facts.RoleNoKVM.Why() + "; "},
		"no root":     {map[string]any{"guests": []any{}, "as_root": false}, facts.RoleUnseen.Why() + "; "},
		"none runs":   {map[string]any{"guests/0/state": "shut off"}, facts.RoleIdle.Why() + "; "},
		"from inside": {map[string]any{"guests": []any{}, "virtual": "kvm"}, facts.RoleGuest.Why() + "; "},
	} {
		for _, g := range []goal.Goal{goal.Unlimited(), goal.Gentlest(), {PPS: 5e4}} {
			r := Run(host(t, c.set), g, knob.Catalogue())
			if name != "a guest" && !strings.HasPrefix(r.Verdict, c.want) || strings.Contains(r.Verdict, "well tuned") {
				t.Errorf("%s: %s", name, r.Verdict)
			}
			if name == "a guest" && g.PPS > 1e6 && !strings.Contains(r.Verdict, c.want) {
				t.Errorf("%s: %s", name, r.Verdict)
			}
		}
	}
}

// TestWellTuned: the same findings are a host that is tuned well only where guests run.
func TestWellTuned(t *testing.T) {
	odd := []*knob.Knob{{ID: "test.odd", Tiers: goal.Tiers(),
		Where: func(*facts.Host) []setting.Address { return []setting.Address{setting.Of(setting.Sysctl, "net.x")} },
		Want: func(*knob.View, setting.Address) knob.Advice {
			return knob.Wants(setting.Exact("1"), "the case wants it").At(knob.Info)
		}}}
	for guests, want := range map[string]bool{"running": true, "shut off": false} {
		h := host(t, map[string]any{"guests/0/state": guests})
		h.Readings[setting.Of(setting.Sysctl, "net.x")] = setting.Value("0")
		r := Run(h, goal.Unlimited(), odd)
		must.Equal(t, strings.Contains(r.Verdict, "well tuned"), want, "a guest that is %s: %s", guests, r.Verdict)
	}
}

func TestOrder(t *testing.T) {
	h := host(t, map[string]any{"guests/0/interfaces/0/model": "e1000"})
	h.Readings[setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables")] = setting.Value("1")
	h.Readings[setting.Of(setting.Domain, "vm1/interface/52:54:00:00:00:01/model")] = setting.Value("e1000")
	h.Readings[setting.Of(setting.Sysfs, "kernel/mm/transparent_hugepage/defrag")] = setting.Value("always")
	r := Run(h, goal.Unlimited(), knob.Catalogue())
	if f := r.Findings[0]; f.ID != "domain.nic_model" || f.Severity != knob.Critical ||
		f.Needs != setting.RestartOf("vm1") {
		t.Errorf("first is %+v", f)
	}
	last := 0
	for i, f := range r.Findings[1:] {
		before := r.Findings[i]
		if f.State == before.State && f.Severity > before.Severity {
			t.Errorf("%s (%s) stands behind %s (%s)", f.ID, f.Severity, before.ID, before.Severity)
		}
		if at := indexOf(f.State); at < last {
			t.Errorf("%s is out of order", f.State)
		} else {
			last = at
		}
	}
	must.Equal(t, len(r.AtLeast(knob.High)), 2, "findings of severity high or more")
}

func indexOf(s State) int {
	for i, other := range States() {
		if s == other {
			return i
		}
	}
	return -1
}

// TestMadeUp: facts that no host has must not make the audit fail, nor double what it says.
func TestMadeUp(t *testing.T) {
	h := host(t, map[string]any{
		"nics/2": map[string]any{"name": "eth0", "up": true, "rings": map[string]any{},
			"tx_queues": 1 << 30, "rx_queues": 1 << 30, "numa_node": 99},
		"guests/1": map[string]any{"name": "vm1", "managed": true, "state": "running", "vcpus": 1 << 24},
		"guests/2": map[string]any{"name": "", "managed": true, "state": "running", "vcpus": -3,
			"vcpu_pins": []string{"0-3", "", "16383"}},
		"guests/0/interfaces/1": map[string]any{"mac": "52:54:00:00:00:01", "type": "bridge", "queues": 1 << 30},
		"guests/0/threads/2":    map[string]any{"role": "vhost", "nic": "52:54:00:00:00:01", "queue": 1},
		"topology": map[string]any{"cpus": []any{map[string]any{"id": 5, "online": true, "core": -1,
			"node": -1}}, "nodes": []any{map[string]any{"id": 3, "distances": []int{1, 2, 3}}}},
	})
	r := Run(h, goal.Unlimited(), knob.Catalogue())
	type spot struct {
		id string
		a  setting.Address
	}
	seen := map[spot]bool{}
	for _, f := range r.Findings {
		must.Hold(t, !seen[spot{f.ID, f.Address}], "%s says two things of %s", f.ID, f.Address)
		seen[spot{f.ID, f.Address}] = true
	}
	must.Hold(t, len(r.Findings) <= 500_000, "%d findings", len(r.Findings))
}
