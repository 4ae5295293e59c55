package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
)

// realtimeKeys are the kernel parameters of TuneD's realtime profiles that are worth a word.
var realtimeKeys = []string{"kernel/sched_rt_runtime_us", "kernel/numa_balancing", "kernel/timer_migration", "vm/stat_interval", "kernel/nmi_watchdog"}

// tunedProfile draws the profile of TuneD that is in force and what it brought that concerns realtime.
func tunedProfile(t *Text, p *facts.Tuned) {
	if p == nil || p.Profile == "" {
		return
	}
	words := []string{"profile " + p.Profile}
	if !p.Running {
		words[0] += " (TuneD does not run)"
	}
	if cores := p.Variables["isolated_cores"]; cores != "" {
		words = append(words, "isolated cores "+cores)
	}
	if p.Arguments != "" {
		words = append(words, "kernel arguments "+p.Arguments)
	}
	var keys []string
	for _, v := range p.Sysctls {
		if slices.Contains(realtimeKeys, v.Key) && v.Value != "" {
			keys = append(keys, strings.ReplaceAll(v.Key, "/", ".")+"="+v.Value)
		}
	}
	if len(keys) > 0 {
		words = append(words, strings.Join(keys, " "))
	}
	if n := len(p.Sysctls) + len(p.Options) - len(keys); n > 0 {
		words = append(words, fmt.Sprintf("%s more", count(n, "option")))
	}
	t.Wrapped(t.In(Bold, "TuneD: "), strings.Join(words, " · "))
	for _, name := range p.Missing {
		t.Wrapped(t.In(Yellow, "TuneD: "), name+" is named by the profile and is not there")
	}
}
