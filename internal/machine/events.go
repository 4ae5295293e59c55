package machine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree"
)

// Event reports that the values of an object may have been reset.
type Event struct {
	Object string // a device or a guest; empty if events were lost: check everything
	// Created is set if the object is new: a device registered by a driver, a guest that was started. Otherwise it
	// existed before and was set up again (ifdown and ifup).
	Created bool
	// Carrier is set if a device that is up got its carrier, perhaps at another speed: only values that its driver ties
	// to the link may have been reset.
	Carrier bool
	// Function is set if the object is a VF, as PF/N, whose interface appeared: it was created, or bound to its driver.
	Function bool
	Guest    GuestChange // empty for devices
}

// GuestChange is a change of a guest's state.
type GuestChange string

const (
	GuestStarted   GuestChange = "started"
	GuestStopped   GuestChange = "stopped"
	GuestUndefined GuestChange = "undefined"
)

// Events reports until the context ends: network devices that appear or are brought up (rtnetlink), guests that start
// and stop (inotify on libvirt's directory of PID files, which needs no connection, process or daemon and does not
// depend on a program's output), and guests that are undefined (inotify on the directory of definitions). It then
// closes the channel.
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
		_ = errors.Join(links.close(), guests.close()) // unblocks the reads
		<-done
		<-done
		close(events)
	}()
	return events, nil
}

// linkWatch follows the link table.
type linkWatch struct {
	conn     *netlink.Conn
	known    map[int]link.Device
	function func(interfaceName string) string // PF/N, empty for other devices
}

// watchLinks subscribes to link messages before it reads the table, so that it misses nothing in between.
func (m *Machine) watchLinks() (*linkWatch, error) {
	if !m.Live() {
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
	conn, err := link.DialRoute()
	if err != nil {
		return err
	}
	defer conn.Close()
	devices, err := link.DumpLinks(conn)
	if err != nil {
		return err
	}
	w.known = map[int]link.Device{}
	for _, d := range devices {
		w.known[d.Index] = d
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
		if errors.Is(err, unix.ENOBUFS) { // messages were lost
			if w.sync() == nil {
				send(Event{})
				continue
			}
		}
		if err != nil {
			return // closed
		}
		for _, message := range messages {
			d, err := link.ParseLink(message.Data)
			if err != nil {
				continue
			}
			if message.Header.Type == unix.RTM_DELLINK {
				// A bridge also sends this for a port that leaves it (family AF_BRIDGE): the device still exists.
				if message.Data[0] == unix.AF_UNSPEC {
					delete(w.known, d.Index)
				}
				continue
			}
			e, happened := w.next(d)
			if !happened {
				continue
			}
			send(e)
			if function := w.function(e.Object); e.Created && function != "" {
				send(Event{Object: function, Created: true, Function: true})
			}
		}
	}
}

// functionOf returns the VF of an interface, as PF/N; empty if it is not a VF's.
func (m *Machine) functionOf(name string) string {
	device := path.Join(tree.ClassNet, name, "device")
	pci := m.Target(device)
	for _, pf := range m.List(device + "/physfn/net") {
		for _, entry := range m.List(device + "/physfn") {
			if number, is := strings.CutPrefix(entry, "virtfn"); is && m.Target(device+"/physfn/"+entry) == pci {
				return pf + "/" + number
			}
		}
	}
	return ""
}

// next stores the new state of a device and returns the event for it, if it may have been reset.
func (w *linkWatch) next(d link.Device) (Event, bool) {
	before, known := w.known[d.Index]
	if d.Name == "" {
		d.Name = before.Name
	}
	w.known[d.Index] = d
	switch {
	case !known || before.Name != d.Name:
		return Event{Object: d.Name, Created: true}, true
	case d.Up && !before.Up:
		return Event{Object: d.Name}, true
	case d.Up && d.Carrier == "up" && before.Carrier != "up":
		return Event{Object: d.Name, Carrier: true}, true
	}
	return Event{}, false
}
