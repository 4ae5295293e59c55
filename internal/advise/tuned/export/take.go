package export

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/setting"
)

// section is one section of the profile.
type section struct {
	name  string
	head  []string // options for TuneD itself: type, devices
	lines []line
}

type line struct{ comment, key, value string }

func (s *section) add(comment, key, value string) {
	s.lines = append(s.lines, line{comment, key, value})
}

// cut removes the line of a key and returns it; false: there is none.
func (s *section) cut(key string) (line, bool) {
	at := slices.IndexFunc(s.lines, func(l line) bool { return l.key == key })
	if at < 0 {
		return line{}, false
	}
	l := s.lines[at]
	s.lines = slices.Delete(s.lines, at, at+1)
	return l, true
}

// appended returns the value of an option that has one word for each setting, with one word added to those it has.
func (s *section) appended(key, word string) string {
	if l, ok := s.cut(key); ok {
		return l.value + " " + word
	}
	return word
}

// add records the value of a finding: as set by this profile, by the included one, or not by TuneD.
func (b *builder) add(f audit.Finding) {
	if f.Check || f.Address.Kind == setting.Fact || f.Blocked != "" {
		return
	}
	value, ok := wantedValue(f)
	if !ok {
		b.removeArgument(f)
		return
	}
	if !literal(value) || !literal(f.Address.Path) {
		b.addNotHeld(f, "TuneD would expand it (${f:exec:…} is a command) or end its line there", "mpps apply "+b.Flags)
		return
	}
	if f.Address.Kind == setting.Service && f.State == audit.OK {
		return // to TuneD a service that is not installed is an error
	}
	set, does := tuned.Lookup(b.base, f.Address)
	held := Held{ID: f.ID, Address: f.Address, Value: value, Option: strings.Replace(set.Option, "/", ".", 1),
		Because: f.Why}
	if does && b.agrees(f, set, value) {
		if set.Value != "" {
			held.Value = set.Value
		}
		b.profile.ByBase = append(b.profile.ByBase, held)
		b.noteTwice(f)
		return
	}
	if f.State != audit.OK && !b.Report.Goal.Consents(f.Risk) {
		b.addNotHeld(f, "it needs consent: risk "+string(f.Risk), "mpps apply "+b.Flags+" --consent "+string(f.Risk))
		return
	}
	if does {
		held.Instead = set.Value
	}
	where, key, text, why := b.place(f, value)
	if why != "" {
		b.addNotHeld(f, why, "mpps apply "+b.Flags)
		return
	}
	held.Option = where.name + "." + key
	if f.Address.Kind == setting.KernelArg {
		b.addArgument(f, where, set, value)
		held.Option = where.name + ".cmdline_mpps"
	} else {
		where.add(f.ID, key, text)
	}
	b.profile.Held = append(b.profile.Held, held)
	b.noteTwice(f)
}

// literal reports whether TuneD takes a text for what it is: no variable or function begins in it, and no other line.
// Names and values come from a host, or from the snapshot of one.
func literal(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == '$' || unicode.IsControl(r) })
}

// agrees reports whether the included profile sets what is wanted. The realtime priority of a thread may be higher, and
// an interrupt only has to be off the isolated CPUs.
func (b *builder) agrees(f audit.Finding, set tuned.Set, value string) bool {
	switch {
	case set.Value == value, f.Want != nil && set.Value != "" && f.Want.Met(setting.Value(set.Value)):
		return true
	case f.Address.Kind == setting.IRQCPUs || f.Address.Kind == setting.IRQAffinity:
		to, err := setting.ParseCPUs(value)
		return set.Option == "scheduler.isolated_cores" && err == nil && to.Equal(b.Host.Topology.Online.Minus(b.cores))
	case f.Address.Kind == setting.ThreadSched:
		has, want := realtimePriority(set.Value), realtimePriority(value)
		return want > 0 && has >= want
	}
	return false
}

// realtimePriority returns the priority of "SCHED_FIFO 2" or "SCHED_RR 2", and 0 for other policies.
func realtimePriority(policy string) int {
	name, priority, _ := strings.Cut(policy, " ")
	n, err := strconv.Atoi(priority)
	if err != nil || name != "SCHED_FIFO" && name != "SCHED_RR" {
		return 0
	}
	return n
}

// removeArgument removes an unwanted kernel argument that the included profile adds.
func (b *builder) removeArgument(f audit.Finding) {
	if f.Address.Kind != setting.KernelArg || f.Want == nil || f.Want.Op != setting.Gone ||
		f.State == audit.NotApplicable {
		return
	}
	set, does := tuned.Lookup(b.base, f.Address)
	switch {
	case does:
		if words, err := setting.Words(f.Address.Path, set.Value); err == nil {
			b.section("bootloader").add(f.ID, "cmdline_mpps_less_"+optionName(f.Address.Path),
				"-"+strings.Join(words, " "))
			b.profile.Held = append(b.profile.Held, Held{ID: f.ID, Address: f.Address, Value: "absent",
				Option: "bootloader.cmdline_mpps_less", Instead: set.Value, Because: f.Why})
		}
	case f.State == audit.Off:
		b.addNotHeld(f, "TuneD adds kernel arguments and takes none out of the boot loader's own files", "mpps apply "+
			b.Flags)
	}
}

