package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mpps/internal/measure/wakeloop"
	"mpps/internal/measure/wakeup"
	"mpps/internal/outcome"
	"mpps/internal/setting"
)

// runLoop measures one slice and prints it as JSON: what is started where the measurement is, which may be a guest.
func (a *app) runLoop(ctx context.Context, cpu string, length, interval time.Duration, priority int) error {
	cpus, err := setting.ParseCPUs(cpu)
	if err != nil || len(cpus) == 0 {
		return usage(fmt.Errorf("--cpu %q: expected CPUs such as 1 or 2-3", cpu), "")
	}
	threads, err := wakeloop.Measure(ctx, wakeloop.Options{CPUs: cpus, Interval: interval, For: length, Priority: priority, Keep: 256})
	if err != nil {
		return outcome.Failed(err, "--cpu takes CPUs that are online")
	}
	return json.NewEncoder(a.stdout).Encode(wakeup.Own{Schema: wakeup.OwnSchema, Version: version, Threads: threads})
}

// runLoad keeps CPUs busy.
func (a *app) runLoad(ctx context.Context, cpu string, length time.Duration) error {
	cpus, err := setting.ParseCPUs(cpu)
	if err != nil || len(cpus) == 0 {
		return usage(fmt.Errorf("--cpu %q: expected CPUs such as 1 or 2-3", cpu), "")
	}
	if length <= 0 || length > maxRuns*maxLength {
		return usage(errors.New("--for: expected a time"), "")
	}
	return wakeloop.Load(ctx, cpus, length)
}
