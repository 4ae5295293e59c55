package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// Conditions reads what spoils measurements: how busy the CPUs are during idle, in which nothing of ours may run, their
// governors, how often they were throttled for heat, and the clock source.
func (m *Machine) Conditions(ctx context.Context, idle time.Duration) (measure.Conditions, error) {
	var c measure.Conditions
	before, err := m.cpuTimes(ctx)
	if err != nil {
		return c, fmt.Errorf("read CPU times: %w", err)
	}
	if err := measure.Pause(ctx, idle); err != nil {
		return c, err
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
	// Without the file the clock source is unknown.
	c.Clocksource, err = m.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c, err
}

// governors counts the CPUs by frequency governor.
func (m *Machine) governors() (map[string]int, error) {
	files, err := fs.Glob(m.tree.Root.FS(), "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if err != nil {
		return nil, err
	}
	governors := map[string]int{}
	for _, file := range files {
		if governor, err := m.read(file); err == nil { // a CPU that just went offline has none
			governors[governor]++
		}
	}
	return governors, nil
}

// throttled sums up how often CPUs and packages were throttled (drivers/thermal/intel/therm_throt.c); nil if nothing
// counts it. Each CPU repeats its package's count, so the sum means nothing, only its growth.
func (m *Machine) throttled() (*uint64, error) {
	files, err := fs.Glob(m.tree.Root.FS(), "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var sum uint64
	for _, file := range files {
		text, err := m.read(file)
		if err != nil {
			continue // a CPU that just went offline has none
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: found %q, expected a count", file, text)
		}
		sum += n
	}
	return &sum, nil
}

// lineRate returns how many frames of a load per second fill the link of a NIC, from the speed that its driver reports
// in Mbit/s. It returns false if there is no wire (the 10 Gbit/s of a veth are fictitious) or the speed is unknown.
func (m *Machine) lineRate(d traffic.Device, load measure.Load) (float64, bool) {
	if d.Netns != "" || d.Kind != "device" {
		return 0, false
	}
	text, err := m.sysfs(d.Iface, "speed")
	if err != nil {
		return 0, false
	}
	speed, err := strconv.ParseInt(text, 10, 32)
	if err != nil || speed <= 0 { // −1: unknown
		return 0, false
	}
	return float64(speed) * 1e6 / 8 / (frameOf(load).MeanSize() + measure.WireOverhead), true
}

// warnLineRate warns of a rate that no generator could reach.
func (p *Path) warnLineRate(d traffic.Device, load measure.Load) {
	if load.Rate == 0 || len(p.machines) == 0 {
		return
	}
	near, here := p.machines[0].(*Machine)
	if !here {
		return
	}
	if most, known := near.lineRate(d, load); known && load.Rate > most {
		p.Warnings = append(p.Warnings, measure.Warning{
			Code: "above-line-rate",
			Text: fmt.Sprintf("%.4g packets a second were asked for, and such frames fill the link of %s at %.4g",
				load.Rate, d.Endpoint, most),
			Hint: "use a lower --rate, or smaller frames",
		})
	}
}
