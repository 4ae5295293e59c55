package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/thread"
)

// mostSpaces is how many namespaces of guests are watched: each takes a thread and some ten reads a look.
const mostSpaces = 32

// Spaces returns the other network namespaces that packets of a guest pass, or of all running guests if it is empty, as
// Options.Netns names them, at most so many.
func Spaces(h *facts.Host, guest string) (names []string) {
	paths := reach.Of(h)
	for n := range facts.Each(h.Namespaces) {
		passed := slices.ContainsFunc(paths.Paths, func(p reach.Path) bool {
			return p.Active && (guest == "" || p.Guest == guest) &&
				slices.ContainsFunc(p.Hops, func(hop reach.Hop) bool { return hop.Namespace == n.ID })
		})
		if passed && len(names) < mostSpaces {
			names = append(names, n.Title())
		}
	}
	return names
}

// space returns the inventory's namespace of a name of Options.Netns; nil if it has none.
func (w *Watch) space(name string) *facts.Namespace {
	return facts.Find(w.h.Namespaces, func(n *facts.Namespace) bool { return name != "" && n.Title() == name })
}

// spaceFile returns the file of a network namespace of Options.Netns.
func (w *Watch) spaceFile(name string) string {
	if n := w.space(name); n != nil && n.PID != 0 {
		return fmt.Sprintf("/proc/%d/ns/net", n.PID)
	}
	return filepath.Join("/run/netns", name)
}

// inNetns calls f on a thread in a network namespace, which applies to its sockets and to /proc/thread-self/net, but
// not to /sys. With the empty name, f is called directly. The thread ends with f.
func (w *Watch) inNetns(name string, f func() error) error {
	if name == "" {
		return f()
	}
	return thread.Do(func() error {
		file := w.spaceFile(name)
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", name, &os.PathError{Op: "open", Path: file, Err: err})
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if n := w.space(name); n != nil && (unix.Fstat(fd, &st) != nil || st.Ino != n.ID) {
			return fmt.Errorf("network namespace %s went away: %s is another's", name, file)
		}
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}

// addGuest sets the guest of a device of another network namespace: its tap, and whatever is in the namespace of one
// guest alone. What is lost there is lost to it.
func (w *Watch) addGuest(d *facts.DeviceLoad) {
	n := w.space(d.Netns)
	if n == nil {
		return
	}
	var there []string
	for g := range facts.Each(w.h.Guests) {
		taps := facts.Where(g.NICs(), func(i facts.Interface) bool { return g.Away(&i) && g.SpaceOf(&i) == n.ID })
		if len(taps) == 0 && (!g.Elsewhere || g.Namespace != n.ID) {
			continue
		}
		there = append(there, g.Name)
		if slices.ContainsFunc(taps, func(i facts.Interface) bool { return i.Tap == d.Name }) {
			d.Guest = g.Name
		}
	}
	if d.Guest == "" && len(there) == 1 {
		d.Guest = there[0]
	}
}
