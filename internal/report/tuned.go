package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/tuned/export"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// realtimeKeys are the kernel parameters of TuneD's realtime profiles that are worth a word.
var realtimeKeys = []string{
	"kernel/sched_rt_runtime_us", "kernel/numa_balancing", "kernel/timer_migration", "vm/stat_interval",
	"kernel/nmi_watchdog",
}

// drawTunedProfile draws the profile of TuneD that is in force and what it brought that concerns realtime.
func drawTunedProfile(t *Text, p *facts.Tuned) {
	if p == nil || p.Profile == "" {
		return
	}
	var keys []string
	for _, v := range p.Sysctls {
		if slices.Contains(realtimeKeys, v.Key) && v.Value != "" {
			keys = append(keys, strings.ReplaceAll(v.Key, "/", ".")+"="+v.Value)
		}
	}
	cores, more := p.Variables["isolated_cores"], len(p.Sysctls)+len(p.Options)-len(keys)
	t.Wrap(t.In(Bold, "TuneD: "), words.Join(" · ", "profile "+p.Profile+words.If(!p.Running, " (TuneD does not run)"),
		words.If(cores != "", "isolated cores %s", cores), words.If(p.Arguments != "", "kernel arguments %s",
			p.Arguments), strings.Join(keys, " "), words.If(more > 0, "%s more", words.Count(more, "option"))))
	t.Each(t.In(Yellow, "TuneD: "), words.Each(p.Missing, func(name string) string {
		return name + " is named by the profile and is not there"
	}))
}

// TunedExport draws what became of a goal as a profile of TuneD. Where it was written to no directory the files are
// shown.
func TunedExport(t *Text, p *export.Profile, verbose bool) {
	if p.Written == "" {
		for _, f := range p.Files {
			t.Heading(p.Name + "/" + f.Name)
			paste(t, "", []string{f.Text})
			t.Blank()
		}
	}
	t.Wrap("", fmt.Sprintf("profile %s includes %s: %s here, %s held by that, %s that TuneD cannot hold",
		t.In(Bold, p.Name), p.Base, words.Count(len(p.Held), "value"), words.Count(len(p.ByBase), "value"),
		words.Count(len(p.NotHeld), "value")))
	if p.Written == "" && !verbose {
		return // the files say which
	}
	list := func(title string, all []export.Held) {
		if len(all) == 0 || !verbose {
			return
		}
		t.Heading(title)
		for _, h := range all {
			instead := words.If(h.Instead != "", " (%s gives %s)", p.Base, h.Instead)
			t.Wrap("  "+t.In(Bold, h.ID)+"  ", h.Address.String()+" = "+h.Value+instead)
		}
	}
	list("in the profile", p.Held)
	list("held by "+p.Base, p.ByBase)
	t.LineIf(len(p.NotHeld) > 0, "%s", t.In(Bold, "not held by TuneD"))
	last := ""
	for _, l := range p.NotHeld {
		t.Wrap("  "+t.In(Bold, l.ID)+"  ", l.Address.String()+" = "+brief(l.Wanted))
		if l.Why+l.Command != last {
			t.Wrap("    ", l.Why+": '"+l.Command+"'")
		}
		last = l.Why + l.Command
	}
	t.WrapIf(p.Written != "", "", "wrote %s", p.Written)
}
