package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Event says that something that holds values may have been reset.
type Event struct {
	Object string // a device or a guest; empty where events were lost: look at everything
	// Anew is set where the object was made: a device that a driver registered, a guest that was started. Without it the
	// object was there before and was set up again (ifdown and ifup).
	Anew bool
	// Carrier is set where a device that was up all the time got its carrier, perhaps at another speed: nothing but what
	// its driver ties to the link may have been reset.
	Carrier bool
	// Function is set where the object is a virtual function, as PF/N, whose interface came: it was made, or bound to its driver.
	Function bool
	Guest    GuestChange // empty for devices
}

// GuestChange is what became of a guest.
type GuestChange string

// The changes.
const (
	GuestStarted   GuestChange = "started"
	GuestStopped   GuestChange = "stopped"
	GuestUndefined GuestChange = "undefined"
)

// Events tells, until the context ends, of network devices that appear or are brought up (rtnetlink), of guests that start and
// stop (inotify on the directory in which libvirt keeps their process numbers: no connection, no process and no text of a program
// that may change, and it works while no daemon of libvirt runs) and of guests that are undefined (on that of their
// definitions). The channel is closed at the end.
func (m *Machine) Events(ctx context.Context) (<-chan Event, error) {
	links, err := m.watchLinks()
	if err != nil {
		return nil, err
	}
	guests, err := m.watchGuestFiles()
	if err != nil {
		return nil, errors.Join(err, links.close())
	}
	events := make(chan Event, 64)
	done := make(chan struct{}, 2)
	send := func(e Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	go func() { links.run(send); done <- struct{}{} }()
	go func() { guests.run(send); done <- struct{}{} }()
	go func() {
		<-ctx.Done()
		_ = errors.Join(links.close(), guests.close()) // ends the reads
		<-done
		<-done
		close(events)
	}()
	return events, nil
}

// linkWatch follows the link table.
type linkWatch struct {
	conn     *netlink.Conn
	known    map[int]device
	function func(interfaceName string) string // PF/N, empty for other devices
}

// watchLinks subscribes to link messages, and then reads the table, so that nothing between the two is missed.
func (m *Machine) watchLinks() (*linkWatch, error) {
	if !m.live {
		return &linkWatch{}, nil
	}
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: unix.RTMGRP_LINK})
	if err != nil {
		return nil, fmt.Errorf("events of network devices: %w", err)
	}
	w := &linkWatch{conn: conn, function: m.functionOf}
	if err := w.sync(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *linkWatch) sync() error {
	conn, err := dialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	devices, err := dumpLinks(conn)
	if err != nil {
		return err
	}
	w.known = map[int]device{}
	for _, d := range devices {
		w.known[d.index] = d
	}
	return nil
}

func (w *linkWatch) close() error {
	if w.conn == nil {
		return nil
	}
	return w.conn.Close()
}

func (w *linkWatch) run(send func(Event)) {
	if w.conn == nil {
		return
	}
	for {
		messages, err := w.conn.Receive()
		if errors.Is(err, unix.ENOBUFS) { // more came than fits into the socket
			if w.sync() == nil {
				send(Event{})
				continue
			}
		}
		if err != nil {
			return // closed
		}
		for _, message := range messages {
			d, err := parseLink(message.Data)
			if err != nil {
				continue
			}
			if message.Header.Type == unix.RTM_DELLINK {
				// A bridge also sends this for a port that leaves it (family AF_BRIDGE): the device is still there.
				if message.Data[0] == unix.AF_UNSPEC {
					delete(w.known, d.index)
				}
				continue
			}
			e, happened := w.next(d)
			if !happened {
				continue
			}
			send(e)
			if function := w.function(e.Object); e.Anew && function != "" {
				send(Event{Object: function, Anew: true, Function: true})
			}
		}
	}
}

// functionOf is the virtual function that an interface belongs to, as PF/N; empty where it is none.
func (m *Machine) functionOf(name string) string {
	device := path.Join(classNet, name, "device")
	pci := m.link(device)
	for _, pf := range m.list(device + "/physfn/net") {
		for _, entry := range m.list(device + "/physfn") {
			if number, is := strings.CutPrefix(entry, "virtfn"); is && m.link(device+"/physfn/"+entry) == pci {
				return pf + "/" + number
			}
		}
	}
	return ""
}

// next takes the new state of a device and tells whether it was reset.
func (w *linkWatch) next(d device) (Event, bool) {
	before, known := w.known[d.index]
	if d.name == "" {
		d.name = before.name
	}
	w.known[d.index] = d
	switch {
	case !known || before.name != d.name:
		return Event{Object: d.name, Anew: true}, true
	case d.up && !before.up:
		return Event{Object: d.name}, true
	case d.up && d.carrier == "up" && before.carrier != "up":
		return Event{Object: d.name, Carrier: true}, true
	}
	return Event{}, false
}

// guestFiles is where libvirt writes NAME.pid when a guest starts.
const guestFiles = "run/libvirt/qemu"

// guestWatch follows the process files of guests, also where their directory is made later.
type guestWatch struct {
	file    *os.File
	root    string
	folders map[int]string // watch → directory below the root
}

// The directories on the way to guestFiles and to definitions, of which those that exist are watched.
var guestFolders = [][]string{{"run", "run/libvirt", guestFiles}, {"etc", "etc/libvirt", definedFolder}}

func (m *Machine) watchGuestFiles() (*guestWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("events of guests: %w", err)
	}
	w := &guestWatch{file: os.NewFile(uintptr(fd), "inotify"), root: m.path, folders: map[int]string{}}
	w.arm()
	return w, nil
}

// arm watches the last directory that there is of each way, and those before it only until then.
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

// onTheWay tells whether a directory is one of those that lead to files of guests.
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
					w.present(send)
				}
			default:
				if told, happened := guestEvent(folder, e); happened {
					send(told)
				}
			}
		}
	}
}

// guestEvent is what a file of libvirt tells of its guest by coming or going. A definition that is changed is written beside its place
// and renamed (src/util/virfile.c, virFileRewrite), so its name never goes.
func guestEvent(folder string, e inotifyEvent) (Event, bool) {
	gone := e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
	guest, pid := strings.CutSuffix(e.name, ".pid")
	name, definition := strings.CutSuffix(e.name, ".xml")
	switch {
	case folder == guestFiles && pid && gone:
		return Event{Object: guest, Guest: GuestStopped}, true
	case folder == guestFiles && pid:
		return Event{Object: guest, Anew: true, Guest: GuestStarted}, true
	case folder == definedFolder && definition && gone:
		return Event{Object: name, Guest: GuestUndefined}, true
	}
	return Event{}, false
}

// present tells of the guests whose files came before the watch.
func (w *guestWatch) present(send func(Event)) {
	entries, err := os.ReadDir(path.Join(w.root, guestFiles))
	if err != nil {
		return
	}
	for _, entry := range entries {
		if guest, found := strings.CutSuffix(entry.Name(), ".pid"); found {
			send(Event{Object: guest, Anew: true, Guest: GuestStarted})
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
		all = append(all, inotifyEvent{int(int32(binary.NativeEndian.Uint32(buffer))), binary.NativeEndian.Uint32(buffer[4:]), name})
		buffer = buffer[unix.SizeofInotifyEvent+length:]
	}
	return all
}
