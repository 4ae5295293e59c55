package trust

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mpps/internal/machine/tree"
)

// QEMU is a process with QEMU's name.
type QEMU struct {
	Process
	Started uint64   // ticks since boot; 0 in a recorded tree without it
	guests  []string // whose PID files of libvirt name it
}

// QEMUs returns the processes with QEMU's name, sorted by PID. Any process can take it, with any command line: Doubt
// tells which of them is a guest's.
func QEMUs(m *tree.Tree, all []Process) []QEMU {
	var list []QEMU
	var guests map[int][]string
	for _, p := range all {
		if !isQEMU(p.comm) {
			continue
		}
		if guests == nil {
			guests = startedByLibvirt(m)
		}
		if q, alive := qemuOf(m, p, guests); alive {
			list = append(list, q)
		}
	}
	return list
}

// FindQEMU returns a process with QEMU's name; false if it has another, or ended.
func FindQEMU(m *tree.Tree, pid int) (QEMU, bool) {
	name := Name(m, pid, pid)
	if !isQEMU(name) {
		return QEMU{}, false
	}
	return qemuOf(m, Process{pid, name}, startedByLibvirt(m))
}

// qemuOf returns a process of QEMU's name, with what libvirt's PID files say of it; false if it ended.
func qemuOf(m *tree.Tree, p Process, guests map[int][]string) (QEMU, bool) {
	t, err := ReadStat(m, p.PID)
	return QEMU{Process: p, Started: t.Started, guests: guests[p.PID]}, err == nil || !m.Live()
}

// isQEMU reports whether a name is QEMU's: qemu-system-ARCH, qemu-kvm of Red Hat, kvm of Proxmox.
func isQEMU(name string) bool {
	return strings.HasPrefix(name, "qemu-system-") || strings.HasPrefix(name, "qemu-kvm") || name == "kvm"
}

// Same reports whether the process is still the one that was found.
func (q QEMU) Same(m *tree.Tree) bool {
	if !m.Live() {
		return true
	}
	t, err := ReadStat(m, q.PID)
	return err == nil && t.Started == q.Started
}

// Libvirt reports whether libvirt started the process for a guest.
func (q QEMU) Libvirt(guest string) bool { return slices.Contains(q.guests, guest) }

// OfLibvirt reports whether libvirt started the process for any guest.
func (q QEMU) OfLibvirt() bool { return len(q.guests) > 0 }

// proxmoxFolder has a file ID.pid of each running guest of Proxmox VE (qemu-server, PVE/QemuServer/Helpers.pm,
// vm_pidfile_name; /var/run is a link to /run).
const proxmoxFolder = "run/qemu-server/"

// Proxmox reports whether Proxmox VE started the process as its virtual machine of a number: root's PID file names it.
func (q QEMU) Proxmox(m *tree.Tree, number string) bool {
	id, err := strconv.ParseUint(number, 10, 31)
	if err != nil || id == 0 || strconv.FormatUint(id, 10) != number {
		return false
	}
	return q.named(m, proxmoxFolder, number+".pid")
}

// instanceFolders have a folder for each running virtual machine, with QEMU's PID file (Incus, internal/util/paths.go,
// RunPath; LXD, shared/util.go, LogPath, in its snap and outside).
var instanceFolders = map[string]bool{ // whether they are Incus's
	"run/incus/": true, "var/snap/lxd/common/lxd/logs/": false, "var/log/lxd/": false}

// Instance returns the folder that Incus or LXD has for the process's virtual machine of this name, and whether it is
// Incus's: root's PID file there names the process. claimed is the PID file that its command line names. Empty: neither
// started it.
func (q QEMU) Instance(m *tree.Tree, claimed, name string) (folder string, incus bool) {
	for all, incus := range instanceFolders {
		file, below := strings.CutPrefix(strings.TrimPrefix(claimed, "/"), all)
		folder, is := strings.CutSuffix(file, "/qemu.pid")
		if below && is && (folder == name || strings.HasSuffix(folder, "_"+name)) && name != "" && name[0] != '.' &&
			!strings.Contains(folder, "/") && q.named(m, all, file) {
			return folder, incus
		}
	}
	return "", false
}

// named reports whether a PID file below a folder names the process. Only root can write it and what is above it, up to
// the folder.
func (q QEMU) named(m *tree.Tree, folder, file string) bool {
	for name := folder + file; m.Live() && len(name) >= len(folder)-1; name = path.Dir(name) {
		if !ofRoot(m, name) {
			return false
		}
	}
	return m.Number(folder+file, 0) == q.PID
}

// InLauncher reports whether the process runs in a pod of KubeVirt: it is in a control group of Kubernetes's pods
// (kubelet, cm/pod_container_manager: kubepods), and its parent, the pod's first process, is virt-launcher-monitor.
func (q QEMU) InLauncher(m *tree.Tree) bool {
	process := "proc/" + strconv.Itoa(q.PID)
	groups, err := m.Head(process+"/cgroup", 64<<10)
	path := strings.FieldsFunc(groups, func(r rune) bool { return r == '/' || r == '\n' })
	if err != nil || !slices.ContainsFunc(path, ofPods) {
		return false
	}
	t, err := ReadStat(m, q.PID)
	return err == nil && t.Parent > 0 && strings.HasPrefix(Name(m, t.Parent, t.Parent), "virt-launcher")
}

