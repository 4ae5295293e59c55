package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

func encoded(t testing.TB) string {
	t.Helper()
	p := must.Get(Make(lab(), goal.Unlimited(), knob.Catalogue(), nil))(t)
	var text bytes.Buffer
	must.Do(t, Encode(&text, p))
	return text.String()
}

func TestRoundTrip(t *testing.T) {
	text := encoded(t)
	p, err := Decode(strings.NewReader(text))
	must.Do(t, err)
	var again bytes.Buffer
	if err := Encode(&again, p); err != nil || again.String() != text {
		t.Errorf("a plan changes when it is read and written: %v", err)
	}
	must.Try(t, Check(p, lab()))
	made, err := Make(lab(), goal.Unlimited(), knob.Catalogue(), nil)
	must.Hold(t, err == nil && reflect.DeepEqual(p.Changes, made.Changes),
		"the changes that were read are not those that were made")
	answer := `{"schema": "mpps.plan/1", "mpps": "0", "host": "h", "result": ` + text + `, "warnings": []}`
	if p, err := Decode(strings.NewReader(answer)); err != nil || len(p.Changes) != len(made.Changes) {
		t.Errorf("the answer of plan --json: %v", err)
	}
	extended := strings.Replace(text, "{", `{"from_a_later_version": [1, 2],`, 1)
	must.Pass(Decode(strings.NewReader(extended)))(t, "a field that this version does not know")
}

func TestHostile(t *testing.T) {
	text := encoded(t)
	edit := func(old, replacement string) string {
		edited := strings.Replace(text, old, replacement, 1)
		must.Need(t, edited != text, "no %s in the plan", old)
		return edited
	}
	for name, hostile := range map[string]string{
		"empty":                "",
		"truncated":            text[:len(text)/2],
		"no plan":              `{"schema": "mpps.snapshot/1"}`,
		"no schema":            `{}`,
		"another version":      edit("mpps.plan/1", "mpps.plan/2"),
		"a list":               `[]`,
		"zeros":                strings.Repeat("\x00", 1<<20),
		"unknown kind":         edit(`"address": "nic-channels:`, `"address": "shell:`),
		"escaping path":        edit(`"address": "nic-channels:eth0/combined"`, `"address": "sysfs:../../etc/passwd"`),
		"another value":        edit(`"value": "virtio"`, `"value": "rtl8139"`),
		"another risk":         edit(`"risk": "guest-restart"`, `"risk": "none of your business"`),
		"another host":         edit(`"is": "h"`, `"is": "i"`),
		"a huge value":         edit(`"value": "virtio"`, `"value": "`+strings.Repeat("x", 1<<17)+`"`),
		"bad consent":          edit(`"pps": 1800000`, `"pps": 1800000, "consent": ["everything"]`),
		"a risk not consented": edit(`"risk": "guest-restart"`, `"risk": "data"`),
		"no stage":             edit(`"stage": "nic"`, `"station": "nic"`),
		"no digest":            edit(`"digest": "`, `"digest": "0`),
		"a value twice":        edit(`"value": "virtio"`, `"Value": "rtl8139", "value": "virtio"`),
	} {
		if p, err := Decode(strings.NewReader(hostile)); err == nil || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: found %v, %v; expected to be refused", name, p, err)
		}
	}
	must.Is(t, must.Err(Decode(io.LimitReader(endless{}, 10<<30))), ErrFormat, "10 GiB of zeros")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestForged signs again what was edited: what is refused then is refused for its own sake.
func TestForged(t *testing.T) {
	for name, forge := range map[string]func(c *Change){
		"a value not in canonical form": func(c *Change) { c.To.Value, c.Want.Value = "a  b", "a  b" },
		"unknown to write":              func(c *Change) { c.To.State = 0 },
		"to be removed":                 func(c *Change) { c.To.State, c.Address.Kind = 1, "sysctl" },
		"found unknown":                 func(c *Change) { c.From.State = 0 },
		"not what is wanted":            func(c *Change) { c.Want.Value = "other" },
		"a risk without consent":        func(c *Change) { c.Risk = goal.Security },
		"a fact":                        func(c *Change) { c.Address.Kind = "fact" },
	} {
		p := must.Get(Make(lab(), goal.Unlimited(), knob.Catalogue(), nil))(t)
		forge(&p.Changes[len(p.Changes)-1])
		p.Digest = p.digest()
		text, err := json.Marshal(p)
		must.Do(t, err)
		if _, err := Decode(bytes.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: found %v; expected to be refused", name, err)
		}
	}
	p := must.Get(Make(lab(), goal.Unlimited(), knob.Catalogue(), nil))(t)
	p.Changes = append(p.Changes, p.Changes[0])
	p.Digest = p.digest()
	text, err := json.Marshal(p)
	must.Do(t, err)
	if _, err := Decode(bytes.NewReader(text)); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "changed twice") {
		t.Errorf("a change twice: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f))
	f.Add(`{"schema":"mpps.plan/1","changes":[{"address":"sysctl:a","to":{"state":"known","value":"1"}}]}`)
	f.Add(`{"schema":"mpps.plan/1","goal":{"consent":["data"]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		must.Do(t, Encode(&again, p))
		second, err := Decode(&again)
		must.Hold(t, err == nil && second.Digest == p.Digest, "a plan that was read cannot be read again: %v", err)
	})
}
