package trust

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// started returns a process that ends when its input is closed.
func started(t *testing.T) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command("cat")
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	return cmd, in
}

// TestHeld: a thread is written to while it lives, and no longer once it has ended, whoever has its number then.
func TestHeld(t *testing.T) {
	m := treetest.Live(t)
	cmd, in := started(t)
	pid := cmd.Process.Pid
	held := must.Get(Hold(m, pid, pid))(t)
	defer held.Close()
	written := 0
	write := func(tid int) error { written += tid; return nil }
	if err := held.Write(write); err != nil || written != pid {
		t.Errorf("%d was written to, expected %d: %v", written, pid, err)
	}
	if _, _, err := HoldKernelThread(m, pid); !errors.Is(err, ErrReplaced) {
		t.Errorf("held as a thread of the kernel's: %v", err)
	}
	in.Close()
	must.Do(t, cmd.Wait())
	if err := held.Write(write); !errors.Is(err, ErrReplaced) || written != pid {
		t.Errorf("after its end: %v", err)
	}
	must.Fail(Hold(m, pid, pid))(t, "a process that ended can be held")
}

// TestEndsMeanwhile: a thread that ends while it is written to is reported.
func TestEndsMeanwhile(t *testing.T) {
	m := treetest.Live(t)
	cmd, in := started(t)
	held := must.Get(Hold(m, cmd.Process.Pid, cmd.Process.Pid))(t)
	defer held.Close()
	err := held.Write(func(int) error { in.Close(); return cmd.Wait() })
	must.Hold(t, errors.Is(err, ErrReplaced), "found %v", err)
}

// TestDaemons: a daemon belongs to root, or to a system account and runs the program of its name.
func TestDaemons(t *testing.T) {
	process := func(pid, uid int, comm, program string) map[string]string {
		at := fmt.Sprintf("proc/%d/", pid)
		files := map[string]string{at + "comm": comm + "\n",
			at + "status": fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", comm, uid, uid, uid, uid)}
		if program != "" {
			files[at+"exe"] = "-> " + program
		}
		return files
	}
	m := treetest.Recorded(t, treetest.Merged(
		process(1, 0, "tuned", "/usr/bin/python3.13"),
		process(2, 1000, "irqbalance", "/bin/sleep"),
		process(3, 1000, "irqbalance", "/usr/sbin/irqbalance"),
		process(4, 33, "ceph-osd", "/usr/bin/php"),
		process(5, 64045, "ceph-osd", "/usr/bin/ceph-osd"),
		process(6, 998, "systemd-network", "/usr/lib/systemd/systemd-networkd"),
		process(7, 60001, "ceph-osd", "/usr/bin/ceph-osd"), // of systemd-homed
		process(8, 100000, "ceph-osd", "/usr/bin/ceph-osd"),
		process(9, 0, "bash", "/bin/bash"),
		process(11, 0, "irqbalance", "/bin/sleep"), // of a container
		process(12, 0, "numad", "/usr/bin/numad"),  // the same
		map[string]string{"proc/1/ns/pid": "-> pid:[1]", "proc/11/ns/pid": "-> pid:[2]", "proc/12/ns/pid": "-> pid:[2]"},
		map[string]string{"proc/10/comm": "numad\n"}, // a recording without the rest
	))
	var found []string
	for _, d := range Daemons(m, Processes(m), "irqbalance", "tuned", "ceph-osd", "systemd-networkd", "numad") {
		found = append(found, fmt.Sprint(d.PID, " ", d.Service))
	}
	want := []string{"1 tuned", "5 ceph-osd", "6 systemd-networkd", "10 numad", "12 numad"}
	must.Hold(t, slices.Equal(found, want), "expected %q, found %q", want, found)
}

// TestOnlyRoot: a PID file counts if only root can write it.
func TestOnlyRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives files away")
	}
	name := t.TempDir() + "/vm1.pid"
	must.Do(t, os.WriteFile(name, []byte("400\n"), 0o644))
	for _, c := range []struct {
		owner int
		mode  os.FileMode
		want  bool
	}{{0, 0o644, true}, {0, 0o600, true}, {0, 0o664, false}, {0, 0o646, false}, {1000, 0o644, false},
		{33, 0o644, false}} {
		must.Do(t, errors.Join(os.Chown(name, c.owner, 0), os.Chmod(name, c.mode)))
		info := must.Get(os.Lstat(name))(t)
		must.Equal(t, onlyRoot(info), c.want, "owner %d, mode %o", c.owner, c.mode)
	}
}

// TestPeer: a socket of this user is believed; a connection of another kind is not.
func TestPeer(t *testing.T) {
	for network, address := range map[string]string{"unix": t.TempDir() + "/s", "tcp": "127.0.0.1:0"} {
		listener := must.Get(net.Listen(network, address))(t)
		defer listener.Close()
		conn := must.Get(net.Dial(network, listener.Addr().String()))(t)
		defer conn.Close()
		if err := Peer(conn); (err == nil) != (network == "unix") {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// TestFromPIDFile: a PID file proves nothing of a process that a person may have started, or that runs another program.
func TestFromPIDFile(t *testing.T) {
	process := func(comm, uid, program string) map[string]string {
		files := map[string]string{"run/x.pid": "7\n", "proc/7/task/7/comm": comm + "\n",
			"proc/7/status": "Name:\tx\nUid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\n"}
		if program != "" {
			files["proc/7/exe"] = "-> " + program
		}
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"root's":         {process("ovs-vswitchd", "0", "/usr/sbin/ovs-vswitchd"), true},
		"its variant":    {process("ovs-vswitchd", "0", "/usr/lib/x/ovs-vswitchd-dpdk"), true},
		"account's":      {process("ovs-vswitchd", "987", "/usr/sbin/ovs-vswitchd (deleted)"), true},
		"recorded":       {process("ovs-vswitchd", "0", ""), true},
		"a person's":     {process("ovs-vswitchd", "1000", "/usr/sbin/ovs-vswitchd"), false},
		"another":        {process("ovs-vswitchd", "0", "/usr/bin/python3"), false},
		"another's name": {process("sshd", "0", "/usr/sbin/ovs-vswitchd"), false},
		"none":           {map[string]string{"proc/7/task/7/comm": "ovs-vswitchd\n"}, false},
	} {
		if pid, found := FromPIDFile(treetest.Recorded(t, c.files), "run/x.pid", "ovs-vswitchd"); found != c.want ||
			found && pid != 7 {
			t.Errorf("%s: %d, %v", name, pid, found)
		}
	}
}

// TestOwn: a process counts as this program by its executable file, not by its name.
func TestOwn(t *testing.T) {
	t.Parallel()
	m := treetest.Live(t)
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	stopped := func(program string, args ...string) int {
		cmd := exec.Command(program, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // it stops once its program is there
		must.Do(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	impostor := filepath.Join(t.TempDir(), "mpps")
	text, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = os.WriteFile(impostor, text, 0o755)
	}
	must.Do(t, err)
	self := must.Get(os.Executable())(t)
	for pid, want := range map[int]bool{os.Getpid(): true, stopped(self): true, stopped(impostor, "60"): false,
		1 << 30: false} {
		must.Equal(t, Own(m, pid), want, "process %d", pid)
	}
}