// addArgument adds a kernel argument and removes another value of it that the included profile adds.
func (b *builder) addArgument(f audit.Finding, where *section, set tuned.Set, value string) {
	words, err := setting.Words(f.Address.Path, value)
	if err != nil {
		return
	}
	if set.Value != "" {
		if old, err := setting.Words(f.Address.Path, set.Value); err == nil {
			where.add(f.ID+": the included profile gives another", "cmdline_mpps_less_"+optionName(f.Address.Path),
				"-"+strings.Join(old, " "))
		}
	}
	comment, value := f.ID, "+"+strings.Join(words, " ")
	if l, ok := where.cut("cmdline_mpps"); ok {
		comment, value = l.comment+", "+f.ID, l.value+" "+strings.Join(words, " ")
	}
	where.add(comment, "cmdline_mpps", value)
}

// optionName returns a text with everything but ASCII letters and digits replaced by underscores.
func optionName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
}

// noteTwice lists a kernel argument that the boot loader's own files already have.
func (b *builder) noteTwice(f audit.Finding) {
	if f.Address.Kind != setting.KernelArg || f.Reading.State != setting.Known {
		return
	}
	if l := b.Host.Lasting; l != nil && l.Tuned != nil &&
		setting.ParseCommandLine(l.Tuned.BootArguments).Get(f.Address.Path).State == setting.Known {
		return
	}
	b.profile.Twice = append(b.profile.Twice, f.Address.Path)
}

func (b *builder) addNotHeld(f audit.Finding, why, command string) {
	value, _ := wantedValue(f)
	if f.Want != nil {
		value = f.Want.String()
	}
	b.profile.NotHeld = append(b.profile.NotHeld, Left{ID: f.ID, Address: f.Address, Wanted: value, Why: why,
		Command: command})
}

// section returns the section with a name. It creates it if needed.
func (b *builder) section(name string, head ...string) *section {
	at := slices.IndexFunc(b.sections, func(s *section) bool { return s.name == name })
	if at < 0 {
		at = len(b.sections)
		b.sections = append(b.sections, &section{name: name, head: head})
	}
	return b.sections[at]
}

// place returns the section and option for a value, or why TuneD cannot set it.
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
		s := b.section("modules") // its options take effect when the module is loaded
		return s, a.Object(), s.appended(a.Object(), a.Rest()+"="+value), ""
	case setting.Service:
		command := map[string]string{"stopped": "stop,disable", "running": "start,enable"}[value]
		return b.section("service"), "service." + a.Path, command, ""
	case setting.ThreadSched:
		return b.thread(a, value)
	case setting.NICRing, setting.NICChannels, setting.NICCoalesce, setting.NICFeature:
		s := b.device(a.Object())
		key = tuned.NetOptions[a.Kind]
		return s, key, s.appended(key, path.Base(a.Rest())+" "+value), ""
	}
	return nil, "", "", whyNot(a.Kind)
}

// whyNot returns why TuneD cannot set values of a kind.
func whyNot(k setting.Kind) string {
	switch k {
	case setting.Domain, setting.DomainLive, setting.DomainDevice:
		return "guests are libvirt's: no plugin of TuneD knows them"
	case setting.Inside, setting.GuestArg:
		return "it is inside a guest, which has its own TuneD"
	case setting.ThreadAffinity:
		return "its [scheduler] keeps threads off CPUs, and puts none onto one"
	case setting.IRQAffinity, setting.IRQCPUs:
		return "interrupts are renumbered with each driver start, and its [irq] knows numbers alone"
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

// sysctlKey returns the key of a sysctl in TuneD's notation: dots between elements, a slash for a dot inside one.
func sysctlKey(name string) string {
	return strings.NewReplacer("/", ".", ".", "/").Replace(setting.SysctlPath(name))
}

// sysfs is place for a file below /sys. A file that another plugin of TuneD writes is left to that plugin: two must not
// write the same file.
func (b *builder) sysfs(a setting.Address, value string) (where *section, key, text, why string) {
	switch file := a.Path; {
	case file == "kernel/mm/transparent_hugepage/enabled":
		return b.section("vm"), "transparent_hugepages", value, ""
	case file == "kernel/mm/transparent_hugepage/defrag":
		return b.section("vm"), "transparent_hugepage.defrag", value, ""
	case strings.HasSuffix(file, "/scaling_governor"):
		return b.single(b.section("cpu"), "governor", value)
	case tuned.TxQueueLength(file) != "":
		return b.device(tuned.TxQueueLength(file)), "txqueuelen", value, ""
	case value == "":
		return nil, "", "", whyNot(setting.TraceEvents)
	}
	return b.section("sysfs"), "/sys/" + a.Path, value, ""
}

// single is place for an option that applies to all devices: the first value counts, others cannot be set.
func (b *builder) single(s *section, key, value string) (where *section, k, text, why string) {
	at := slices.IndexFunc(s.lines, func(l line) bool { return l.key == key })
	if at >= 0 && s.lines[at].value != value {
		return nil, "", "", fmt.Sprintf("another of its kind has %s, and TuneD has one option for all",
			s.lines[at].value)
	}
	s.cut(key)
	return s, key, value, ""
}

// thread is place for the group of all kernel threads of one kind. The group has the name that the included profile
// uses, so that it replaces that one.
func (b *builder) thread(a setting.Address, value string) (where *section, key, text, why string) {
	kind := a.Object()
	priority := realtimePriority(value)
	if priority == 0 {
		return nil, "", "", "its groups give a realtime priority, not " + value
	}
	return b.single(b.section("scheduler"), "group."+kind, fmt.Sprintf(`0:f:%d:*:^\[%s`, priority, kind))
}

// device returns the section of one network device. Its priority puts it before the section for all devices, from which
// it takes the device.
func (b *builder) device(name string) *section {
	return b.section("net_"+optionName(name), "type=net", "devices="+name, "priority=-1")
}