// ofPods reports whether a control group is that of all pods, whatever root the kubelet has (kubelet,
// cm/cgroup_manager_linux.go, ToSystemd: a slice has the names of those above it, with dashes between).
func ofPods(group string) bool {
	slice, is := strings.CutSuffix(group, ".slice")
	return group == "kubepods" || is && (slice == "kubepods" || strings.HasSuffix(slice, "-kubepods"))
}

// Arguments returns the command line of the process, at most the first 256 KiB: libvirt's are below 64 KiB. It is nil
// if it cannot be read. The process chooses it.
func (q QEMU) Arguments(m *tree.Tree) []string { return q.arguments(m, 256<<10) }

// Claim returns the name of the guest that the process says it is, from the beginning of its command line; false if
// that cannot be read.
func (q QEMU) Claim(m *tree.Tree) (guest string, read bool) {
	args := q.arguments(m, 4<<10)
	return GuestIn(args), args != nil
}

func (q QEMU) arguments(m *tree.Tree, most int) []string {
	text, err := m.Head("proc/"+strconv.Itoa(q.PID)+"/cmdline", most)
	if err != nil || text == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(text, "\x00"), "\x00")
}

// GuestIn returns the guest's name from QEMU's option -name; empty if it has none.
func GuestIn(args []string) string {
	for i, arg := range args {
		if arg != "-name" && arg != "--name" || i+1 == len(args) {
			continue
		}
		const comma = "\x01" // a comma in a name is doubled
		for _, option := range strings.Split(strings.ReplaceAll(args[i+1], ",,", comma), ",") {
			key, value, isOption := strings.Cut(option, "=")
			if !isOption {
				key, value = "guest", option
			}
			if key == "guest" && value != "" {
				return strings.ReplaceAll(value, comma, ",")
			}
		}
	}
	return ""
}

// Doubt returns why the process is not known to be the QEMU of a guest; empty: it is. Either libvirt's PID file of this
// guest names it, or root started it on this host, or it belongs to the system, in a container too, and runs a virtual
// machine.
func (q QEMU) Doubt(m *tree.Tree, guest string) string {
	if q.Libvirt(guest) || rootStarted(m, q.PID) {
		return ""
	}
	if why := doubt(m, q.PID, isQEMU); why != "" {
		return why + ", and libvirt's PID file of the guest does not name it"
	}
	if m.Live() && runsNoMachine(m, q.PID) {
		return "it runs no virtual machine with KVM"
	}
	return ""
}

// runsNoMachine reports whether a process has no virtual machine of KVM (virt/kvm/kvm_main.c, kvm_dev_ioctl_create_vm).
// One whose descriptors cannot be listed may have one: that takes root.
func runsNoMachine(m *tree.Tree, pid int) bool {
	folder := m.Folder("proc/" + strconv.Itoa(pid) + "/fd")
	defer folder.Close()
	all := folder.Names()
	return len(all) > 0 && !slices.ContainsFunc(all, func(fd string) bool {
		return folder.Target(fd) == "anon_inode:kvm-vm"
	})
}

// pidFolder has libvirt's file NAME.pid of each running guest of the system (src/qemu/qemu_process.c).
const pidFolder = "run/libvirt/qemu/"

// startedByLibvirt returns the guests of the processes that libvirt's PID files name. A file may be left of a process
// that ended without libvirt, and another may have its number: a person's process is believed only if it is older.
func startedByLibvirt(m *tree.Tree) map[int][]string {
	started := map[int][]string{}
	if m.Live() && !ofRoot(m, strings.TrimSuffix(pidFolder, "/")) {
		return started
	}
	for _, file := range m.List(pidFolder) {
		guest, is := strings.CutSuffix(file, ".pid")
		pid := m.Number(pidFolder+file, 0)
		if !is || pid <= 0 {
			continue
		}
		if m.Live() {
			uid, known := account(m, pid)
			if !ofRoot(m, pidFolder+file) || !(known && systemAccount(uid)) && !olderThan(m, pid, pidFolder+file) {
				continue
			}
		}
		started[pid] = append(started[pid], guest)
	}
	return started
}

// ofRoot reports whether a file or folder is no link, and only root can write it.
func ofRoot(m *tree.Tree, name string) bool {
	info, err := m.Lstat(name)
	return err == nil && info.Mode()&os.ModeSymlink == 0 && onlyRoot(info)
}

// onlyRoot reports whether only root can write a file.
func onlyRoot(info os.FileInfo) bool {
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && stat.Uid == 0 && info.Mode().Perm()&0o022 == 0
}

// clockSlack is by how much the clock may be corrected after a guest was started.
const clockSlack = time.Minute

// olderThan reports whether a process started before its PID file was written.
func olderThan(m *tree.Tree, pid int, file string) bool {
	info, err := m.Lstat(file)
	t, ended := ReadStat(m, pid)
	seconds, _, _ := strings.Cut(m.Line("proc/uptime"), " ")
	uptime, bad := strconv.ParseFloat(seconds, 64)
	if err != nil || ended != nil || bad != nil {
		return false
	}
	const ticks = 100 // a second (USER_HZ), on every architecture that runs KVM
	age := time.Duration((uptime - float64(t.Started)/ticks) * float64(time.Second))
	return age+clockSlack >= time.Since(info.ModTime())
}
