package traffic

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// netnsDir holds the names of network namespaces (ip-netns(8)).
const netnsDir = "/run/netns"

// An Endpoint is a network interface in this process's network namespace or in a named one.
type Endpoint struct {
	Netns string `json:"netns,omitempty"` // name under /run/netns, "" for this one
	Iface string `json:"iface"`
}

// ParseEndpoint reads IFACE or netns:NAME/IFACE. Interface names are limited as in the kernel: 1–15 bytes, without
// slash, colon or space (dev_valid_name in net/core/dev.c).
func ParseEndpoint(s string) (Endpoint, error) {
	var e Endpoint
	rest, named := strings.CutPrefix(s, "netns:")
	if named {
		var found bool
		e.Netns, rest, found = strings.Cut(rest, "/")
		if !found {
			return Endpoint{}, fmt.Errorf("endpoint %q: want netns:NAME/IFACE", s)
		}
		if e.Netns == "" || e.Netns == "." || e.Netns == ".." || strings.ContainsRune(e.Netns, 0) {
			return Endpoint{}, fmt.Errorf("endpoint %q: bad namespace name %q", s, e.Netns)
		}
	}
	if rest == "" || len(rest) > unix.IFNAMSIZ-1 || rest == "." || rest == ".." ||
		strings.ContainsAny(rest, "/: \t\n\v\f\r\x00") {
		return Endpoint{}, fmt.Errorf("endpoint %q: bad interface name %q, want 1 to %d bytes without slash, colon "+
			"or space", s, rest, unix.IFNAMSIZ-1)
	}
	e.Iface = rest
	return e, nil
}

func (e Endpoint) String() string {
	if e.Netns == "" {
		return e.Iface
	}
	return "netns:" + e.Netns + "/" + e.Iface
}

// Do calls f on a thread in the endpoint's network namespace. Goroutines that f starts do not run there. The thread
// ends with f.
func (e Endpoint) Do(f func() error) error {
	if e.Netns == "" {
		return f()
	}
	return thread.Do(func() error {
		if err := enterNetns(e.Netns); err != nil {
			return err
		}
		return f()
	})
}

// enterNetns moves the calling thread, which must be locked, to a network namespace for good.
func enterNetns(name string) error {
	if name == "" {
		return nil
	}
	path := filepath.Join(netnsDir, name)
	if filepath.IsAbs(name) { // NewNetns
		path = name
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", name, err)
	}
	return nil
}

// A Device is the network device behind an Endpoint.
type Device struct {
	Endpoint
	Index int
	Kind  string // netlink kind: veth, tun, bridge, … or "device" for a NIC
	MTU   int    // bytes without the Ethernet header
	MAC   net.HardwareAddr
	Up    bool
	// PeerIndex is the other end of a veth pair, 0 for none. PeerNSID is the id of the peer's namespace in this
	// namespace, -1 if they are the same.
	PeerIndex, PeerNSID int
}

// ErrNoDevice means that the interface of an endpoint does not exist.
var ErrNoDevice = errors.New("no such interface")

// Device looks up the endpoint.
func (e Endpoint) Device() (Device, error) {
	d := Device{Endpoint: e, PeerNSID: -1}
	err := e.Do(func() error {
		l, err := netlink.LinkByName(e.Iface)
		if err != nil {
			var missing netlink.LinkNotFoundError
			if errors.As(err, &missing) || errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s: %w", e, ErrNoDevice)
			}
			return fmt.Errorf("%s: %w", e, err)
		}
		a := l.Attrs()
		d.Index, d.Kind, d.MTU, d.MAC = a.Index, l.Type(), a.MTU, a.HardwareAddr
		d.Up = a.Flags&net.FlagUp != 0
		if d.Kind == "veth" {
			d.PeerIndex, d.PeerNSID = a.ParentIndex, a.NetNsID
		}
		return nil
	})
	return d, err
}
