//go:build netns

package ansible

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/measure"
	"mpps/internal/must"
)

// TestBenchGate plays the measurements of a rollout with recorded ones: one that is lower fails, and so does a first
// one that could not show a loss.
func TestBenchGate(t *testing.T) {
	play := os.Getenv("MPPS_ANSIBLE")
	if play == "" {
		t.Skip("MPPS_ANSIBLE names no ansible-playbook: 'make test-ansible' installs one from PyPI and runs this test")
	}
	must.Do(t, unix.Mount("none", "/var/lib", "tmpfs", 0, "")) // in this test's own mount namespace
	t.Cleanup(func() { must.Do(t, unix.Unmount("/var/lib", unix.MNT_DETACH)) })
	must.Do(t, os.Mkdir("/var/lib/mpps", 0o700))
	dir := t.TempDir()
	recordRun(t, dir+"/high", 8, 100e3)
	recordRun(t, dir+"/low", 8, 50e3)
	recordRun(t, dir+"/few", 3, 100e3)
	must.Do(t, os.WriteFile(dir+"/mpps", []byte(`#!/bin/sh
case "$*" in
"bench compare"*) exec "$MPPS_BIN" "$@" ;;
*before.json) cp "$BEFORE" /var/lib/mpps/rollout-before.json ;;
*after.json) cp "$AFTER" /var/lib/mpps/rollout-after.json ;;
esac
`), 0o755))
	for _, c := range []struct{ before, after, failed string }{
		{"high", "high", ""}, {"high", "low", "Compare"}, {"few", "low", "Require samples enough to show a loss"},
	} {
		cmd := exec.Command(play, "-i", "localhost,", "-c", "local", "-e",
			"ansible_python_interpreter=/usr/bin/python3", "testdata/bench.yml")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "BEFORE="+dir+"/"+c.before,
			"AFTER="+dir+"/"+c.after, "ANSIBLE_HOME="+dir+"/home", "ANSIBLE_NOCOLOR=1")
		out, err := cmd.CombinedOutput()
		failed := regexp.MustCompile(`TASK \[([^\]]*)\] \**\n(?:\[ERROR\]|fatal)`).FindStringSubmatch(string(out))
		if (err != nil) != (c.failed != "") || c.failed != "" && (failed == nil || failed[1] != c.failed) {
			t.Errorf("%s, then %s: expected %q to fail\n%s", c.before, c.after, c.failed, out)
		}
	}
}

// recordRun writes a run of round trips.
func recordRun(t *testing.T, file string, repeat int, rate float64) {
	t.Helper()
	text := string(must.Get(os.ReadFile("../../internal/measure/export/testdata/rr.json"))(t))
	r := must.Get(measure.Decode(strings.NewReader(text)))(t)
	for len(r.Samples) < repeat {
		r.Samples = append(r.Samples, r.Samples...)
	}
	r.Samples = r.Samples[:repeat]
	for i := range r.Samples {
		r.Samples[i].TPS = rate * (1 + float64(i)/1000)
	}
	f := must.Get(os.Create(file))(t)
	must.Do(t, measure.Encode(f, r))
	must.Do(t, f.Close())
}
