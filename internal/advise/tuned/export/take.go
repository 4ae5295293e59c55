package export

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/setting"
)

// section is one section of the profile.
type section struct {
	name  string
	head  []string // options of TuneD's own: type, devices
	lines []line
}

type line struct{ comment, key, value string }

// take puts the value of a finding where it belongs: into this profile, to what the included one holds, or to what
// TuneD cannot hold.
func (b *builder) take(f audit.Finding) {
	if f.Check || f.Address.Kind == setting.Fact || f.Blocked != "" {
		return
	}
	value, is := wanted(f)
	if !is {
		b.gone(f)
		return
	}
	if f.Address.Kind == setting.Service && f.State == audit.OK {
		return // TuneD calls a service that is not installed an error
	}
	set, does := tuned.Of(b.base, f.Address)
	held := Held{ID: f.ID, Address: f.Address, Value: value, Option: strings.Replace(set.Option, "/", ".", 1),
		Because: f.Why}
	if does && b.agrees(f, set, value) {
		if set.Value != "" {
			held.Value = set.Value
		}
		b.profile.ByBase = append(b.profile.ByBase, held)
		b.boots(f)
		return
	}
	if f.State != audit.OK && !b.Report.Goal.Consents(f.Risk) {
		b.left(f, "it needs consent: risk "+string(f.Risk), "mpps apply "+b.Flags+" --consent "+string(f.Risk))
		return
	}
	if does {
		held.Instead = set.Value
	}
	where, key, text, why := b.place(f, value)
	if why != "" {
		b.left(f, why, "mpps apply "+b.Flags)
		return
	}
	held.Option = where.name + "." + key
	if f.Address.Kind == setting.KernelArg {
		b.argument(f, where, set, value)
		held.Option = where.name + ".cmdline_mpps"
	} else {
		where.lines = append(where.lines, line{f.ID, key, text})
	}
	b.profile.Held = append(b.profile.Held, held)
	b.boots(f)
}

// agrees reports whether the included profile gives what is wanted. A thread's realtime priority may be higher, and an
// interrupt is where it is to be when it is off the isolated CPUs.
func (b *builder) agrees(f audit.Finding, set tuned.Set, value string) bool {
	switch {
	case set.Value == value, f.Want != nil && set.Value != "" && f.Want.Met(setting.Value(set.Value)):
		return true
	case f.Address.Kind == setting.IRQCPUs || f.Address.Kind == setting.IRQAffinity:
		to, err := setting.ParseCPUs(value)
		return set.Option == "scheduler.isolated_cores" && err == nil && to.Equal(b.Host.Topology.Online.Minus(b.cores))
	case f.Address.Kind == setting.ThreadSched:
		has, want := realtime(set.Value), realtime(value)
		return want > 0 && has >= want
	}
	return false
}

func realtime(policy string) int {
	name, priority, _ := strings.Cut(policy, " ")
	n, err := strconv.Atoi(priority)
	if err != nil || name != "SCHED_FIFO" && name != "SCHED_RR" {
		return 0
	}
	return n
}

// gone takes a kernel argument out that is to be absent and that the included profile adds.
func (b *builder) gone(f audit.Finding) {
	if f.Address.Kind != setting.KernelArg || f.Want == nil || f.Want.Op != setting.Gone ||
		f.State == audit.NotApplicable {
		return
	}
	set, does := tuned.Of(b.base, f.Address)
	switch {
	case does:
		if words, err := setting.Words(f.Address.Path, set.Value); err == nil {
			b.section("bootloader").lines = append(b.section("bootloader").lines,
				line{f.ID, "cmdline_mpps_less_" + optionName(f.Address.Path), "-" + strings.Join(words, " ")})
			b.profile.Held = append(b.profile.Held, Held{ID: f.ID, Address: f.Address, Value: "absent",
				Option: "bootloader.cmdline_mpps_less", Instead: set.Value, Because: f.Why})
		}
	case f.State == audit.Off:
		b.left(f, "TuneD adds kernel arguments and takes none out of the boot loader's own files", "mpps apply "+
			b.Flags)
	}
}

