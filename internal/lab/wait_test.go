package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mpps/internal/must"
)

// launched starts a shell script as a process of a lab, with its log.
func launched(t *testing.T, l *Lab, role, script string) Proc {
	t.Helper()
	log := must.Get(os.Create(filepath.Join(l.dir, role+".log")))(t)
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Stderr = l.dir, log
	must.Do(t, cmd.Start())
	p, _ := readProc(role, cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return p
}

// TestWaitFor: a wait for a socket ends with the process that should make it, and says what the process said last.
func TestWaitFor(t *testing.T) {
	l := &Lab{dir: t.TempDir()}
	p := launched(t, l, "virtiofsd share", "sleep 0.1; : >sock; sleep 60")
	must.Do(t, l.waitFor(t.Context(), p, filepath.Join(l.dir, "sock")))
	for _, script := range []string{"echo no such folder >&2", "sleep 0.1; echo no such folder >&2; exit 1"} {
		p := launched(t, l, "virtiofsd share", script)
		began := time.Now()
		err := l.waitFor(t.Context(), p, filepath.Join(l.dir, "other"))
		must.Is(t, err, errEnded, "%s", script)
		must.Say(t, err, "no such folder", "%s", script)
		must.Hold(t, time.Since(began) < 5*time.Second, "%s: noticed after %v", script, time.Since(began))
	}
}

// TestLoadOfEnded: nor does a restore wait for a QEMU that ended before it listened.
func TestLoadOfEnded(t *testing.T) {
	l := &Lab{dir: t.TempDir()}
	l.st = &state{Boot: bootID(), Procs: []Proc{launched(t, l, roleQEMU, "sleep 0.1; exit 1")}}
	began := time.Now()
	must.Refuse(t, l.load(t.Context(), "memory"), "a state was loaded by nobody")
	must.Hold(t, time.Since(began) < 5*time.Second, "noticed after %v", time.Since(began))
}
