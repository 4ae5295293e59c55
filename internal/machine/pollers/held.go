package pollers

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

var errTooMany = errors.New("the processes have too many open files to look at them all")

// held is what a file says about a process that has it open.
type held struct {
	functions, xdp, verbs []string
	socket, vhostUser     bool
}

// searched is what is looked for in processes' descriptors: files by the last element of their names.
type searched struct {
	m     *tree.Tree
	files map[string]*held
}

func (s *searched) worthwhile() bool { return len(s.files) > 0 }

func (s *searched) add(file string) *held {
	if s.files[file] == nil {
		s.files[file] = &held{}
	}
	return s.files[file]
}

func (s *searched) socket(inode uint32) *held {
	one := s.add(socketFile(inode))
	one.socket = true
	return one
}

// socketFile is what the link of a socket's descriptor names.
func socketFile(inode uint32) string { return "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]" }

// search lists what pollers of this host can hold.
func search(m *tree.Tree, h *facts.Host) *searched {
	s := &searched{m: m, files: map[string]*held{}}
	s.addVFIO()
	s.addUIO()
	s.addVerbs(h)
	if m.Live() {
		s.addXDP(h)
		s.addVhostUser(h)
	}
	return s
}

// network reports whether a PCI device is a network controller (class 02, include/linux/pci_ids.h).
func (s *searched) network(dir string) bool {
	return strings.HasPrefix(s.m.Line(path.Join(dir, "class")), "0x02")
}

// addVFIO adds the files of groups and, since Linux 6.6, devices of VFIO (drivers/vfio/group.c, device_cdev.c).
func (s *searched) addVFIO() {
	const bound, devices = "sys/bus/pci/drivers", "sys/bus/pci/devices"
	for _, driver := range s.m.List(bound) {
		if !facts.PassesThrough(driver) {
			continue
		}
		for _, pci := range s.m.List(path.Join(bound, driver)) {
			dir := path.Join(devices, pci)
			if strings.Count(pci, ":") != 2 || !s.network(dir) {
				continue
			}
			if group := s.m.Target(path.Join(dir, "iommu_group")); group != "" {
				for _, file := range []string{group, "noiommu-" + group} {
					s.add(file).functions = append(s.add(file).functions, pci)
				}
			}
			for _, name := range s.m.List(path.Join(dir, "vfio-dev")) {
				s.add(name).functions = append(s.add(name).functions, pci)
			}
		}
	}
}

// addUIO adds the files of UIO's devices (drivers/uio/uio.c).
func (s *searched) addUIO() {
	for _, name := range s.m.List("sys/class/uio") {
		dir := path.Join("sys/class/uio", name, "device")
		if pci := s.m.Target(dir); strings.Count(pci, ":") == 2 && s.network(dir) {
			s.add(name).functions = []string{pci}
		}
	}
}

// addVerbs adds the files by which programs drive NICs beside their driver (drivers/infiniband/core/uverbs_main.c).
func (s *searched) addVerbs(h *facts.Host) {
	for _, name := range s.m.List("sys/class/infiniband_verbs") {
		for _, nic := range s.m.List(path.Join("sys/class/infiniband_verbs", name, "device/net")) {
			if slices.ContainsFunc(h.NICs, func(n facts.NIC) bool { return n.Name == nic }) {
				s.add(name).verbs = append(s.add(name).verbs, nic)
			}
		}
	}
}

// addXDP adds the sockets of AF_XDP that are bound to NICs. The kernel is asked only if there are some: asking may load
// a module.
func (s *searched) addXDP(h *facts.Host) {
	if !socketsOf(s.m.Line("proc/net/protocols"), "XDP") {
		return
	}
	all, err := xdpSockets()
	if err != nil {
		tree.AddUnseen(h, "sockets of AF_XDP", tree.Netlink(err))
	}
	for _, one := range all {
		for _, n := range h.NICs {
			if n.Index == one.device {
				s.socket(one.inode).xdp = append(s.socket(one.inode).xdp, n.Name)
			}
		}
	}
}

// socketsOf reports whether a protocol has sockets, from /proc/net/protocols (net/core/sock.c, proto_seq_printf):
// name, size, number of sockets …
func socketsOf(protocols, name string) bool {
	for line := range strings.Lines(protocols) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == name {
			return f[2] != "0"
		}
	}
	return false
}

// addVhostUser adds the far ends of guests' vhost-user sockets: whichever side listens, accepted sockets have the
// listener's name, and connected ones have those as peers. One end must be QEMU's: a user's mount namespace can have a
// socket of any name.
func (s *searched) addVhostUser(h *facts.Host) {
	paths, ends := map[string]bool{}, map[string]bool{}
	for g := range facts.Each(h.Guests) {
		switched := false
		for _, i := range g.NICs() {
			if (i.Type == "vhostuser" || i.Type == "vhost-user") && strings.HasPrefix(i.Source, "/") && g.Active() {
				paths[i.Source], switched = true, true
			}
		}
		if switched {
			s.addEnds(ends, g.PID)
		}
	}
	if len(paths) == 0 {
		return
	}
	all, err := unixSockets()
	if err != nil {
		tree.AddUnseen(h, "far ends of vhost-user sockets", tree.Netlink(err))
	}
	for _, one := range all {
		if paths[one.name] && (ends[socketFile(one.inode)] || ends[socketFile(one.peer)]) {
			s.socket(one.inode).vhostUser = true
			if one.peer != 0 {
				s.socket(one.peer).vhostUser = true
			}
		}
	}
}

// addEnds adds a process's sockets.
func (s *searched) addEnds(ends map[string]bool, pid int) {
	folder := s.m.Folder(path.Join("proc", strconv.Itoa(pid), "fd"))
	defer folder.Close()
	for _, fd := range folder.Names() {
		if file := folder.Target(fd); strings.HasPrefix(file, "socket:") {
			ends[file] = true
		}
	}
}
