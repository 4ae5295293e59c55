package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/owned"
)

// Rows of both parts of benchCPU.
const (
	rowMpps = iota
	rowMpstat
	rowPerf
	rowTasks
	cpuRows
)

// benchCPU compares the CPU time of a trial as reported by mpps with other tools over the same seconds. mpstat adds up
// what the kernel sampled at its ticks, and perf takes its own samples from the same timers; both miss what happens
// while timers are late. The tasks' own times are exact but less than the total, because idle CPUs also handle packets
// in interrupts. ('perf stat -a' does not help: its cpu-clock and task-clock keep running on idle CPUs.)
func benchCPU(ctx context.Context, l *link, o options) ([]Part, error) {
	var parts []Part
	for _, kind := range []measure.Kind{measure.RR, measure.Stream} {
		share := Part{Title: "CPU time of a trial of " + string(kind) + ": part of the CPUs' time in which they worked",
			Unit: "%", Scale: 0.01, Rows: []Row{
				{Name: "mpps", Package: "this repository"},
				{Name: "mpstat", Package: "sysstat", Failed: missing("mpstat", "sysstat")},
				{Name: "perf record -e cpu-clock", Package: "linux-perf", Failed: missing("perf", "linux-perf")},
				{Name: "tasks, by the scheduler's clock", Package: "/proc"},
			}}
		for round := range o.rounds {
			busy, err := oneCPU(ctx, l, kind, o.each)
			if err != nil {
				return nil, err
			}
			for i := range share.Rows {
				if share.Rows[i].Failed == "" {
					share.Rows[i].Values = append(share.Rows[i].Values, busy[i])
				}
			}
			fmt.Fprintf(o.progress, "round %d of %d: CPU time of %s: mpps %.1f %%, mpstat %.1f %%, perf %.1f %%, "+
				"tasks %.1f %%\n", round+1, o.rounds, kind,
				100*busy[rowMpps], 100*busy[rowMpstat], 100*busy[rowPerf], 100*busy[rowTasks])
		}
		share.summarise()
		parts = append(parts, share)
	}
	return parts, nil
}

func missing(program, apt string) string {
	if _, err := lookPath(program); err != nil {
		return "not installed (apt install " + apt + ")"
	}
	return ""
}

// watched is a conversation with callbacks before and after.
type watched struct {
	measure.Exchange
	start, end func() error
}

func (w watched) Talk(ctx context.Context, load measure.Load) (measure.Sample, error) {
	if err := w.start(); err != nil {
		return measure.Sample{}, err
	}
	s, err := w.Exchange.Talk(ctx, load)
	return s, errors.Join(err, w.end())
}

// oneCPU runs one trial and returns the busy share of all CPUs for each row of benchCPU.
func oneCPU(ctx context.Context, l *link, kind measure.Kind, each time.Duration) (busy [cpuRows]float64, err error) {
	seconds := int(max(2, each.Seconds()+0.5))
	m, err := rig.OpenMachine("/")
	if err != nil {
		return busy, err
	}
	defer m.Close()
	talk, err := rig.TalkBetween(m, kind, l.near, l.far, false)
	if err != nil {
		return busy, err
	}
	defer talk.Close()
	dir, err := os.MkdirTemp("", "fieldbench")
	if err != nil {
		return busy, err
	}
	defer os.RemoveAll(dir)
	data, period := filepath.Join(dir, "perf.data"), strconv.Itoa(seconds)
	var mpstat strings.Builder
	var running []*exec.Cmd
	var tasks float64
	start := func() (err error) {
		for _, argv := range [][]string{
			{"mpstat", "-o", "JSON", period, "1"},
			{"perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "997", "-o", data, "--", "sleep", period},
		} {
			path, err := lookPath(argv[0])
			if err != nil {
				continue // its row says so
			}
			cmd := exec.CommandContext(ctx, path, argv[1:]...)
			if argv[0] == "mpstat" {
				cmd.Stdout = &mpstat
			}
			if err := owned.Start(cmd); err != nil {
				return err
			}
			running = append(running, cmd)
		}
		tasks, err = taskSeconds("/proc")
		return err
	}
	end := func() error {
		after, err := taskSeconds("/proc")
		tasks = after - tasks
		return err
	}
	run := &measure.Run{Kind: kind, Load: measure.Load{Connections: 1, Request: 1, Response: 1, Repeat: 1,
		Duration: time.Duration(seconds) * time.Second}}
	err = (&measure.Conversation{Exchange: watched{talk, start, end}}).Run(ctx, run)
	for _, cmd := range running {
		if failed := cmd.Wait(); failed != nil && err == nil {
			err = fmt.Errorf("%s: %w", filepath.Base(cmd.Path), failed)
		}
	}
	switch {
	case err != nil:
		return busy, err
	case len(run.Samples) != 1 || len(run.Samples[0].CPU) != 1:
		return busy, fmt.Errorf("found %d trials, expected one with the CPU times of one machine", len(run.Samples))
	}
	cpus := run.Samples[0].CPU[0]
	busy[rowMpps] = cpus.Busy() / cpus.Seconds / float64(len(cpus.CPUs))
	busy[rowTasks] = tasks / cpus.Seconds / float64(len(cpus.CPUs))
	if missing("mpstat", "") == "" {
		if busy[rowMpstat], err = parseMpstat([]byte(mpstat.String())); err != nil {
			return busy, err
		}
	}
	if missing("perf", "") == "" {
		cmd := exec.CommandContext(ctx, "perf", "script", "-i", data, "-F", "ip,sym")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := owned.Run(cmd); err != nil {
			return busy, fmt.Errorf("perf script: %w", err)
		}
		busy[rowPerf] = busySamples(out.Bytes())
	}
	return busy, nil
}

func parseMpstat(out []byte) (busy float64, err error) {
	var answer struct {
		Sysstat struct {
			Hosts []struct {
				Statistics []struct {
					Load []struct {
						CPU                 string
						Idle, Iowait, Steal float64
					} `json:"cpu-load"`
				} `json:"statistics"`
			} `json:"hosts"`
		} `json:"sysstat"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return 0, fmt.Errorf("mpstat: %w", err)
	}
	for _, h := range answer.Sysstat.Hosts {
		for _, s := range h.Statistics {
			for _, c := range s.Load {
				if c.CPU == "all" {
					return 1 - (c.Idle+c.Iowait+c.Steal)/100, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("mpstat: found no line of all CPUs in %d bytes", len(out))
}

// taskSeconds returns the CPU time of all processes in seconds. User plus system time equals the scheduler's clock
// (cputime_adjust in kernel/sched/cputime.c), to 10 ms per process.
func taskSeconds(proc string) (sum float64, err error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // ended in the meantime
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may contain anything
		if len(fields) < 13 {
			return 0, fmt.Errorf("%s: found %d fields behind the name, expected 50", file, len(fields))
		}
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			sum += float64(ticks) / 100
		}
	}
	return sum, nil
}

// idleSymbol matches the functions in which an idle CPU waits (drivers/idle, kernel/sched/idle.c,
// arch/x86/kernel/process.c).
var idleSymbol = regexp.MustCompile(`safe_halt|default_idle|poll_idle|intel_idle|mwait_idle|acpi_idle|cpuidle_enter`)

// busySamples returns the share of perf's samples that were not taken on an idle CPU.
func busySamples(script []byte) float64 {
	var all, idle float64
	for line := range strings.Lines(string(script)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		all++
		if idleSymbol.MatchString(line) {
			idle++
		}
	}
	if all == 0 {
		return 0
	}
	return 1 - idle/all
}
