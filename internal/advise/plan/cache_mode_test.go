package plan

import (
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestCacheModeGoesWithTheMode: where a guest keeps a named CPU model, its cache mode is not planned.
func TestCacheModeGoesWithTheMode(t *testing.T) {
	mode, cache := setting.Of(setting.Domain, "vm1", "cpu/mode"), setting.Of(setting.Domain, "vm1", "cpu/cache.mode")
	for _, c := range []struct {
		now     string
		changed []setting.Address
		left    int
	}{
		{"custom model=Skylake-Server", []setting.Address{mode, cache}, 2},
		{"custom model=Skylake-Server", []setting.Address{cache}, 0},
		{"host-passthrough", []setting.Address{cache}, 1},
	} {
		p := &Plan{Changes: facts.Map(c.changed, func(a setting.Address) Change { return Change{Address: a} })}
		p.dropCacheModes(&facts.Host{Readings: facts.Readings{mode: setting.Value(c.now)}})
		if len(p.Changes) != c.left || len(p.Skipped) != len(c.changed)-c.left ||
			slices.ContainsFunc(p.Skipped, func(s Skipped) bool { return s.Address != cache }) {
			t.Errorf("%s, %v changed: left %v, skipped %v", c.now, c.changed, p.Changes, p.Skipped)
		}
	}
}
