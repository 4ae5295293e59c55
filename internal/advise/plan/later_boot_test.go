package plan

import (
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// TestAwaitBoot: threads that the running kernel does not have are planned after the boot, where there is one to come.
func TestAwaitBoot(t *testing.T) {
	threads := func(n int) func(*facts.Host) []setting.Address {
		return func(*facts.Host) []setting.Address {
			return make([]setting.Address, n)
		}
	}
	catalogue := []*knob.Knob{{ID: "rt.rcuc", Where: threads(0)}, {ID: "rt.ksoftirqd", Where: threads(2)},
		{ID: "rt.swap", Where: threads(0)}}
	argument := Change{Address: setting.Of(setting.KernelArg, "rcu_nocbs"), Needs: setting.Reboot()}
	for name, c := range map[string]struct {
		tier    goal.Tier
		changes []Change
		want    int
	}{
		"argument":  {goal.Realtime, []Change{argument}, 1},
		"no reboot": {goal.Realtime, []Change{{Address: setting.Of(setting.Sysctl, "vm.swappiness")}}, 0},
		"packets":   {goal.Aggressive, []Change{argument}, 0},
	} {
		p := &Plan{Tier: c.tier, Changes: c.changes}
		p.addAfterBoot(&facts.Host{}, catalogue)
		if len(p.Later) != c.want || c.want == 1 && (len(p.Later[0].IDs) != 1 || p.Later[0].IDs[0] != "rt.rcuc") {
			t.Errorf("%s: later %+v", name, p.Later)
		}
	}
}
