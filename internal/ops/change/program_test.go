package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestProgramOfServices: no service of root is made that runs what others can change.
func TestProgramOfServices(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mpps")
	must.Do(t, os.WriteFile(program, nil, 0o755))
	must.Do(t, os.Chmod(filepath.Dir(program), 0o777))
	h := &facts.Host{Lasting: &facts.Lasting{Systemd: true, Program: program}}
	write := plan.Change{Address: setting.Of(setting.File, lasting.UnitFile), To: setting.Value("[Unit]\n")}
	remove := write
	remove.To = setting.Missing("removed")
	if err := checkProgram(&plan.Plan{Changes: []plan.Change{write}}, h); err == nil ||
		!strings.Contains(err.Error(), "mpps-restore.service would run "+program) {
		t.Errorf("a service that runs %s: %v", program, err)
	}
	for _, changes := range [][]plan.Change{nil, {remove}, {{Address: setting.Of(setting.Sysctl, "net.core.somaxconn")}}} {
		if err := checkProgram(&plan.Plan{Changes: changes}, h); err != nil {
			t.Errorf("%v: %v", changes, err)
		}
	}
}
