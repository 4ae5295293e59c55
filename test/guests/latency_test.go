//go:build lab

package guests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab/labtest"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestLatencyInAGuest measures wake-ups in a guest through its agent, with cyclictest, interrupts it, and meets the
// guest in states in which it cannot be measured. Figures are the emulator's: what is looked at is where they come
// from, that they agree with each other, and that nothing is left in the guest.
func TestLatencyInAGuest(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	const left = "pidof cyclictest || true"

	f := labtest.Answer[wakeup.File](s, 0, "latency", "--guest", guestName, "--for", "4s", "--slice", "2s", "--runs",
		"2", "--interval", "2ms", "-o", "/share/latency.json")
	s.LogTime("measured")
	must.Hold(s, f.Tool.Name == "cyclictest" && f.Tool.Version != "" && f.Tool.Exact && f.Asked.CPUs.String() == "2" &&
		len(f.Runs) == 2 && !f.Partial,
		"tool %+v, asked %+v, %d runs, partial %v", f.Tool, f.Asked, len(f.Runs), f.Partial)
	var count uint64
	for _, r := range f.Runs {
		if len(r.Slices) != 2 || len(r.Threads) != 1 || r.Threads[0].CPU != 2 || r.Latency == nil {
			s.Fatalf("run %+v", r)
		}
		count += r.Latency.Count
	}
	if l := f.Total.Latency; l == nil || l.Count != count || count < 100 || count > 4200 || l.MinNs > l.MaxNs ||
		f.Worst[0].Ns != l.MaxNs {
		s.Errorf("of %d wake-ups: %+v, worst %+v", count, l, f.Worst[:1])
	}
	if w := f.Worst[0]; w.From.At.Before(f.Started) || w.To.Seconds > f.Seconds {
		s.Errorf("the worst was %s", w.When())
	}
	if g := f.Guest; g == nil || g.Name != guestName || g.Kernel == "" || len(g.VCPUs) != 1 || g.VCPUs[0].VCPU != 2 ||
		g.VCPUs[0].Thread == 0 {
		s.Errorf("guest %+v", g)
	}
	has := func(kind facts.Disturbance) bool {
		return f.Counted != nil && slices.ContainsFunc(f.Counted.Sources,
			func(c wakeup.Source) bool { return c.Kind == kind })
	}
	for _, kind := range []facts.Disturbance{facts.VMExit, facts.Interrupt, facts.RunDelay} {
		if !has(kind) {
			s.Errorf("the host counted no %s: unseen %q", kind, f.Counted.Unseen)
		}
	}
	warned := func(code string) bool {
		return slices.ContainsFunc(f.Warnings, func(w measure.Warning) bool { return w.Code == code })
	}
	must.Hold(s, warned("emulated") && warned("not-pinned") && !warned("idle"), "warnings %+v", f.Warnings)
	must.Hold(s, len(f.Loads) == 2 && f.Loads[0].Where == "host" && f.Loads[0].Error == "" &&
		strings.Contains(f.Loads[1].Error, "no such program"), "loads %+v", f.Loads)
	must.Equal(s, s.inside(left), "", "left in the guest")

	s.MPPS(0, "report", "/share/latency.json", "-o", "/share/latency.html")
	if page, err := os.ReadFile(filepath.Join(s.Lab.ShareDir(), "latency.html")); err != nil ||
		!strings.Contains(string(page), "How long wake-ups took") {
		s.Errorf("the page: %v", err)
	}
	s.LogTime("drawn")

	// With mpps in the guest's $PATH its own loop measures, and its load runs there too.
	s.inside("busybox ln -s /opt/mpps /bin/mpps")
	f = labtest.Answer[wakeup.File](s, 0, "latency", "--guest", guestName, "--for", "2s", "--slice", "2s", "--runs",
		"1", "--interval", "2ms", "--tool", "own")
	if l := f.Total.Latency; f.Tool.Name != "own" || l == nil || l.Count < 50 || l.Count > 1100 ||
		len(f.Runs[0].Slices) != 1 || len(f.Runs[0].Slices[0].Long) == 0 {
		s.Errorf("the own loop: %+v, %+v", f.Tool, l)
	}
	must.Hold(s, len(f.Loads) == 2 && f.Loads[1].Error == "" && f.Loads[1].CPUs.String() == "0-1", "loads %+v", f.Loads)
	must.Equal(s, s.inside("pidof mpps || true"), "", "left in the guest")
	s.LogTime("measured by the own loop")

	s.Must("( mpps latency --guest " + guestName + " --cpu 1 --for 600s --slice 600s --runs 1 --interval 2ms --load " +
		"none > /share/cut.log 2>&1 & echo $! > /run/cut.pid )")
	for last, same := "", 0; same < 3; time.Sleep(time.Second) { // longer than the second in which it is tried
		now := s.inside("pidof cyclictest || true")
		if same++; now == "" || now != last {
			last, same = now, 0
		}
	}
	text := s.Must("p=$(cat /run/cut.pid); kill -TERM $p; while [ -d /proc/$p ]; do sleep 0.1; done; " +
		"cat /share/cut.log")
	must.Hold(s, strings.Contains(text, "interrupted: 1 of 1 runs were begun") && strings.Contains(text, "run 1"),
		"interrupted, it says:\n%s", text)
	must.Equal(s, s.inside(left), "", "left in the guest by an interrupt")
	s.LogTime("interrupted")

	refused := func(want string, argv ...string) {
		s.Helper()
		if text := s.MPPS(1, append([]string{"latency", "--for", "2s", "--runs", "1"},
			argv...)...).Stderr; !strings.Contains(text, want) || !strings.Contains(text, "hint: ") {
			s.Errorf("%v says:\n%s", argv, text)
		}
	}
	refused("no CPU 9 in guest "+guestName, "--guest", guestName, "--cpu", "9")
	refused(`no guest "nobody"`, "--guest", "nobody")
	refused("rt-tests", "--guest", guestName, "--tool", "oslat")
	s.Must("virsh -q suspend " + guestName)
	refused("does not run: it is paused", "--guest", guestName)
	s.Must("virsh -q resume " + guestName)
	answers := s.hangs()
	refused("does not answer", "--guest", guestName)
	answers()
	s.LogTime("refused")
}
