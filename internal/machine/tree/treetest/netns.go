//go:build netns

package treetest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

const mark = "MPPS_TEST_NAMESPACE"

// IsChild reports whether this process is the child in which InNamespace runs a test.
func IsChild(t *testing.T) bool { return os.Getenv(mark) == t.Name() }

// InNamespace runs the calling test in a child process with a new network namespace and its own /sys, which end with
// that process. It returns true in the child, once all is prepared there. In the parent it returns false once the child
// has passed.
func InNamespace(t *testing.T, prepare ...func() error) bool {
	t.Helper()
	if IsChild(t) {
		// Sysfs shows the devices of the namespace it was mounted in.
		must.Do(t, errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("sysfs", "/sys", "sysfs", 0, "")))
		for _, step := range prepare {
			must.Do(t, step())
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in its namespace: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("in its namespace:\n%s", out)
	}
	t.Logf("in its namespace:\n%s", out)
	return false
}

// NamedQEMU starts a process that is named as QEMU is and does nothing, and returns its ID. It ends with the test. The
// command runs the argument vector that it is given, which may go on.
func NamedQEMU(t *testing.T, command func(argv ...string) *exec.Cmd) int {
	t.Helper()
	shell := filepath.Join(t.TempDir(), "qemu-kvm")
	must.Do(t, os.Symlink("/bin/sh", shell))
	cmd := command(shell, "-c", "echo named; read -r line")
	in := must.Get(cmd.StdinPipe())(t)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Do(t, err)
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return cmd.Process.Pid
}

// Tool runs a program and returns its output. It skips the test if the program is not installed.
func Tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// IP runs several commands of ip(8).
func IP(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		Tool(t, "ip", strings.Fields(command)...)
	}
}

// IPLink returns what ip(8) shows of a device.
func IPLink(t *testing.T, device string) map[string]any {
	t.Helper()
	return ipLink(t, device, "-j", "-d", "link", "show", device)
}

// IPLinkIn returns what ip(8) shows of a device of a named network namespace.
func IPLinkIn(t *testing.T, namespace, device string) map[string]any {
	t.Helper()
	return ipLink(t, device, "-n", namespace, "-j", "-d", "link", "show", device)
}

func ipLink(t *testing.T, device string, args ...string) map[string]any {
	t.Helper()
	var links []map[string]any
	if err := json.Unmarshal([]byte(Tool(t, "ip", args...)), &links); err != nil || len(links) != 1 {
		t.Fatalf("ip link show %s: %v, %d devices", device, err, len(links))
	}
	return links[0]
}

// EthtoolLine returns the value after the nth occurrence (from 0) of a label in ethtool's output.
func EthtoolLine(t *testing.T, label string, nth int, args ...string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(Tool(t, "ethtool", args...)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == label {
			found = append(found, strings.TrimSpace(value))
		}
	}
	if len(found) <= nth {
		t.Fatalf("ethtool %v: no %q", args, label)
	}
	return found[nth]
}

// Guests waits until this test may start processes that pass for guests (unix.LOCK_EX), or until no other test has such
// (unix.LOCK_SH), and keeps it so to the test's end: tests that run in parallel see each other's processes, and a guest
// that comes makes a plan stale.
func Guests(t testing.TB, how int) {
	t.Helper()
	fd := must.Get(unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			must.Do(t, err)
			return
		}
	}
}
