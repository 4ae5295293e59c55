package facts

import (
	"bytes"
	"testing"
	"time"

	"mpps/internal/must"
)

func loaded() *Host {
	return &Host{
		Name: "blue", Taken: time.Unix(1e9, 0).UTC(), Readings: Readings{},
		Guests: []Guest{{Name: "db", State: "running"}, {Name: "web", State: "running"}},
		Load: &Load{
			Seconds: 2, Method: ByCounters,
			CPUs: []CPULoad{{CPU: 0, Softirq: 0.2, Idle: 0.8}},
			Devices: []DeviceLoad{{Name: "eth0", Kind: "nic"}, {Name: "vnet0", Kind: "tap", Guest: "db"},
				{Name: "vnet1", Kind: "tap", Guest: "web"}},
			Threads: []ThreadLoad{{TID: 1, Comm: "vhost-1", Role: "vhost", Guest: "db"},
				{TID: 2, Comm: "vhost-2", Role: "vhost", Guest: "web"}},
			Guests: []GuestLoad{{Name: "db"}, {Name: "web"}},
		},
	}
}

func TestLoadInSnapshot(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	must.Do(t, Write(&text, Scrub(loaded()), "0"))
	must.Lack(t, text.String(), `"db"`, `"web"`, "blue")
	h := must.Get(ReadSnapshot(&text))(t)
	must.Hold(t, h.Load != nil && h.Load.Seconds == 2 && len(h.Load.Devices) == 3 &&
		h.Load.Devices[1].Guest == h.Guests[0].Name && h.Load.Threads[1].Guest == h.Guests[1].Name,
		"read back: %+v", h.Load)
	a, b := loaded(), loaded()
	b.Load.Seconds, b.Load.Devices = 3, nil
	if d := Diff(a, b); len(d) > 0 || digest(a) != digest(b) {
		t.Errorf("a load is no configuration: %v", d)
	}
}

func TestLoadRefused(t *testing.T) {
	t.Parallel()
	for what, broken := range map[string]func(*Load){
		"no time":       func(l *Load) { l.Seconds = 0 },
		"CPU −1":        func(l *Load) { l.CPUs[0].CPU = -1 },
		"negative time": func(l *Load) { l.CPUs[0].Idle = -0.5 },
		"endless time":  func(l *Load) { l.Threads[0].Ran = 1e9 },
	} {
		h := loaded()
		broken(h.Load)
		var text bytes.Buffer
		must.Do(t, Write(&text, h, "0"))
		must.Fail(ReadSnapshot(&text))(t, "%s: expected an error", what)
	}
}

func TestLoadOf(t *testing.T) {
	t.Parallel()
	l := loaded().Load.ForGuest("db")
	must.Hold(t, len(l.Devices) == 2 && len(l.Guests) == 1 && l.Threads[0].Guest == "db" &&
		l.Threads[1].Role == "other" && l.Threads[1].Guest == "", "%+v", l)
}
