package machine

import (
	"context"
	"fmt"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// listed counts how often it is asked.
type listed struct {
	setting.Mechanism
	asked int
}

func (l *listed) ReadTogether(all []setting.Address) []setting.Reading {
	l.asked++
	readings := make([]setting.Reading, len(all))
	for i, a := range all {
		readings[i] = setting.Value(a.Path)
	}
	return readings
}

// TestReadTogether: a mechanism that can only list everything is asked once, however many values there are.
func TestReadTogether(t *testing.T) {
	t.Parallel()
	one, other := &listed{}, &listed{}
	h := &facts.Host{Readings: facts.Readings{}}
	var all []setting.Address
	for i := range 1000 {
		all = append(all, setting.Of(setting.RootQdisc, fmt.Sprintf("tap%d", i)), setting.Of(setting.VFAttr, fmt.Sprint(i)))
	}
	Read(context.Background(), setting.Mechanisms{setting.RootQdisc: one, setting.VFAttr: other}, h, all)
	must.Hold(t, one.asked == 1 && other.asked == 1 && len(h.Readings) == len(all),
		"asked %d and %d times for %d readings", one.asked, other.asked, len(h.Readings))
	for _, a := range all {
		if got := h.Readings.At(a); got.Value != a.Path {
			t.Fatalf("%s: %v", a, got)
		}
	}
}
