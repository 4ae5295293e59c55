//go:build netns

package threads

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestThreadPolicy sets the policy of a process and checks it with chrt(1).
func TestThreadPolicy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	child := exec.Command("sleep", "60")
	must.Do(t, child.Start())
	defer func() { child.Process.Kill(); child.Wait() }()
	pid := strconv.Itoa(child.Process.Pid)
	if out, err := exec.Command("chrt", "-f", "-p", "2", pid).CombinedOutput(); err != nil {
		t.Skipf("this kernel gives a process of this control group no realtime policy: chrt: %s", out)
	}
	for value, want := range map[string]string{"SCHED_FIFO 2": "SCHED_FIFO 2", "SCHED_BATCH": "SCHED_BATCH 0",
		"SCHED_OTHER": "SCHED_OTHER 0"} {
		must.Succeed(t, setPolicy(child.Process.Pid, value), "%s", value)
		shown := strings.Join(strings.Fields(treetest.Tool(t, "chrt", "-p", pid)), " ")
		policy, priority, _ := strings.Cut(want, " ")
		must.Hold(t, strings.Contains(shown, "policy: "+policy) && strings.Contains(shown, "priority: "+priority),
			"%s: chrt says %q", value, shown)
	}
	must.Refuse(t, setPolicy(child.Process.Pid, "SCHED_DEADLINE"), "SCHED_DEADLINE was accepted")
}
