package lasting

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestSandbox has systemd judge the units: 0 is safe, 10 is a service of root with all its rights.
func TestSandbox(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (Debian's systemd; 'scripts/deps test' lists what tests need)")
	}
	out, err := exec.Command(analyze, "--version").Output()
	if fields := strings.Fields(string(out)); err != nil || len(fields) < 2 || fields[1] < "250" {
		t.Skipf("systemd %s cannot judge files, 250 and later can (%v)", fields, err)
	}
	for name, c := range map[string]struct {
		template, threshold string // the threshold is ten times the exposure
	}{
		UnitName: {unitTemplate, "50"}, VFsName: {vfsTemplate, "45"}, WatchName: {watchTemplate, "38"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			must.Do(t, os.WriteFile(file, []byte(unitText(c.template, "/bin/sh")), 0o644))
			for _, args := range [][]string{
				{"security", "--no-pager", "--offline=true", "--threshold=" + c.threshold, file}, {"verify", "--man=no", file},
			} {
				if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
					t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
				}
			}
		})
	}
}

// TestWatchIsNotRoot: the service that watches has its own account, whose capabilities are those that the page of
// promises names for commands that look, and one more for counts of SMIs.
func TestWatchIsNotRoot(t *testing.T) {
	options := map[string]string{}
	for line := range strings.Lines(watchTemplate) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		options[key] = value
	}
	const has = "CAP_DAC_READ_SEARCH CAP_NET_ADMIN CAP_SYS_PTRACE CAP_SYS_RAWIO"
	must.Hold(t, options["DynamicUser"] == "yes" && options["AmbientCapabilities"] == has &&
		options["CapabilityBoundingSet"] == has, "found %q", options)
}
