package queuepath

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// TestSteerAskedKernel: what a kernel said when it was asked counts, and not its release.
func TestSteerAskedKernel(t *testing.T) {
	h := steerHost(2, 2, 8)
	float(h, 0)
	h.Kernel.Release, h.Kernel.Lanes = "4.18.0-553.el8", &facts.LaneSupport{TCX: true}
	s := mustSteer(t, h, nil, SteerOptions{})
	if last := s.Changes[len(s.Changes)-1]; s.Groups[0].Means != ByProgram || last.Risk != goal.None ||
		last.Warning != "" {
		t.Errorf("4.18 that has all of it: %+v", last)
	}
	h.Kernel.Release, h.Kernel.Lanes = "6.12.48", &facts.LaneSupport{}
	s = mustSteer(t, h, nil, SteerOptions{})
	if last := s.Changes[len(s.Changes)-1]; last.Risk != goal.Blip || !strings.Contains(last.Warning, "clsact") {
		t.Errorf("6.12 without tcx: %+v", last)
	}
	h.Kernel.Lanes = &facts.LaneSupport{Why: "invalid bpf_context access"}
	refusedWith(t, h, SteerOptions{By: ByProgram}, "does not take the program", "invalid bpf_context access")
}
