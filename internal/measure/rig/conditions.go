package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"mpps/internal/measure"
)

// Conditions looks at what spoils measurements: the CPUs over the time of idle, in which nothing of ours may run, their
// governors, how often they were throttled for heat, and the clock.
func (m *Machine) Conditions(ctx context.Context, idle time.Duration) (measure.Conditions, error) {
	var c measure.Conditions
	before, err := m.cpuTimes(ctx)
	if err != nil {
		return c, fmt.Errorf("read CPU times: %w", err)
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	after, err := m.cpuTimes(ctx)
	if err != nil {
		return c, fmt.Errorf("read CPU times: %w", err)
	}
	c.CPUs = len(after.CPU)
	if u := measure.Between(m.where(), before, after); u.Seconds > 0 {
		t := u.Total()
		c.BusyCPUs = t.Busy() / u.Seconds
		if all := t.Busy() + t.Idle + t.Steal; all > 0 {
			c.Steal = t.Steal / all
		}
	}
	if c.Governors, err = m.governors(); err != nil {
		return c, err
	}
	if c.Throttled, err = m.throttled(); err != nil {
		return c, err
	}
	// A machine without the file tells nothing of its clock.
	c.Clocksource, err = m.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c, err
}

// governors counts the CPUs by their frequency governor.
func (m *Machine) governors() (map[string]int, error) {
	files, err := fs.Glob(m.root.FS(), "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if err != nil {
		return nil, err
	}
	governors := map[string]int{}
	for _, file := range files {
		if governor, err := m.read(file); err == nil { // a CPU that went offline meanwhile has none
			governors[governor]++
		}
	}
	return governors, nil
}

// throttled sums up how often CPUs and packages were slowed down (drivers/thermal/intel/therm_throt.c); nil where
// nothing counts it. A package's count stands at each of its CPUs, and is summed as often: only its growth says
// something.
func (m *Machine) throttled() (*uint64, error) {
	files, err := fs.Glob(m.root.FS(), "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var sum uint64
	for _, file := range files {
		text, err := m.read(file)
		if err != nil {
			continue // a CPU that went offline meanwhile has none
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: found %q, expected a count", file, text)
		}
		sum += n
	}
	return &sum, nil
}
