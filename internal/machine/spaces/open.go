// Package spaces reads the other network namespaces that guests' packets pass: those that guests' QEMU runs in, and
// those that devices on their paths lead to. It enters them by their own threads and changes nothing there.
package spaces

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/thread"
)

// space is an open network namespace.
type space struct {
	fd      int
	id      uint64 // facts.Namespace.ID; 0: the host's
	name    string // below /run/netns
	pid     int    // of a guest's QEMU in it
	there   *link.There
	names   map[int]string // of its devices by index
	numbers map[int]uint64 // which namespaces its own numbers are
}

// open opens a network namespace by its file. A descriptor of another mpps may be another file since it was listed: a
// pipe would wait for its other end.
func open(file string) (*space, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err = errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err == nil && fs.Type != unix.NSFS_MAGIC {
		err = errors.New("it is no namespace")
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &space{fd: fd, id: st.Ino, numbers: map[int]uint64{}}, nil
}

func (s *space) close() { unix.Close(s.fd) }

// within calls f on a thread in the namespace, with a connection there.
func (s *space) within(f func(*netlink.Conn) error) error {
	return thread.Do(func() error {
		if err := unix.Setns(s.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		conn, err := link.DialRoute()
		if err != nil {
			return err
		}
		defer conn.Close()
		return f(conn)
	})
}

// errGone is the error of a process that ended, or was replaced, while its namespace was opened.
var errGone = errors.New("its process ended meanwhile")

// openQEMU opens the network namespace of a guest's QEMU, whose PID another process may have by now.
func openQEMU(m *tree.Tree, g *facts.Guest) (*space, error) {
	q, found := trust.FindQEMU(m, g.PID)
	if !found || q.Doubt(m, g.Name) != "" {
		return nil, errGone
	}
	s, err := open("/proc/" + strconv.Itoa(g.PID) + "/ns/net")
	if err != nil {
		return nil, err
	}
	if !q.Same(m) {
		s.close()
		return nil, errGone
	}
	s.pid = g.PID
	return s, nil
}

// folders have files of network namespaces that other programs made: ip-netns(8) and CNI plugins, Docker.
var folders = []string{"run/netns", "run/docker/netns"}

// named returns the files of namespaces with a name, at most so many.
func named(m *tree.Tree, most int) []string {
	var files []string
	for _, folder := range folders {
		for _, name := range m.List(folder) {
			if len(files) < most {
				files = append(files, "/"+path.Join(folder, name))
			}
		}
	}
	return files
}

// ofProcesses returns a file of each network namespace that a process is in, or that an mpps has open: what mpps
// measures with leads to namespaces without a process. At most so many.
func ofProcesses(m *tree.Tree, most int) []string {
	var files []string
	seen := map[string]bool{}
	add := func(file string) {
		if target := m.Target(file); strings.HasPrefix(target, "net:[") && !seen[target] && len(files) < most {
			seen[target] = true
			files = append(files, "/"+file)
		}
	}
	for _, p := range trust.Processes(m) {
		dir := path.Join("proc", strconv.Itoa(p.PID))
		add(path.Join(dir, "ns/net"))
		if !trust.Own(m, p.PID) {
			continue
		}
		for _, fd := range m.List(path.Join(dir, "fd")) {
			add(path.Join(dir, "fd", fd))
		}
	}
	return files
}
