package watch

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// State is compared between looks: things that may change without being wrong.
type State struct {
	Arguments string // of the next boot; empty if unknown
	Kernel    string // of the next boot
	Daemons   map[string]bool
	Profile   string // TuneD's
	Guests    map[string]int
	known     bool // the boot loader's files could be read
}

// StateOf returns the state of a host.
func StateOf(h *facts.Host) State {
	s := State{Daemons: map[string]bool{}, Guests: map[string]int{}}
	if e, known := h.Boot.NextEntry(); known {
		s.known, s.Arguments, s.Kernel = true, e.Arguments, e.Version
	}
	for _, d := range h.Services {
		s.Daemons[d.Name] = d.Running
	}
	if h.Lasting != nil && h.Lasting.Tuned != nil {
		s.Profile = h.Lasting.Tuned.Profile
	}
	for _, g := range h.Guests {
		if g.Active() && g.PID != 0 {
			s.Guests[g.Name] = g.PID
		}
	}
	return s
}

// movers are daemons that move threads and interrupts, or change values.
var movers = []string{"irqbalance", "tuned", "numad", "ksmtuned"}

// changes compares a look with the previous one.
func (w *Watcher) changes(l Look) []Event {
	before, now := w.before, l.State
	if l.Saw[Services] {
		w.before = &now
	}
	if before == nil || !l.Saw[Services] {
		return nil
	}
	var all []Event
	add := func(code, object, from, to, hint string, severity knob.Severity) {
		all = append(all, l.changed(code, object, from, to, hint, severity))
	}
	if before.known && now.known {
		if gone, come := missingArguments(before.Arguments, now.Arguments),
			missingArguments(now.Arguments, before.Arguments); gone+come != "" {
			add("boot.arguments", "next boot", gone, come, "'mpps plan' says whether they are those that are "+
				"wanted; an update of the kernel or of the boot loader rewrites them", knob.Medium)
		}
		if before.Kernel != now.Kernel {
			add("boot.kernel", "next boot", before.Kernel, now.Kernel, "'mpps explain kernel.default' says how "+
				"another one is chosen", knob.Medium)
		}
	}
	if !now.known { // keep the last known values for the next comparison
		w.before.known, w.before.Arguments, w.before.Kernel = before.known, before.Arguments, before.Kernel
	}
	for _, name := range movers {
		switch was, is := before.Daemons[name], now.Daemons[name]; {
		case is && !was:
			add("service.started", name, "stopped", "running",
				fmt.Sprintf("it sets values that mpps sets too: 'systemctl disable --now %s', or 'mpps plan' names "+
					"what it sets otherwise", name), knob.Medium)
		case was && !is:
			add("service.stopped", name, "running", "stopped", "", knob.Info)
		}
	}
	if before.Profile != now.Profile {
		add("tuned.profile", "TuneD", before.Profile, now.Profile,
			"'mpps plan' names what the profile gives otherwise", knob.Medium)
	}
	for name, pid := range now.Guests {
		if was, ran := before.Guests[name]; was != pid {
			from := "off"
			if ran {
				from = fmt.Sprintf("process %d", was)
			}
			add("guest.started", name, from, fmt.Sprintf("process %d", pid), "", knob.Info)
		}
	}
	for name, was := range before.Guests {
		if _, runs := now.Guests[name]; !runs {
			add("guest.stopped", name, fmt.Sprintf("process %d", was), "off", "", knob.Info)
		}
	}
	return all
}

func (l *Look) changed(code, object, from, to, hint string, severity knob.Severity) Event {
	return Event{Schema: Schema, Time: l.At, Host: l.Host, Event: Changed, Code: code, Object: object, From: from,
		To: to, Hint: hint, Severity: severity}
}

// missingArguments returns the arguments of a command line that another one lacks.
func missingArguments(line, other string) string {
	rest := setting.ParseCommandLine(other)
	return strings.Join(slices.DeleteFunc(slices.Clone(setting.ParseCommandLine(line)),
		func(word string) bool { return slices.Contains(rest, word) }), " ")
}

// BootFindings reports a next boot without PREEMPT_RT on a host that runs it: the host would no longer be realtime. The
// kernel's name shows it: "6.12.48+deb13-rt-amd64", "5.14.0-427.rt14.el9", "6.4.0-10-rt".
func BootFindings(h *facts.Host) []Finding {
	e, known := h.Boot.NextEntry()
	if !h.Kernel.Realtime || !known || e.Version == "" || e.Version == h.Kernel.Release || realtimeName(e.Version) {
		return nil
	}
	return []Finding{{
		Source: Boots, Code: "boot.not_realtime", Object: "next boot", From: h.Kernel.Release, To: e.Version,
		Severity: knob.High,
		Hint: "the next boot has a kernel without PREEMPT_RT: choose the other one (grub-set-default, grubby " +
			"--set-default), 'mpps explain kernel.default'",
	}}
}

func realtimeName(version string) bool {
	separator := func(r rune) bool { return strings.ContainsRune("-.+_", r) }
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(version), separator), func(part string) bool {
		return part == "realtime" || part == "rt" || strings.HasPrefix(part, "rt") &&
			strings.Trim(part[2:], "0123456789") == ""
	})
}
