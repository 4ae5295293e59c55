package report

import (
	"fmt"
	"strings"

	"mpps/internal/knob"
	"mpps/internal/sriov"
)

// SRIOVCheck draws a check as a list to go through: of the host, then of each physical function. What is known of a driver is
// drawn where verbose asks for it.
func SRIOVCheck(t *Text, c sriov.Check, verbose bool) {
	t.Wrapped("", t.In(Bold, c.Verdict))
	object := "none"
	hidden := false
	for _, p := range c.Points {
		if p.Object != object {
			object = p.Object
			t.Blank()
			name := object
			if name == "" {
				name = "host"
			}
			t.Heading(name)
		}
		t.Wrapped("  "+stateMark(t, p)+"  ", fmt.Sprintf("%s: %s", p.Title, cut(shown(p.Found), 160)))
		if p.State != sriov.OK && p.Why != "" {
			t.Wrapped("       ", p.Why)
		}
		if p.State != sriov.OK && p.Do != "" {
			t.Wrapped("       do: ", p.Do)
		}
		for _, trap := range p.Traps {
			if verbose {
				t.Wrapped("       - ", trap)
			}
			hidden = hidden || !verbose
		}
	}
	t.Blank()
	line := fmt.Sprintf("%d ok, %d not, %d could not be told", c.Counts[sriov.OK], c.Counts[sriov.NotOK], c.Counts[sriov.Unknown])
	if hidden {
		line += "; -v shows what is known of the drivers"
	}
	t.Wrapped("", line)
}

// stateMark is the word before a point, three columns wide.
func stateMark(t *Text, p sriov.Point) string {
	word := fmt.Sprintf("%-3s", map[sriov.State]string{sriov.OK: "ok", sriov.NotOK: "not", sriov.Unknown: "?"}[p.State])
	switch {
	case p.State == sriov.OK:
		return t.In(Green, word)
	case p.State == sriov.Unknown:
		return t.In(Faint, word)
	case p.Severity >= knob.High:
		return t.In(RedBold, word)
	}
	return t.In(Yellow, strings.TrimSpace(word))
}
