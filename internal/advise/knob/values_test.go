package knob

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestValues: whatever mpps sets is named on its page, and by a name that holds on any host.
func TestValues(t *testing.T) {
	for _, k := range Catalogue() {
		all := k.Values()
		if len(ModelAddresses(k)) == 0 {
			t.Errorf("%s speaks of nothing", k.ID)
		}
		if !k.Check && len(all) == 0 {
			t.Errorf("%s sets something and names no value", k.ID)
		}
		for _, v := range all {
			kind, path, ok := strings.Cut(v.Address, ":")
			must.Hold(t, ok && path != "" && v.What != "" && setting.Kinds[setting.Kind(kind)].What == v.What &&
				kind != string(setting.Fact), "%s: %+v", k.ID, v)
		}
	}
	k := Find("nic.irq_affinity")
	if all := k.Values(); len(all) != 1 || all[0].Address != "irq-affinity:NIC/QUEUE/N" {
		t.Errorf("%+v", all)
	}
}
