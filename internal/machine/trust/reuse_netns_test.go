//go:build netns

package trust

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// inPIDNamespace runs the test again as the first process of a PID namespace with its own /proc, where the next number
// can be chosen. It reports whether this is that process.
func inPIDNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getpid() == 1 {
		must.Do(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		must.Do(t, unix.Mount("proc", "/proc", "proc", 0, ""))
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	must.Hold(t, err == nil && strings.Contains(string(out), "--- PASS"), "%v\n%s", err, out)
	return false
}

// successor ends a process and starts others until one has its number, which it returns; ended by the test's end.
func successor(t *testing.T, old *exec.Cmd) {
	t.Helper()
	pid := old.Process.Pid
	must.Do(t, errors.Join(old.Process.Kill(), ignoreExit(old.Wait())))
	for range 100 {
		// The kernel gives the next free number (kernel/pid.c, pid_ns_ctl_handler).
		must.Do(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0))
		cmd, in := started(t)
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		if cmd.Process.Pid == pid {
			return
		}
	}
	t.Fatalf("no process got the number %d", pid)
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// stateOf returns what a process is scheduled by.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	var cpus unix.CPUSet
	attr, err := unix.SchedGetAttr(pid, 0)
	must.Do(t, errors.Join(err, unix.SchedGetaffinity(pid, &cpus)))
	return fmt.Sprint(cpus, attr.Policy, attr.Priority, attr.Nice)
}

// writes are what is written to threads by their numbers.
func writes() map[string]func(tid int) error {
	return map[string]func(int) error{
		"affinity": func(tid int) error {
			var first unix.CPUSet
			first.Set(0)
			return unix.SchedSetaffinity(tid, &first)
		},
		"policy": func(tid int) error {
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 3}
			return unix.SchedSetAttr(tid, &attr, 0)
		},
		"priority": func(tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, -5) },
	}
}

// TestNumberIsReused: nothing that is meant for a process lands on another that has its number since, whether the first
// ended before it was held or while it was; nor is the newcomer taken for it.
func TestNumberIsReused(t *testing.T) {
	if !inPIDNamespace(t) {
		return
	}
	m := treetest.Live(t)
	for name, write := range writes() {
		t.Run(name, func(t *testing.T) {
			old, in := started(t)
			defer in.Close()
			pid := old.Process.Pid
			before := stateOf(t, pid)
			if err := writeTo(m, pid, write); err != nil || stateOf(t, pid) == before {
				t.Fatalf("while it lives: %v, %s", err, stateOf(t, pid))
			}
			held := must.Get(Hold(m, pid, pid))(t)
			defer held.Close()
			was, _ := ReadStat(m, pid)
			successor(t, old)
			before = stateOf(t, pid)
			if err := held.Write(write); !errors.Is(err, ErrReplaced) || stateOf(t, pid) != before {
				t.Errorf("after its end: %v, %s, before %s", err, stateOf(t, pid), before)
			}
			if _, _, err := HoldKernelThread(m, pid); !errors.Is(err, ErrReplaced) {
				t.Errorf("the newcomer is held as a kernel thread: %v", err)
			}
			if now, _ := ReadStat(m, pid); now.Started != was.Started && (QEMU{Process: Process{PID: pid},
				Started: was.Started}).Same(m) {
				t.Error("the newcomer is taken for the one before")
			}
		})
	}
}

// writeTo writes to a process that is held.
func writeTo(m *tree.Tree, pid int, write func(int) error) error {
	held, err := Hold(m, pid, pid)
	if err != nil {
		return err
	}
	defer held.Close()
	return held.Write(write)
}
