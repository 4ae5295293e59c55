// Package pollers finds the processes other than QEMU that move guests' packets by polling: a virtual switch, a router,
// a DPDK or AF_XDP application. It knows them by what they hold and do. Their names say nothing.
package pollers

import (
	"context"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// look is how long threads are watched: one that sleeps every now and then does so within it.
const look = 100 * time.Millisecond

// mostDescriptors bounds the reading of /proc/PID/fd over all processes: half a second of work.
const mostDescriptors = 250_000

// Inventory reads the pollers into h.Pollers. NICs and guests must have been read before.
func Inventory(ctx context.Context, m *tree.Tree, h *facts.Host) {
	s := search(m, h)
	if !s.worthwhile() {
		return
	}
	found, err := s.processes(h)
	if err != nil {
		tree.AddUnseen(h, "processes that move guests' packets by polling", err)
	}
	watch(ctx, m, found)
	for _, p := range found {
		if p.polls() {
			h.Pollers = append(h.Pollers, p.fact())
		}
	}
}

// process is one that holds something which pollers hold.
type process struct {
	pid       int
	comm      string
	functions []string // network functions that it drives through VFIO or UIO
	xdp       []string // NICs of its AF_XDP sockets
	verbs     []string // NICs that it drives beside their driver (mlx5, mlx4)
	sockets   bool     // connected to a guest's vhost-user socket
	machine   bool     // it runs a virtual machine
	hugepages uint64
	cpus      setting.CPUSet
}

func (p *process) holds() bool {
	return !p.machine && (p.sockets || len(p.functions)+len(p.xdp)+len(p.verbs) > 0)
}

// polls reports whether a process moves packets by polling. A vhost-user socket alone is also passt's, which sleeps;
// verbs alone are RDMA's.
func (p *process) polls() bool {
	busy := len(p.cpus) > 0
	return len(p.functions)+len(p.xdp) > 0 || p.sockets && (busy || p.hugepages > 0) ||
		len(p.verbs) > 0 && busy && p.hugepages > 0
}

func (p *process) fact() facts.Poller {
	nics := slices.Clone(p.xdp)
	if len(p.cpus) > 0 && p.hugepages > 0 {
		nics = append(nics, p.verbs...)
	}
	slices.Sort(nics)
	slices.Sort(p.functions)
	return facts.Poller{PID: p.pid, Comm: p.comm, CPUs: p.cpus, Functions: slices.Compact(p.functions),
		NICs: slices.Compact(nics), Sockets: p.sockets, Hugepages: p.hugepages}
}

// watch sets the CPUs of processes' threads that are bound to one and never sleep: runnable at both ends of a look, and
// not once asleep between them. Their CPU time would not tell: without a tick it is brought up to date once a second
// (kernel/sched/core.c, sched_tick_remote).
func watch(ctx context.Context, m *tree.Tree, found []*process) {
	before := map[int]map[int]turn{}
	for _, p := range found {
		before[p.pid] = awake(m, p.pid)
	}
	if len(found) > 0 && m.Live() {
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
	for _, p := range found {
		for tid, now := range awake(m, p.pid) {
			if was, same := before[p.pid][tid]; same && was == now {
				p.cpus = p.cpus.Or(setting.CPUs(now.cpu))
			}
		}
	}
}

// turn is how often a thread that is bound to a CPU has gone to sleep.
type turn struct {
	cpu    int
	sleeps string // voluntary_ctxt_switches
}

// awake returns the threads of a process that are runnable and bound to one CPU.
func awake(m *tree.Tree, pid int) map[int]turn {
	folder := m.Folder(path.Join("proc", strconv.Itoa(pid), "task"))
	defer folder.Close()
	all := map[int]turn{}
	for _, name := range folder.Names() {
		tid, err := strconv.Atoi(name)
		status, there := folder.Text(name + "/status")
		if err != nil || !there || !strings.HasPrefix(field(status, "State"), "R") {
			continue
		}
		cpus, err := setting.ParseCPUs(field(status, "Cpus_allowed_list"))
		if err == nil && len(cpus) == 1 {
			all[tid] = turn{cpus[0], field(status, "voluntary_ctxt_switches")}
		}
	}
	return all
}

// field returns a field of a status file; empty if it has none.
func field(status, name string) string {
	for line := range strings.Lines(status) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hugepages returns how many bytes of huge pages a process maps.
func hugepages(m *tree.Tree, pid int) uint64 {
	status, _ := m.Read(path.Join("proc", strconv.Itoa(pid), "status"))
	kib, err := strconv.ParseUint(strings.TrimSuffix(field(status, "HugetlbPages"), " kB"), 10, 54)
	if err != nil {
		return 0
	}
	return kib << 10
}

// processes returns the processes that hold something, except QEMU's. The error is that not all could be looked into.
func (s *searched) processes(h *facts.Host) (found []*process, err error) {
	guests := map[int]bool{os.Getpid(): s.m.Live()}
	for _, g := range h.Guests {
		guests[g.PID] = g.PID != 0
	}
	descriptors, closed := 0, 0
	for _, one := range trust.Processes(s.m) {
		if guests[one.PID] {
			continue
		}
		if descriptors > mostDescriptors {
			return found, errTooMany
		}
		p := &process{pid: one.PID, comm: one.Name()}
		n, open := s.read(p)
		descriptors += n
		if !open {
			closed++
		}
		if p.holds() {
			p.hugepages = hugepages(s.m, p.pid)
			found = append(found, p)
		}
	}
	if closed > 0 && os.Geteuid() != 0 {
		err = os.ErrPermission
	}
	return found, err
}

// read looks at a process's descriptors. It returns how many there are, and false if they cannot be listed.
func (s *searched) read(p *process) (count int, open bool) {
	dir := path.Join("proc", strconv.Itoa(p.pid), "fd")
	folder := s.m.Folder(dir)
	defer folder.Close()
	names := folder.Names()
	for _, fd := range names {
		file := folder.Target(fd)
		switch held := s.files[file]; {
		case file == "anon_inode:kvm-vm":
			p.machine = true
		case held == nil:
		case !held.socket && !s.isDevice(path.Join(dir, fd)): // another file of that name
		default:
			p.functions = append(p.functions, held.functions...)
			p.xdp = append(p.xdp, held.xdp...)
			p.verbs = append(p.verbs, held.verbs...)
			p.sockets = p.sockets || held.vhostUser
		}
	}
	return len(names), folder != nil
}

func (s *searched) isDevice(link string) bool {
	target, err := s.m.Readlink(link)
	return err == nil && strings.HasPrefix(target, "/dev/")
}
