package placing

import (
	"strings"
	"testing"

	"mpps/internal/advise/placement"
	"mpps/internal/golden"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// TestPlace: a guest that is added is placed beside those that the host has; wishes that the host cannot have are
// refused.
func TestPlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, golden.Tree("../../../cmd/mpps/testdata/trees/two-nodes.txtar", root))
	env := &ops.Env{Root: root, Out: ops.Deaf{}}
	more := must.Get(ParseGuest("name=vm9,vcpus=1,memory=1G,pps=100k"))(t)
	ask := Request{Goal: goal.Unlimited(), Guests: []placement.Guest{more}}
	p := must.Get(Place(t.Context(), env, ask))(t)
	must.Hold(t, len(p.Added) == 1 && p.Added[0] == "vm9", "added %q", p.Added)
	for want, wrong := range map[string]Request{
		"--move vm5":           {Move: []string{"vm5"}},
		"--reserve: no node 9": {Reserves: []placement.Reserve{{Node: 9, CPUs: 1}}},
		"--reserve: 4096 CPUs": {Reserves: []placement.Reserve{{Node: 0, CPUs: 4096}}},
		"--daemon: no node 9":  {Daemons: []placement.Daemon{{Name: "osd", Node: 9, CPUs: 1}}},
		"added twice":          {Guests: []placement.Guest{more, more}},
	} {
		wrong.Goal = ask.Goal
		must.Say(t, must.Err(Place(t.Context(), env, wrong)), want, "Place")
	}
}

// TestSpecs: what cannot be asked for is refused.
func TestSpecs(t *testing.T) {
	t.Parallel()
	guest := func(s string) error { _, err := ParseGuest(s); return err }
	reserve := func(s string) error { _, err := ParseReserve(s); return err }
	daemon := func(s string) error { _, err := ParseDaemon(s); return err }
	for _, test := range []struct {
		parse func(string) error
		text  string
		wrong string // "": nothing
	}{
		{guest, "name=vm9,vcpus=8,memory=16G,cpus=1,3-4,pps=1M,vf", ""},
		{guest, "name=vm9,vcpus=8", "memory=SIZE"},
		{guest, "name=vm9,name=vm8", "twice"},
		{guest, "name=vm9,colour=red", "unknown"},
		{guest, "name=vm9,vcpus=0", "1 to 4096"},
		{guest, "name=vm9,memory=16X", "amount of memory"},
		{guest, "name=vm9,vf=yes", "no value"},
		{reserve, "node=1,cpus=2,memory=8G", ""},
		{reserve, "node=1", "cpus=N or memory=SIZE"},
		{daemon, "name=osd,cpus=4,node=0", ""},
		{daemon, "cpus=4", "name=NAME"},
	} {
		err := test.parse(test.text)
		if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %v, expected %q", test.text, err, test.wrong)
		}
	}
}
