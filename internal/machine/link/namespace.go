package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// There is what a network namespace has, read by a thread in it.
type There struct {
	Devices []Device
	Cut     bool // there are further devices, or some whose names cannot be printed
	Routing *facts.Routing
	taps    map[int]filters
}

// filters are the tc filters at a tap's ingress.
type filters struct {
	kinds []string
	to    []string // devices that they send packets to
}

// patienceThere bounds how long a namespace may take to tell its devices, and then its routes: whoever is root there
// chooses how many they are.
const patienceThere = 300 * time.Millisecond

// mostFiltered is how many taps of a namespace are asked for their filters, and mostFilters how many one may have.
const (
	mostFiltered = 64
	mostFilters  = 1024
)

// ReadThere reads the calling thread's network namespace, at most so many devices. /sys has those of the namespace that
// it was mounted in (net/core/net-sysfs.c, net_current_may_mount): nothing is read there.
func ReadThere(m *tree.Tree, most int) (*There, error) {
	conn, err := DialRoute()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patienceThere)); err != nil {
		return nil, err
	}
	t := &There{taps: map[int]filters{}}
	if err := t.dump(conn, most); err != nil {
		return nil, err
	}
	names := t.Names()
	r := routes{links: map[string]Device{}, addressed: map[string]bool{}, uplinks: map[string]bool{}}
	for _, d := range t.Devices {
		r.links[d.Name] = d
		if d.Kind == "tun" && len(t.taps) < mostFiltered {
			if crowded(d) {
				return nil, fmt.Errorf("%s has more than %d tc filters", d.Name, mostFilters)
			}
			f, err := filtersOf(d, t.Devices, names)
			if err != nil {
				return nil, err
			}
			if len(f.kinds) > 0 {
				t.taps[d.Index] = f
			}
		}
	}
	if r.ask(names, patienceThere) == nil {
		t.Routing = &facts.Routing{Forward: forwards(m), Addressed: sorted(r.addressed), Uplinks: sorted(r.uplinks),
			Refusing: r.refusing}
	}
	return t, nil
}

// crowded reports whether a device's ingress has more tc filters than are read: a list of them has no bounds.
func crowded(d Device) bool {
	const sizeofTcMsg, ingress = 20, 0xfffffff2 // struct tcmsg; TC_H_CLSACT, TC_H_MIN_INGRESS
	conn, err := DialRoute()
	if err != nil {
		return false // the list fails as well
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(patienceThere)) != nil {
		return false
	}
	data := make([]byte, sizeofTcMsg)
	binary.NativeEndian.PutUint32(data[4:], uint32(d.Index))
	binary.NativeEndian.PutUint32(data[12:], ingress)
	if _, err := conn.Send(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETTFILTER, Flags: netlink.Request | netlink.Dump}, Data: data,
	}); err != nil {
		return false
	}
	count := 0
	for _, err := range conn.ReceiveIter() {
		if err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
		if count++; count > mostFilters {
			return true
		}
	}
	return false
}

// dump reads the link table without counters, up to a number of devices.
func (t *There) dump(conn *netlink.Conn, most int) error {
	e := netlink.NewAttributeEncoder()
	e.Uint32(unix.IFLA_EXT_MASK, rtextSkipStats)
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = conn.Send(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request | netlink.Dump},
		Data:   append(make([]byte, unix.SizeofIfInfomsg), attributes...),
	})
	if err != nil {
		return fmt.Errorf("list of network devices: %w", tree.Netlink(err))
	}
	for message, err := range conn.ReceiveIter() {
		if err != nil {
			return fmt.Errorf("list of network devices: %w", tree.Netlink(err))
		}
		if len(t.Devices) == most {
			t.Cut = true
			return nil
		}
		d, err := ParseLink(message.Data)
		if err != nil {
			return err
		}
		if !utf8.ValidString(d.Name) || strings.ContainsFunc(d.Name, unicode.IsControl) {
			t.Cut = true
			continue
		}
		t.Devices = append(t.Devices, d)
	}
	slices.SortFunc(t.Devices, func(a, b Device) int { return a.Index - b.Index })
	return nil
}

// Names returns the names of the devices by index.
func (t *There) Names() map[int]string { return NamesOf(t.Devices) }

// NamesOf returns the names of devices by index.
func NamesOf(devices []Device) map[int]string {
	names := make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	return names
}

// Facts returns the devices, with what is beyond those whose other end, or device below, is in another namespace. Space
// returns that namespace and its devices' names, by its number here.
func (t *There) Facts(space func(number int) (id uint64, names map[int]string, known bool)) []facts.Device {
	names := t.Names()
	all := []facts.Device{}
	for i := range t.Devices {
		d := &t.Devices[i]
		if d.flags&unix.IFF_LOOPBACK != 0 {
			continue
		}
		f := facts.Device{
			Name: d.Name, Kind: d.Kind, Master: names[d.master], Lower: names[d.lower], Peer: names[d.peer], Up: d.Up,
			Elsewhere: d.elsewhere, Mode: d.mode, MTU: d.mtu, TxQueues: d.txQueues, XDP: d.xdp,
			Classifiers: t.taps[d.Index].kinds, Redirects: t.taps[d.Index].to,
		}
		switch {
		case d.Kind == "tun" && !d.tunnelOnly:
			f.Kind = "tap"
		case d.Kind == "":
			f.Kind, f.PCI = "NIC", d.parent
		}
		if d.elsewhere {
			if id, there, known := space(d.Space); known && there[d.beyond] != "" {
				f.Beyond = &facts.Place{Namespace: id, Device: there[d.beyond]}
			}
		}
		all = append(all, f)
	}
	return all
}

// tunType is the attribute of a tun device's kind, and justIP the kind without Ethernet (include/uapi/linux/if_link.h,
// IFLA_TUN_TYPE; if_tun.h, IFF_TUN), since Linux 4.17.
const (
	tunType = 3
	justIP  = 1
)

func (d *Device) parseTun(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		if b := ad.Bytes(); ad.Type() == tunType && len(b) == 1 {
			d.tunnelOnly = b[0] == justIP
		}
	}
	return nil
}

// NumberOf returns the number that the connection's network namespace has for another, which a descriptor holds
// (rtnetlink(7), RTM_GETNSID); −1: none, and so no device leads there.
func NumberOf(conn *netlink.Conn, namespace int) (int, error) {
	e := netlink.NewAttributeEncoder()
	e.Uint32(unix.NETNSA_FD, uint32(namespace))
	attributes, err := e.Encode()
	if err != nil {
		return -1, err
	}
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETNSID, Flags: netlink.Request},
		Data:   append(make([]byte, 4), attributes...), // struct rtgenmsg
	})
	if err != nil {
		return -1, fmt.Errorf("number of a network namespace: %w", tree.Netlink(err))
	}
	for _, m := range messages {
		if len(m.Data) < 4 {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return -1, err
		}
		for ad.Next() {
			if b := ad.Bytes(); ad.Type() == unix.NETNSA_NSID && len(b) == 4 {
				return int(int32(binary.NativeEndian.Uint32(b))), nil
			}
		}
	}
	return -1, nil
}

// Programs returns where BPF programs on a device of the host choose where the packets go that arrive at it: "xdp",
// "tc".
func Programs(d Device) []string {
	var all []string
	if d.xdp {
		all = append(all, "xdp")
	}
	if d.Kind == "netkit" || lanes.HasPrograms(lanes.Device{Name: d.Name, Index: d.Index}) { // a netkit is made for one
		all = append(all, "tc")
	}
	return all
}
