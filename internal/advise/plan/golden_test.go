package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestGoldenPlans reads plans that an earlier version wrote, and writes them again: as files and as answer of 'mpps
// plan --json'. The files are kept for good.
func TestGoldenPlans(t *testing.T) {
	for name, needs := range map[string]map[setting.NeedKind]int{
		"throughput.json": {setting.AtOnce: 15, setting.HostReboot: 3, setting.GuestRestart: 5},
		"realtime.json":   {setting.AtOnce: 13, setting.HostReboot: 11, setting.GuestRestart: 9},
		"answer.json":     {setting.AtOnce: 15, setting.HostReboot: 3, setting.GuestRestart: 5},
	} {
		text := must.Get(os.ReadFile(filepath.Join("testdata/golden", name)))(t)
		p, err := Decode(bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var head struct{ Result json.RawMessage }
		must.Do(t, json.Unmarshal(text, &head))
		if len(head.Result) == 0 {
			head.Result = text
		}
		phases := jsonOf(t, p.Phases)
		if again := jsonOf(t, p); again != compact(t, head.Result) {
			t.Errorf("%s: written again it is\n%s\nexpected\n%s", name, again, text)
		}
		if p.Seal(); jsonOf(t, p.Phases) != phases {
			t.Errorf("%s: phases %s, expected %s", name, jsonOf(t, p.Phases), phases)
		}
		found := map[setting.NeedKind]int{}
		for _, c := range append(p.Changes, p.Consent...) {
			if found[c.Needs.Kind]++; c.Needs.Kind == setting.GuestRestart && c.Needs.Guest != c.Address.Object() {
				t.Errorf("%s: %s needs %+v", name, c.Address, c.Needs)
			}
		}
		for kind, n := range needs {
			must.Hold(t, found[kind] == n, "%s: changes by what they need %v, expected %v", name, found, needs)
		}
	}
}

// TestNeedOfAnotherVersion is kept as it is written, and waited for as for a guest.
func TestNeedOfAnotherVersion(t *testing.T) {
	var c Change
	text := `"start of network vfs"`
	if err := json.Unmarshal([]byte(text), &c.Needs); err != nil || jsonOf(t, c.Needs) != text || c.Needs.IsZero() {
		t.Errorf("%+v, %v", c.Needs, err)
	}
	c.Address, c.Risk = setting.Of(setting.Sysctl, "net.a"), goal.None
	p := Plan{Changes: []Change{c}}
	if p.Seal(); len(p.Phases) != 1 || p.Phases[0].Name != PhaseGuest {
		t.Errorf("phases %+v", p.Phases)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	must.Do(t, encoder.Encode(v))
	return compact(t, b.Bytes())
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, json.Compact(&b, text))
	return b.String()
}
