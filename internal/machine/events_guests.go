package machine

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
)

// guestFiles is the directory where libvirt writes NAME.pid when a guest starts.
const guestFiles = "run/libvirt/qemu"

// guestWatch watches guests' PID files and definitions, even if their directories are created later.
type guestWatch struct {
	file    *os.File
	root    string
	folders map[int]string // watch → directory below the root
}

// guestFolders are the directories that lead to guestFiles and to definitions. Those that exist are watched.
var guestFolders = [][]string{{"run", "run/libvirt", guestFiles}, {"etc", "etc/libvirt", libvirt.DefinedFolder}}

func (m *Machine) watchGuestFiles() (*guestWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("events of guests: %w", err)
	}
	w := &guestWatch{file: os.NewFile(uintptr(fd), "inotify"), root: m.Path, folders: map[int]string{}}
	w.arm()
	return w, nil
}

// arm watches the directories of each path that exist.
func (w *guestWatch) arm() {
	for _, way := range guestFolders {
		for i, folder := range way {
			var mask uint32 = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
			if i == len(way)-1 {
				mask |= unix.IN_DELETE | unix.IN_MOVED_FROM
			}
			err := w.control(func(fd int) error {
				wd, err := unix.InotifyAddWatch(fd, path.Join(w.root, folder), mask)
				if err == nil {
					w.folders[wd] = folder
				}
				return err
			})
			if err != nil {
				break // not there yet
			}
		}
	}
}

// onTheWay reports whether a directory leads to guests' files.
func onTheWay(folder string) bool {
	return slices.ContainsFunc(guestFolders, func(way []string) bool { return slices.Contains(way[1:], folder) })
}

func (w *guestWatch) control(call func(fd int) error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = call(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (w *guestWatch) close() error { return w.file.Close() }

func (w *guestWatch) run(send func(Event)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return // closed
		}
		for _, e := range parseInotify(buffer[:n]) {
			switch folder := w.folders[e.watch]; {
			case e.mask&unix.IN_Q_OVERFLOW != 0:
				send(Event{})
			case onTheWay(folder + "/" + e.name):
				w.arm()
				if strings.HasPrefix(guestFiles, folder) {
					w.sendExisting(send)
				}
			default:
				if event, happened := guestEvent(folder, e); happened {
					send(event)
				}
			}
		}
	}
}

// guestEvent returns the event for a file of libvirt that appears or disappears. A changed definition is written to
// another file and renamed (src/util/virfile.c, virFileRewrite), so its name never disappears.
func guestEvent(folder string, e inotifyEvent) (Event, bool) {
	gone := e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
	guest, pid := strings.CutSuffix(e.name, ".pid")
	name, definition := strings.CutSuffix(e.name, ".xml")
	switch {
	case folder == guestFiles && pid && gone:
		return Event{Object: guest, Guest: GuestStopped}, true
	case folder == guestFiles && pid:
		return Event{Object: guest, Created: true, Guest: GuestStarted}, true
	case folder == libvirt.DefinedFolder && definition && gone:
		return Event{Object: name, Guest: GuestUndefined}, true
	}
	return Event{}, false
}

// sendExisting sends events for guests whose files appeared before the watch.
func (w *guestWatch) sendExisting(send func(Event)) {
	entries, err := os.ReadDir(path.Join(w.root, guestFiles))
	if err != nil {
		return
	}
	for _, entry := range entries {
		if guest, found := strings.CutSuffix(entry.Name(), ".pid"); found {
			send(Event{Object: guest, Created: true, Guest: GuestStarted})
		}
	}
}

// inotifyEvent is one struct inotify_event (inotify(7)).
type inotifyEvent struct {
	watch int
	mask  uint32
	name  string
}

func parseInotify(buffer []byte) []inotifyEvent {
	var all []inotifyEvent
	for len(buffer) >= unix.SizeofInotifyEvent {
		length := int(binary.NativeEndian.Uint32(buffer[12:]))
		if length > len(buffer)-unix.SizeofInotifyEvent {
			break
		}
		name, _, _ := strings.Cut(string(buffer[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		all = append(all, inotifyEvent{int(int32(binary.NativeEndian.Uint32(buffer))),
			binary.NativeEndian.Uint32(buffer[4:]), name})
		buffer = buffer[unix.SizeofInotifyEvent+length:]
	}
	return all
}
