package labtest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// Netdevsim loads the netdevsim module into a lab: simulated NICs with hundreds of VFs whose settings can all be
// written and read. Debian's kernels do not have it: scripts/netdevsim builds it once for the lab's kernel, in about a
// minute. The test is only skipped if Debian's mirror lacks what the build needs.
func Netdevsim(t testing.TB, l *lab.Lab) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	script := filepath.Join(strings.TrimSpace(string(text)), "scripts/netdevsim")
	cmd := exec.CommandContext(t.Context(), script)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = owned.Run(cmd)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 4:
		t.Skipf("netdevsim is not built for the lab's kernel, and Debian's mirror does not give what that needs: %s",
			problems.String())
	case errors.As(err, &exit):
		t.Fatalf("%s: %v\n%s", script, err, problems.String())
	case err != nil:
		t.Fatal(err)
	}
	must.Do(t, l.Put("netdevsim.ko", strings.TrimSpace(out.String())))
	must.Get(l.Must(t.Context(), "modprobe -a psample macsec; [ -e /sys/bus/netdevsim ] || insmod "+
		"/share/netdevsim.ko"))(t)
}
