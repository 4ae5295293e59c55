package facts

import "math"

// check refuses impossible values.
func (l *Load) check() error {
	if l == nil {
		return nil
	}
	if !(l.Seconds > 0 && l.Seconds <= 86400) {
		return invalid(remakeLoad, "a load of %g seconds: expected more than none and at most a day", l.Seconds)
	}
	share := func(what string, values ...float64) error {
		for _, v := range values {
			if math.IsNaN(v) || v < 0 || v > 1e6 {
				return invalid(remakeLoad, "%s: %g is no share of a time", clip([]byte(what), 60), v)
			}
		}
		return nil
	}
	for _, c := range l.CPUs {
		if c.CPU < 0 || c.CPU >= maxCPUs {
			return invalid(remakeLoad, "load of CPU %d: expected 0 to %d", c.CPU, maxCPUs-1)
		}
		if err := share("time of a CPU", c.User, c.System, c.Softirq, c.IRQ, c.Guest, c.Steal, c.Idle); err != nil {
			return err
		}
	}
	for _, t := range l.Threads {
		if err := share("thread "+t.Comm, t.Ran, t.Waited, t.Quota, t.Throttle, t.HaltPoll); err != nil {
			return err
		}
	}
	return nil
}

const remakeLoad = "make a new one with 'mpps diagnose -o FILE'"

// load replaces the names of guests in a load.
func (s *scrubber) load(c, was *Load) {
	if c == nil {
		return
	}
	rename(s, c.Devices, was.Devices, func(d *DeviceLoad) *string { return &d.Guest })
	rename(s, c.Threads, was.Threads, func(t *ThreadLoad) *string { return &t.Guest })
	rename(s, c.Guests, was.Guests, func(g *GuestLoad) *string { return &g.Name })
	for g := range Each(c.Guests) {
		g.Notes = nil
	}
}

// ForGuest returns the load from one guest's point of view: without the taps of other guests, and with their threads as
// unrelated CPU users.
func (l *Load) ForGuest(guest string) *Load {
	c := *l
	c.Devices, c.Threads, c.Guests = nil, nil, nil
	for _, d := range l.Devices {
		if d.Guest == "" || d.Guest == guest {
			c.Devices = append(c.Devices, d)
		}
	}
	for _, t := range l.Threads {
		if t.Guest != "" && t.Guest != guest {
			t.Role, t.Guest = "other", ""
		}
		c.Threads = append(c.Threads, t)
	}
	for _, g := range l.Guests {
		if g.Name == guest {
			c.Guests = append(c.Guests, g)
		}
	}
	return &c
}
