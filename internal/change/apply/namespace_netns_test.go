//go:build netns

package apply_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"mpps/internal/must"
)

// inNamespace reports whether the test runs in a network namespace of its own. Where it does not it is run again in
// one, that of a child process, which goes with it.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const mark = "MPPS_TEST_NAMESPACE"
	inside := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	outside := os.Getenv(mark)
	if outside == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"="+inside)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
			Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatalf("in a network namespace: %v", err)
		}
		return false
	}
	if inside == outside {
		t.Fatalf("namespace %s: expected one of its own", inside)
	}
	// /sys shows the devices of the namespace in which it was mounted.
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("sysfs", "/sys", "sysfs", 0, "")); err != nil {
		t.Fatalf("a /sys of its own: %v", err)
	}
	return true
}
