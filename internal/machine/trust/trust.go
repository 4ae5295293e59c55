// Package trust answers whom mpps believes: which process is a kernel thread, a system daemon or a guest's QEMU, and
// whose a file is. A process's name is no proof, since a process chooses it. A recorded tree has fewer proofs than the
// live machine: what it does not tell is not held against a process.
package trust

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// Process is a process.
type Process struct {
	PID  int
	comm string
}

// Name returns the name of a process for people. It proves nothing: a process chooses it.
func (p Process) Name() string { return p.comm }

// Name returns the name of a thread for people, or to leave it out; empty if it ended.
func Name(m *tree.Tree, pid, tid int) string {
	return m.Line(fmt.Sprintf("proc/%d/task/%d/comm", pid, tid))
}

// Processes returns the processes, sorted by PID. It reads a file of each: whoever looks for several things among them
// calls it once.
func Processes(m *tree.Tree) []Process {
	proc := m.Folder("proc")
	defer proc.Close()
	var list []Process
	for _, name := range proc.Names() {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if comm := proc.Line(name + "/comm"); comm != "" {
			list = append(list, Process{pid, comm})
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list
}

// KernelThreads returns the kernel threads whose names are wanted, sorted by TID.
func KernelThreads(m *tree.Tree, all []Process, wanted func(name string) bool) []Stat {
	var list []Stat
	for _, p := range all {
		if !wanted(p.comm) {
			continue
		}
		if t, err := ReadStat(m, p.PID); err == nil && t.Kernel() && wanted(t.Comm) {
			list = append(list, t)
		}
	}
	return list
}

// ReadStat reads the stat file of a process's first thread.
func ReadStat(m *tree.Tree, pid int) (Stat, error) {
	text, err := m.Read("proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(text)
}

// Accounts that no person logs in with: root and those of useradd(8) below SYS_UID_MAX of login.defs(5), and those that
// Debian assigns statically (Policy, 9.2.2: libvirt-qemu, ceph), systemd dynamically (UIDS-GIDS.md), and nobody. Those
// from 60001 to 60577 are people's (systemd-homed).
const (
	firstUser   = 1000
	firstStatic = 61184
	nobody      = 65534
)

func systemAccount(uid int) bool { return uid < firstUser || uid >= firstStatic && uid <= nobody }

// account returns the highest of a process's four user IDs; false if it cannot be determined.
func account(m *tree.Tree, pid int) (uid int, known bool) {
	status, _ := m.Read("proc/" + strconv.Itoa(pid) + "/status")
	_, rest, found := strings.Cut(status, "\nUid:")
	line, _, _ := strings.Cut(rest, "\n")
	for _, field := range strings.Fields(line) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, false
		}
		uid = max(uid, n)
	}
	return uid, found
}

// Elsewhere reports whether a process is in another namespace of a kind (namespaces(7)) than this one, or in a recorded
// tree than the first process. False if it cannot be determined: that takes root.
func Elsewhere(m *tree.Tree, pid int, kind string) bool {
	own := "proc/self/ns/"
	if !m.Live() {
		own = "proc/1/ns/"
	}
	here, there := m.Target(own+kind), m.Target("proc/"+strconv.Itoa(pid)+"/ns/"+kind)
	return here != "" && there != "" && here != there
}

// rootStarted reports whether a process belongs to root, and is in no container.
func rootStarted(m *tree.Tree, pid int) bool {
	uid, known := account(m, pid)
	return known && uid == 0 && !Elsewhere(m, pid, "pid")
}

// doubt returns why a process is not known to be a program of the system; empty: it is. It belongs to root or to a
// system account, and its program is a file of root with one of the names. What a recorded tree does not tell is not
// held against it.
func doubt(m *tree.Tree, pid int, named func(string) bool) string {
	process := "proc/" + strconv.Itoa(pid)
	switch uid, known := account(m, pid); {
	case !known && m.Live():
		return "whose it is cannot be determined"
	case known && !systemAccount(uid):
		return fmt.Sprintf("it belongs to user %d", uid)
	}
	program := strings.TrimSuffix(m.Target(process+"/exe"), " (deleted)") // updated since
	if program == "" {
		return ""
	}
	if !named(program) {
		return "its program is " + program
	}
	if !m.Live() {
		return ""
	}
	// The link is the kernel's own: it leads to the file of another mount namespace too.
	if info, err := os.Stat("/" + process + "/exe"); err == nil && !onlyRoot(info) {
		return "others than root can write its program"
	}
	return ""
}

// Own reports whether a process of the live machine runs the same executable file as this one: another mpps, whatever
// its name. False where the file cannot be seen: processes of other users take root.
func Own(m *tree.Tree, pid int) bool {
	if !m.Live() {
		return false
	}
	if pid == os.Getpid() {
		return true
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && os.SameFile(self, other)
}

// Daemon is a process of a system service.
type Daemon struct {
	Process
	Service string // one of the names that were asked for
}

// Daemons returns the processes with one of these names that are the system's: root's on this host, or a system
// account's that runs a program of that name which only root can write.
func Daemons(m *tree.Tree, all []Process, names ...string) []Daemon {
	var list []Daemon
	for _, p := range all {
		at := slices.IndexFunc(names, func(name string) bool { return p.comm == cut(name) })
		if at < 0 {
			continue
		}
		named := func(program string) bool { return program == names[at] }
		if rootStarted(m, p.PID) || doubt(m, p.PID, named) == "" {
			list = append(list, Daemon{p, names[at]})
		}
	}
	return list
}

// cut returns a name as the kernel keeps it, in 15 bytes (TASK_COMM_LEN).
func cut(name string) string { return name[:min(len(name), 15)] }

// ErrReplaced is the error of a write to a thread that ended meanwhile.
var ErrReplaced = errors.New("the thread ended, and its number may be another's now")

// Held is a thread of the live machine that is held by its folder in /proc: once the thread has ended nothing can be
// read below that folder, also if its number is another's since.
type Held struct {
	tid    int
	folder *tree.Folder
}

// Hold holds a thread of a process.
func Hold(m *tree.Tree, pid, tid int) (*Held, error) {
	folder := m.Folder(fmt.Sprintf("proc/%d/task/%d", pid, tid))
	if folder == nil {
		return nil, fmt.Errorf("thread %d: %w", tid, ErrReplaced)
	}
	return &Held{tid, folder}, nil
}

// HoldKernelThread holds a kernel thread, and returns its stat file.
func HoldKernelThread(m *tree.Tree, tid int) (*Held, Stat, error) {
	h, err := Hold(m, tid, tid)
	if err != nil {
		return nil, Stat{}, err
	}
	t, err := h.Stat()
	if err == nil && !t.Kernel() {
		err = fmt.Errorf("thread %d is no kernel thread: %w", tid, ErrReplaced)
	}
	if err != nil {
		h.Close()
		return nil, Stat{}, err
	}
	return h, t, nil
}

// Stat reads the stat file of the thread.
func (h *Held) Stat() (Stat, error) {
	text, there := h.folder.Text("stat")
	if !there {
		return Stat{}, fmt.Errorf("thread %d: %w", h.tid, ErrReplaced)
	}
	return ParseStat(text)
}

// Write calls write with the thread's number, and returns an error if the thread had ended before or has ended since.
func (h *Held) Write(write func(tid int) error) error {
	if _, err := h.Stat(); err != nil {
		return err
	}
	err := write(h.tid)
	_, gone := h.Stat()
	return errors.Join(err, gone)
}

// Close lets the thread go.
func (h *Held) Close() { h.folder.Close() }
