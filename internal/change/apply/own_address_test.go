package apply

import (
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestAddressTakenAway: the address that a function's own driver chooses, once its own was taken away, is nobody's
// change: nothing has drifted, and a rollback gives the function its address back. A VLAN that somebody sets is
// somebody's.
func TestAddressTakenAway(t *testing.T) {
	f := newFake(t, 0)
	e := engine(t, f)
	mac, vlan := setting.Of(setting.VFAttr, "ens1/0/mac"), setting.Of(setting.VFAttr, "ens1/0/vlan")
	p := &plan.Plan{Goal: goal.Unlimited()}
	for a, value := range map[setting.Address][2]string{mac: {"52:54:00:00:00:01", facts.NoMAC}, vlan: {"7", "0"}} {
		f.values[a] = setting.Value(value[0])
		p.Changes = append(p.Changes, plan.Change{ID: "test", Address: a, From: setting.Value(value[0]),
			To: setting.Value(value[1]), Want: setting.Exact(value[1]), Risk: "none", Lasts: setting.UntilVFsRemade})
	}
	must.Get(e.Run(t.Context(), p, Options{}))(t)
	f.values[mac] = setting.Value("8a:e7:ff:73:df:5f")
	if s, err := e.Status(t.Context()); err != nil || s.State != IsApplied {
		t.Errorf("%+v, %v", s, err)
	}
	f.values[vlan] = setting.Value("9")
	if s, err := e.Status(t.Context()); err != nil || s.State != IsDrifted || s.Counts[string(Drifted)] != 1 {
		t.Errorf("with another VLAN: %+v, %v", s, err)
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil {
		t.Logf("rollback: %v", err)
	}
	if f.values[mac].Value != "52:54:00:00:00:01" || f.values[vlan].Value != "9" {
		t.Errorf("after the rollback: address %s, VLAN %s", f.values[mac], f.values[vlan])
	}
}
