package command

import (
	"net"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestPathModes: each path is measured as found and under the plan, by the agent at its address, and what the lab may
// lack says so.
func TestPathModes(t *testing.T) {
	must.Equal(t, len(pathModes.modes), 2*len(paths), "modes")
	for i, p := range paths {
		found, planned := pathModes.modes[2*i], pathModes.modes[2*i+1]
		host, _, err := net.SplitHostPort(found.Agent)
		must.Hold(t, err == nil && host == "10.60."+string(rune('1'+i))+".2" && found.Plan == "" &&
			planned.Name == p.name+underPlan && planned.Plan == pathsPlan && planned.Gateway == found.Gateway,
			"%s: %+v, %+v", p.name, found, planned)
		must.Hold(t, (p.needs == "") == (p.lacks == ""), "%s: needs %q, lacks %q", p.name, p.needs, p.lacks)
	}
	got := must.Get(pathModes.wanted([]string{"passt"}))(t)
	want := []string{"bridge", "bridge+plan", "passt", "passt+plan"}
	must.Hold(t, slices.Equal(got, want), "wanted %q, expected %q", got, want)
}

// TestChangedLines: what only one text has is shown, which is nothing for the same text.
func TestChangedLines(t *testing.T) {
	must.Equal(t, changedLines("a\nb", "a\nc\nb"), "+ c", "one line more")
	must.Equal(t, changedLines("a\nb", "b"), "- a", "one line less")
	must.Hold(t, changedLines("a\nb", "a\nb") == "" && strings.Contains(pathsStore, "ovs-vsctl"), "the same text")
}
