package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/tuned/export"
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

// TunedExport draws what became of a goal as a profile of TuneD. Where it was written to no directory the files are shown.
func TunedExport(t *Text, p *export.Profile, verbose bool) {
	if p.Written == "" {
		for _, f := range p.Files {
			t.Line("%s", t.In(Bold, p.Name+"/"+f.Name))
			for line := range strings.Lines(f.Text) {
				t.Line("%s", strings.TrimRight(line, "\n"))
			}
			t.Blank()
		}
	}
	t.Wrapped("", fmt.Sprintf("profile %s includes %s: %s here, %s held by that, %s that TuneD cannot hold", t.In(Bold, p.Name), p.Base,
		count(len(p.Held), "value"), count(len(p.ByBase), "value"), count(len(p.NotHeld), "value")))
	if p.Written == "" && !verbose {
		return // the files say which
	}
	held := func(title string, all []export.Held) {
		if len(all) == 0 || !verbose {
			return
		}
		t.Heading(title)
		for _, h := range all {
			text := h.Address.String() + " = " + h.Value
			if h.Instead != "" {
				text += " (" + p.Base + " gives " + h.Instead + ")"
			}
			t.Wrapped("  "+t.In(Bold, h.ID)+"  ", text)
		}
	}
	held("in the profile", p.Held)
	held("held by "+p.Base, p.ByBase)
	if len(p.NotHeld) > 0 {
		t.Heading("not held by TuneD")
	}
	last := ""
	for _, l := range p.NotHeld {
		t.Wrapped("  "+t.In(Bold, l.ID)+"  ", l.Address.String()+" = "+brief(l.Wanted))
		if l.Why+l.Command != last {
			t.Wrapped("    ", l.Why+": '"+l.Command+"'")
		}
		last = l.Why + l.Command
	}
	if p.Written != "" {
		t.Wrapped("", "wrote "+p.Written)
	}
}