// argument adds a kernel argument, and takes out the one that the included profile gives otherwise.
func (b *builder) argument(f audit.Finding, where *section, set tuned.Set, value string) {
	words, err := setting.Words(f.Address.Path, value)
	if err != nil {
		return
	}
	if set.Value != "" {
		if old, err := setting.Words(f.Address.Path, set.Value); err == nil {
			where.lines = append(where.lines, line{f.ID + ": the included profile gives another", "cmdline_mpps_less_" +
				optionName(f.Address.Path), "-" + strings.Join(old, " ")})
		}
	}
	at := slices.IndexFunc(where.lines, func(l line) bool { return l.key == "cmdline_mpps" })
	if at < 0 {
		where.lines = append(where.lines, line{f.ID, "cmdline_mpps", "+" + strings.Join(words, " ")})
		return
	}
	l := where.lines[at]
	where.lines = append(slices.Delete(where.lines, at, at+1), line{l.comment + ", " + f.ID, l.key, l.value + " " +
		strings.Join(words, " ")})
}

func optionName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
}

// boots notes an argument that the boot loader's own files give already.
func (b *builder) boots(f audit.Finding) {
	if f.Address.Kind != setting.KernelArg || f.Reading.State != setting.Known {
		return
	}
	if l := b.Host.Lasting; l != nil && l.Tuned != nil &&
		setting.ParseCommandLine(l.Tuned.BootArguments).Get(f.Address.Path).State == setting.Known {
		return
	}
	b.profile.Twice = append(b.profile.Twice, f.Address.Path)
}

func (b *builder) left(f audit.Finding, why, command string) {
	value, _ := wanted(f)
	if f.Want != nil {
		value = f.Want.String()
	}
	b.profile.NotHeld = append(b.profile.NotHeld, Left{ID: f.ID, Address: f.Address, Wanted: value, Why: why,
		Command: command})
}

// section is the section of a name, made where it is not there.
func (b *builder) section(name string, head ...string) *section {
	at := slices.IndexFunc(b.sections, func(s *section) bool { return s.name == name })
	if at < 0 {
		at = len(b.sections)
		b.sections = append(b.sections, &section{name: name, head: head})
	}
	return b.sections[at]
}

// place is where a value goes in a profile, or why TuneD cannot hold it.
func (b *builder) place(f audit.Finding, value string) (where *section, key, text, why string) {
	a := f.Address
	switch a.Kind {
	case setting.Sysctl:
		return b.section("sysctl"), sysctlKey(a.Path), value, ""
	case setting.Sysfs:
		return b.sysfs(a, value)
	case setting.SysfsCPUs:
		return b.section("sysfs"), "/sys/" + a.Path, "${f:cpulist2hex:" + value + "}", ""
	case setting.KSM:
		return b.section("sysfs"), "/sys/kernel/mm/ksm/" + a.Path, value, ""
	case setting.KernelArg:
		if _, err := setting.Words(a.Path, value); err != nil {
			return nil, "", "", err.Error()
		}
		return b.section("bootloader"), "cmdline_mpps", value, ""
	case setting.ModuleParam:
		if f.Reading.State == setting.Known && !f.Reading.ReadOnly {
			return b.section("sysfs"), "/sys/module/" + a.Object() + "/parameters/" + a.Rest(), value, ""
		}
		return b.module(a, value)
	case setting.Service:
		command := map[string]string{"stopped": "stop,disable", "running": "start,enable"}[value]
		return b.section("service"), "service." + a.Path, command, ""
	case setting.ThreadSched:
		return b.thread(a, value)
	case setting.NICRing, setting.NICChannels, setting.NICCoalesce, setting.NICFeature:
		return b.nic(a, value)
	}
	return nil, "", "", cannot(a.Kind)
}

