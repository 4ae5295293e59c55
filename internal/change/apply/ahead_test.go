package apply

import (
	"context"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// manyReads is a mechanism that reads many values in the time of one and counts how often it was asked.
type manyReads struct {
	values map[setting.Address]string
	asked  int
}

func (m *manyReads) Read(ctx context.Context, a setting.Address) setting.Reading {
	return m.ReadAll(ctx, []setting.Address{a})[0]
}

func (m *manyReads) ReadAll(_ context.Context, all []setting.Address) []setting.Reading {
	m.asked++
	readings := make([]setting.Reading, len(all))
	for i, a := range all {
		readings[i] = setting.Value(m.values[a])
	}
	return readings
}

func (m *manyReads) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	m.values[a] = to.Value
	return nil
}

// TestReadsAhead: the values of a guest are read in one go, those of another in another, and again after every write.
func TestReadsAhead(t *testing.T) {
	at := func(guest, name string) setting.Address {
		return setting.InGuest(guest, setting.Of(setting.Sysctl, name))
	}
	one, two, other := at("vm1", "kernel.a"), at("vm1", "kernel.b"), at("vm2", "kernel.a")
	m := &manyReads{values: map[setting.Address]string{one: "1", two: "2", other: "3"}}
	e := &Engine{Mechanisms: setting.Mechanisms{setting.Inside: m}}
	e.ahead.expect([]setting.Address{one, two, other})
	want := func(a setting.Address, value string, asked int) {
		t.Helper()
		if r := e.read(t.Context(), a); r.Value != value || m.asked != asked {
			t.Errorf("%s is %s after %d looks, expected %s after %d", a, r, m.asked, value, asked)
		}
	}
	want(one, "1", 1)
	m.values[two] = "changed by somebody a moment ago"
	want(two, "2", 1)
	must.Do(t, e.write(t.Context(), one, setting.Value("7")))
	want(one, "7", 2)
	want(two, m.values[two], 2)
	want(other, "3", 3)
	m.values[other] = "4"
	if r, is := e.readBack(t.Context(), other, func(r setting.Reading) bool { return r.Value == "4" }); !is {
		t.Errorf("a value that came about a moment later reads back as %s", r)
	}
}
