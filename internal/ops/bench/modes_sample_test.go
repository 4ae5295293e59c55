package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// TestThawsWhatWasStopped: a PID file that names another guest between two samples lets no guest be stopped that ran.
func TestThawsWhatWasStopped(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	guest := func() int {
		process := exec.Command("sleep", "600")
		must.Do(t, process.Start())
		t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
		pid := process.Process.Pid
		at := fmt.Sprintf("proc/%d/", pid)
		stat := treetest.Stat(pid, "qemu-system-x86", 100, 0, 0, 0)
		for name, text := range map[string]string{"comm": "qemu-system-x86\n", "status": "Uid:\t0\t0\t0\t0\n",
			"stat": stat, "cmdline": "qemu-system-x86_64\x00-name\x00guest=vm1\x00"} {
			files[at+name] = text
			files[fmt.Sprintf("%stask/%d/%s", at, pid, name)] = text
		}
		return pid
	}
	stopped, running := guest(), guest()
	must.Do(t, unix.Kill(stopped, unix.SIGSTOP))
	m := must.Get(rig.OpenMachine(treetest.Recorded(t, files).Root.Name()))(t)
	defer m.Close()
	s := &sampler{machine: m, stopped: map[int]bool{}}
	mode := measure.Mode{Frozen: filepath.Join(t.TempDir(), "pid")}
	must.Do(t, os.WriteFile(mode.Frozen, fmt.Appendln(nil, stopped), 0o600))
	for range 2 { // found stopped once, it need not be again: its helper stops it when it can
		must.Get(s.thaw(mode))(t)()
	}
	must.Do(t, os.WriteFile(mode.Frozen, fmt.Appendln(nil, running), 0o600))
	if freeze, err := s.thaw(mode); err == nil {
		freeze()
		t.Error("a guest that ran was thawed, to be stopped afterwards")
	}
	time.Sleep(100 * time.Millisecond)
	must.Hold(t, !owned.Stopped(running), "a guest that ran is stopped")
}
