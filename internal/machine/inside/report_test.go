package inside_test

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/placement"
	"mpps/internal/advise/plan"
	"mpps/internal/machine/inside"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/report"
	"mpps/internal/report/seats"
	"mpps/test/gallery"
)

// insideHost is a host of the gallery with a guest that runs.
func insideHost(f *testing.F) *facts.Host {
	f.Helper()
	all := must.Get(gallery.Read(os.DirFS("../../../test/gallery")))(f)
	i := slices.IndexFunc(all, func(s *gallery.Spec) bool { return s.Name == "recorded-i5-i350" })
	m := must.Get(all[i].Machine())(f)
	return m.Host
}

// FuzzGuestToReport takes what a guest reports of its files and values the whole way: its tree, the audit of its host,
// the plan and the placement, as text and as a page. The text must not steer a terminal.
func FuzzGuestToReport(f *testing.F) {
	host := insideHost(f)
	f.Add("lrwxrwxrwx 1 0 0 0 Nov 21 03:56 /sys/class/net/eth0 -> ../../devices/pci0000:00/virtio0/net/eth0\n",
		"/sys/class/net/eth0/mtu:1500\n/sys/class/net/eth0/queues/rx-0/rps_cpus:1\n", "/proc/irq/9/acpi\n",
		"/sys/devices/system/cpu/online:0-1\n/proc/sys/kernel/osrelease:6.12.1\n/proc/cmdline:idle=poll quiet\n"+
			"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages:4\n/proc/meminfo:MemTotal: 2048 kB\n", "1")
	f.Add("", "", "", "/proc/sys/kernel/osrelease:\x1b[31mred\n/proc/cmdline:\x1b]0;title\a\n", "\x1b[2J")
	f.Fuzz(func(t *testing.T, links, files, dirs, more, value string) {
		inner, err := inside.Rebuild(t.Context(), links, files, dirs, more)
		if err != nil {
			return // refused: the host's view stands without it
		}
		h := *host
		h.Guests = slices.Clone(host.Guests)
		g := &h.Guests[0]
		g.Inside = &facts.Inside{Release: inner.Kernel.Release, Version: inner.Kernel.Version, OS: value, Host: inner}
		h.Readings = facts.Readings{}
		for _, a := range knob.Addresses(&h, knob.Catalogue()) {
			r, known := host.Readings[a]
			if !known && a.Kind == setting.Inside {
				if canonical, err := setting.Kinds[a.Kind].Canonical(value); err == nil {
					r, known = setting.Reading{State: setting.Known, Value: canonical}, true
				} else {
					r, known = setting.CouldNotTell(err.Error()), true
				}
			}
			if known {
				h.Readings[a] = r
			}
		}
		aim := goal.Goal{PPS: 1.8e6, Guest: g.Name}
		if len(value)%2 > 0 {
			aim = goal.Goal{Latency: 20 * time.Microsecond, Guest: g.Name}
		}
		show(t, &h, aim)
	})
}

// show judges and plans for a host, and draws what it can be shown as.
func show(t *testing.T, h *facts.Host, g goal.Goal) {
	t.Helper()
	found := audit.Run(h, g, knob.Catalogue())
	p := must.Get(plan.From(h, g, found, knob.Catalogue()))(t)
	placing := &seats.Placing{Host: h, Result: placement.Place(placement.From(h, g))}
	var text strings.Builder
	must.Do(t, report.NewPrinter(&text, io.Discard, report.Options{}).View(func(t *report.Text) {
		report.Inspect(t, h, true)
		report.Audit(t, found, true)
		report.Plan(t, p)
		seats.Text(t, placing)
	}))
	if i := strings.IndexFunc(text.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("a control character is shown: %q", text.String()[max(0, i-60):min(text.Len(), i+20)])
	}
	must.Succeed(t, seats.HTML(io.Discard, placing, "test", time.Unix(0, 0)), "the page")
}
