package planted

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
)

// slim is of a host what a diagnosis looks at: a recording that people can read. Threads that neither did nor waited
// for anything worth a hundredth of a CPU are left out.
func slim(h *facts.Host) *facts.Host {
	s := &facts.Host{
		Name: "planted", Taken: h.Taken, Root: h.Root, AsRoot: h.AsRoot, Emulated: h.Emulated, Virtual: h.Virtual,
		Topology: h.Topology,
		NICs:     h.NICs, Bridges: h.Bridges, Tunnels: h.Tunnels, Taps: h.Taps, VFs: h.VFs, Netfilter: h.Netfilter,
		KVM: h.KVM, Guests: h.Guests,
		Readings: h.Readings, Unseen: h.Unseen, Load: h.Load,
	}
	s.Kernel.Release = h.Kernel.Release
	s.Netfilter.Rules = slices.Clone(h.Netfilter.Rules)
	for r := range facts.Each(s.Netfilter.Rules) {
		if len(r.Lines) > mostRules {
			r.Lines, r.Cut = r.Lines[:mostRules], true
		}
	}
	if s.Load != nil {
		l := *s.Load
		l.Threads = nil
		for _, t := range s.Load.Threads {
			if t.Guest != "" || t.Ran >= 0.01 || t.Role != "other" && t.Role != "mpps" {
				l.Threads = append(l.Threads, t)
			}
		}
		s.Load = &l
	}
	return s
}

// mostRules are enough to see what rules there are; how many stands beside.
const mostRules = 20

// slimFile does the same to a file of mpps diagnose -o.
func slimFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	h, err := facts.ReadSnapshot(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	why := func(h *facts.Host) string {
		counters := *h.Load
		counters.Profile, counters.Drops, counters.Delays = nil, nil, nil
		return bottleneck.Find(h, h.Load).Why + "; by counters: " + bottleneck.Find(h, &counters).Why
	}
	less := slim(h)
	if why(less) != why(h) { // rules are counted by their lines where a tool has several families
		less.Netfilter.Rules = h.Netfilter.Rules
	}
	if why(less) != why(h) {
		return fmt.Errorf("%s: what is left says %q, expected %q", file, why(less), why(h))
	}
	var b bytes.Buffer
	if err := facts.Write(&b, less, "planted"); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
