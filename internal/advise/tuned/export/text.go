package export

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// exemptQEMU adds QEMU and vhost threads to the ps_blacklist of a realtime profile. When the profile is activated, and
// whenever TuneD starts, it moves every process off the isolated cores unless it is on that list, and the list of the
// included profile only has the name of QEMU on RHEL.
func (b *builder) exemptQEMU() {
	if b.profile.Base != realtimeBase {
		return
	}
	list := ""
	for _, o := range b.base.Options {
		if o.Key == "scheduler.ps_blacklist" {
			list = o.Value
		}
	}
	for _, name := range []string{"^qemu-system", "^vhost-"} {
		if !slices.Contains(strings.Split(list, ";"), name) {
			list += ";" + name
		}
	}
	b.section("scheduler").add("QEMU and its vhost threads stay where they are pinned (the list of "+b.profile.Base+
		", and these)", "ps_blacklist", strings.TrimPrefix(list, ";"))
}

// order is the order of the sections; others come last.
var order = []string{"bootloader", "sysctl", "sysfs", "vm", "cpu", "scheduler", "modules", "service"}

// text returns tuned.conf.
func (b *builder) text() string {
	p := b.profile
	var t strings.Builder
	comment := func(format string, args ...any) {
		text := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) { // it would begin another line
				return ' '
			}
			return r
		}, fmt.Sprintf(format, args...))
		fmt.Fprintln(&t, strings.TrimRight("# "+text, " "))
	}
	comment("Written by mpps %s for host %s: what TuneD can hold of", b.Version, cmp.Or(b.Host.Name, "?"))
	comment("  mpps plan %s", b.Flags)
	comment("It extends %s, and says only what that does not.", p.Base)
	if len(p.ByBase) > 0 {
		comment("")
		comment("Held by %s:", p.Base)
		eachGroup(p.ByBase, func(h Held) string { return h.ID + h.Value }, func(h Held, more int) {
			comment("  %s  %s = %s%s", h.ID, h.Address, h.Value, andMore(more))
		})
	}
	if len(p.NotHeld) > 0 {
		comment("")
		comment("TuneD cannot hold (the command sets it, and makes it last):")
		eachGroup(p.NotHeld, func(l Left) string { return l.ID + l.Why }, func(l Left, more int) {
			comment("  %s  %s = %s%s", l.ID, l.Address, oneLine(l.Wanted), andMore(more))
			comment("    %s", l.Why)
			comment("    %s", l.Command)
		})
	}
	fmt.Fprintf(&t, "\n[main]\nsummary=%s, from mpps\ninclude=%s\n", summary(b.Flags), p.Base)
	if s := variablesSection(b.vars); s != "" {
		t.WriteString("\n" + s)
	}
	slices.SortStableFunc(b.sections, func(x, y *section) int { return rank(x.name) - rank(y.name) })
	for _, s := range b.sections {
		if len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&t, "\n[%s]\n", s.name)
		for _, head := range s.head {
			t.WriteString(head + "\n")
		}
		for _, l := range s.lines {
			fmt.Fprintf(&t, "# %s\n%s=%s\n", oneLine(l.comment), l.key, l.value)
		}
	}
	return t.String()
}

func rank(name string) int {
	if at := slices.Index(order, name); at >= 0 {
		return at
	}
	return len(order)
}

// summary returns the line for TuneD's list of profiles.
func summary(flags string) string {
	return "KVM host for " + oneLine(strings.ReplaceAll(strings.TrimPrefix(flags, "--"), "#", ""))
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return text
}

// eachGroup calls do with the first element of each group and the number of further ones.
func eachGroup[T any](all []T, key func(T) string, do func(first T, more int)) {
	n := map[string]int{}
	for _, one := range all {
		n[key(one)]++
	}
	for _, one := range all {
		if count := n[key(one)]; count > 0 {
			do(one, count-1)
			n[key(one)] = 0
		}
	}
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more like it)", n)
}
