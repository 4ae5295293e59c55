package libvirt

import (
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// spaces are the network namespaces that the taps of one process are compared with.
type spaces struct {
	host, process uint64 // as facts.Namespace.ID; 0: not known
}

func spacesOf(m *tree.Tree, pid int) spaces {
	of := func(process string) (id uint64) {
		_, _ = fmt.Sscanf(m.Target(path.Join("proc", process, "ns/net")), "net:[%d]", &id)
		return id
	}
	return spaces{host: of("self"), process: of(strconv.Itoa(pid))}
}

// place notes which network namespace a NIC's tap is in, if that is not QEMU's: whoever opens a tap may hand it to a
// process elsewhere, and a tap can be moved after it was opened.
func (n *qemuNIC) place(m *tree.Tree, pid int, fd string, s spaces) {
	if !m.Live() || s.host == 0 || n.tap == "" {
		return
	}
	id := tapSpace(m, pid, fd)
	switch {
	case id == 0:
		dir := path.Join(tree.ClassNet, n.tap)
		tun := m.Target(path.Join("proc", strconv.Itoa(pid), "fd", fd)) == tunFile
		if tun && s.process == s.host && m.Exists(dir) && !m.Exists(path.Join(dir, "tun_flags")) {
			n.elsewhere = facts.Yes // the host's device of this name is no tap
		}
	case id == s.process:
	case id == s.host:
		n.elsewhere = facts.No
	default:
		n.elsewhere, n.space = facts.Yes, id
	}
}

// tunFile is the name of the file that every tap is opened by.
const tunFile = "tun"

// tapSpace returns the network namespace that the device of a process's tap descriptor is in (facts.Namespace.ID); 0 if
// unknown. fdinfo has only the name. The device reports it to a process that has the descriptor and may administer that
// namespace (drivers/net/tun.c, __tun_chr_ioctl, TUNGETDEVNETNS, since Linux 5.2): a copy is taken by
// pidfd_getfd(2), since Linux 5.6, which needs the right to trace the process. A macvtap has no such request.
func tapSpace(m *tree.Tree, pid int, fd string) uint64 {
	number, err := strconv.Atoi(fd)
	if err != nil || m.Target(path.Join("proc", strconv.Itoa(pid), "fd", fd)) != tunFile {
		return 0
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(process)
	tap, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(tap)
	var st unix.Stat_t
	if unix.Fstat(tap, &st) != nil || st.Rdev != unix.Mkdev(10, 200) { // Documentation/networking/tuntap.rst
		return 0 // it was closed, and is another file by now
	}
	space, err := unix.IoctlRetInt(tap, unix.TUNGETDEVNETNS)
	if err != nil {
		return 0
	}
	defer unix.Close(space)
	if unix.Fstat(space, &st) != nil {
		return 0
	}
	return st.Ino
}

// placeTaps notes where the taps of a running guest's NICs are, as its process tells.
func placeTaps(g *facts.Guest, q qemu) {
	for _, list := range [][]facts.Interface{g.Interfaces, g.Plugged} {
		for i := range list {
			for _, n := range q.nics {
				if n.elsewhere != "" && n.tap == list[i].Tap && (n.mac == "" || n.mac == list[i].MAC) {
					list[i].TapElsewhere, list[i].TapNamespace = n.elsewhere, n.space
				}
			}
		}
	}
}
