//go:build netns

package main

import (
	"strings"
	"testing"

	"mpps/internal/outcome"
)

// TestSteerDiscipline: a tunnel that needs no queue discipline loses the one that it has, is kept so, and gets it back.
// One with parameters stays, and is told.
func TestSteerDiscipline(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	shown := func() string { return strings.TrimSpace(s.must("tc", "qdisc", "show", "dev", "vx0")) }
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "handle", "8123:", "pfifo_fast")
	before := shown()
	s.send()
	steer := []string{"path", "--steer", "--for", "1s", "--by", "program", "--nic", "nic0"}
	if out := s.mpps(outcome.CodeOK, append(steer, "--dry-run")...); !strings.Contains(out, "root-qdisc:vx0") ||
		shown() != before {
		t.Errorf("a dry run: %s\n%s", out, shown())
	}
	s.mpps(outcome.CodeOK, steer...)
	if found := shown(); !strings.HasPrefix(found, "qdisc noqueue") {
		t.Errorf("steered: %s", found)
	}
	s.mpps(outcome.CodeOK, "verify")
	for _, f := range s.watch().Faults {
		t.Errorf("steered: %s: %s", f.Name(), f.Evidence)
	}
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "handle", "8123:", "pfifo_fast")
	s.mpps(outcome.CodeOK, "restore", "--insist")
	if found := shown(); !strings.HasPrefix(found, "qdisc noqueue") {
		t.Errorf("put back: %s", found)
	}
	s.mpps(outcome.CodeOK, "rollback")
	if after := shown(); after != before {
		t.Errorf("rolled back: %s, before %s", after, before)
	}
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "pfifo", "limit", "17")
	before = shown()
	code, stdout, stderr := program(t, append([]string{"mpps"}, steer...)...)
	if code != outcome.CodeOK || !strings.Contains(stdout+stderr, "all lanes take the lock of pfifo on vx0") ||
		shown() != before {
		t.Errorf("with parameters: exit code %d: %s%s\n%s", code, stdout, stderr, shown())
	}
	s.mpps(outcome.CodeOK, "rollback")
	s.nothingLeft()
	s.end()
}