// cannot says why TuneD cannot hold values of a kind.
func cannot(k setting.Kind) string {
	switch k {
	case setting.Domain, setting.DomainLive, setting.DomainDevice:
		return "guests are libvirt's: no plugin of TuneD knows them"
	case setting.Inside:
		return "it is inside a guest, which has a TuneD of its own"
	case setting.ThreadAffinity:
		return "its [scheduler] keeps threads off CPUs, and puts none onto one"
	case setting.IRQAffinity, setting.IRQCPUs:
		return "interrupts are numbered anew with each driver start, and its [irq] knows numbers alone"
	case setting.Swap:
		return "no plugin of TuneD switches swap off"
	case setting.NetfilterRule, setting.RuleSet:
		return "no plugin of TuneD has netfilter rules"
	case setting.BootKernel:
		return "which kernel is booted is the boot loader's"
	case setting.TraceEvents:
		return "no plugin of TuneD empties a file"
	}
	return "no plugin of TuneD sets this: " + setting.Kinds[k].What
}

// sysctlKey is a key as TuneD reads it: dots between elements, a slash for a dot inside one.
func sysctlKey(name string) string {
	return strings.NewReplacer("/", ".", ".", "/").Replace(setting.SysctlPath(name))
}

// sysfs is a file below /sys, by the plugin whose it is where there is one: two plugins must not write one file.
func (b *builder) sysfs(a setting.Address, value string) (where *section, key, text, why string) {
	switch file := a.Path; {
	case file == "kernel/mm/transparent_hugepage/enabled":
		return b.section("vm"), "transparent_hugepages", value, ""
	case file == "kernel/mm/transparent_hugepage/defrag":
		return b.section("vm"), "transparent_hugepage.defrag", value, ""
	case strings.HasSuffix(file, "/scaling_governor"):
		return b.once(b.section("cpu"), "governor", value)
	case tuned.TxQueueLength(file) != "":
		return b.device(tuned.TxQueueLength(file)), "txqueuelen", value, ""
	case value == "":
		return nil, "", "", cannot(setting.TraceEvents)
	}
	return b.section("sysfs"), "/sys/" + a.Path, value, ""
}

// once is an option that holds for all devices: of several values of it the first counts.
func (b *builder) once(s *section, key, value string) (where *section, k, text, why string) {
	if at := slices.IndexFunc(s.lines, func(l line) bool { return l.key == key }); at >= 0 {
		if s.lines[at].value != value {
			return nil, "", "", fmt.Sprintf("another of its kind has %s, and TuneD has one option for all",
				s.lines[at].value)
		}
		s.lines = slices.Delete(s.lines, at, at+1)
	}
	return s, key, value, ""
}

// module is a parameter that counts when its module is loaded; those of one module are one option.
func (b *builder) module(a setting.Address, value string) (where *section, key, text, why string) {
	s := b.section("modules")
	text = a.Rest() + "=" + value
	if at := slices.IndexFunc(s.lines, func(l line) bool { return l.key == a.Object() }); at >= 0 {
		text = s.lines[at].value + " " + text
		s.lines = slices.Delete(s.lines, at, at+1)
	}
	return s, a.Object(), text, ""
}

// thread is a group of threads of one kind. The option has the name that the included profile has for it, so that one
// takes the other's place.
func (b *builder) thread(a setting.Address, value string) (where *section, key, text, why string) {
	kind := a.Object()
	priority := realtime(value)
	if priority == 0 {
		return nil, "", "", "its groups give a realtime priority, not " + value
	}
	return b.once(b.section("scheduler"), "group."+kind, fmt.Sprintf(`0:f:%d:*:^\[%s`, priority, kind))
}

// device is the section of one network device. It comes before the section for all, and takes the device from it.
func (b *builder) device(name string) *section {
	return b.section("net_"+optionName(name), "type=net", "devices="+name, "priority=-1")
}

func (b *builder) nic(a setting.Address, value string) (where *section, key, text, why string) {
	s := b.device(a.Object())
	key = map[setting.Kind]string{setting.NICRing: "ring", setting.NICChannels: "channels",
		setting.NICCoalesce: "coalesce", setting.NICFeature: "features"}[a.Kind]
	text = path.Base(a.Rest()) + " " + value
	if at := slices.IndexFunc(s.lines, func(l line) bool { return l.key == key }); at >= 0 {
		text = s.lines[at].value + " " + text
		s.lines = slices.Delete(s.lines, at, at+1)
	}
	return s, key, text, ""
}
