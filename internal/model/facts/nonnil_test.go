package facts

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestWholeHasNoNullLists(t *testing.T) {
	text, err := json.Marshal(NonNil(&Host{Name: "h", NICs: []NIC{{Name: "eth0"}}, Guests: []Guest{{Name: "vm1"}}}))
	must.Do(t, err)
	var host map[string]any
	must.Do(t, json.Unmarshal(text, &host))
	nic := host["nics"].([]any)[0].(map[string]any)
	for _, field := range []string{"channels", "rings", "pcie_link", "sriov"} {
		if value, there := nic[field]; !there || value != nil {
			t.Errorf("%s is %v, expected null: the NIC does not tell", field, value)
		}
		delete(nic, field)
	}
	if text, err = json.Marshal(host); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("null in %s (%v)", text, err)
	}
}

func TestWholeKeepsWhatThereIs(t *testing.T) {
	h := small()
	h.Taken = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	before := written(t, h)
	must.Hold(t, string(written(t, NonNil(h))) == string(before) && string(written(t, h)) == string(before),
		"a whole copy says something else, or the original was changed")
	if pins := NonNil([]setting.CPUSet{nil}); pins[0] != nil {
		t.Error("what writes its own text was touched")
	}
	var nothing any
	must.Hold(t, NonNil(nothing) == nil, "nothing became something")
}
