package lasting

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	for name, template := range map[string]string{
		UnitName: unitTemplate, VFsName: vfsTemplate, WatchName: watchTemplate,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(unitText(template, "/bin/sh")), 0o644); err != nil {
				t.Fatal(err)
			}
			// The threshold is ten times the exposure.
			for _, args := range [][]string{
				{"security", "--no-pager", "--offline=true", "--threshold=50", file}, {"verify", "--man=no", file},
			} {
				if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
					t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
				}
			}
		})
	}
}
