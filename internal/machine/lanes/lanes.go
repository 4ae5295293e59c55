// Package lanes attaches the programs that carry a guest's choice of a queue from its tap to the NIC (bpf/lanes.bpf.c),
// reads what is attached, changes the windows while traffic runs, and removes all of it. Its objects are pinned in the
// bpf file system and outlive the process:
//
//	/sys/fs/bpf/mpps/lanes-v1/NIC/windows   the NIC queues of each tap, by the tap's ifindex, for the programs
//	                              entries   the same as requested, by the tap's name or its guest's address
//	                              nic       the link of the NIC's program (tcx, Linux 6.6 and later)
//	                              tap-17    the link of a tap's program, by ifindex
//
// On older kernels the programs are filters of a clsact qdisc, which need no pin; only the maps are pinned.
package lanes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/owner"
)

// FileSystem is the mount point of the bpf file system, which keeps pinned eBPF objects.
const FileSystem = "/sys/fs/bpf"

// version is the version of the programs and maps. Those of another version are never changed, only removed.
const (
	versionPrefix = "lanes-v"
	version       = versionPrefix + "1"
)

// Device is a network device of this network namespace.
type Device struct {
	Name  string
	Index int
	// Unrecorded is set if the device passes frames on with the index of the sender's transmit queue, from 0, instead
	// of recording a receive queue, from 1 (drivers/net/veth.c, veth_xmit; compare drivers/net/tun.c, tun_get_user).
	Unrecorded bool
}

// Program steers the packets that leave by one NIC.
type Program struct {
	Root string // the file system: FileSystem except in tests
	NIC  Device
	// Find returns the current device of a lane's tap; false if there is none.
	Find func(tap string) (Device, bool)
	// Between returns the known devices that a tap's packets pass on their way to the NIC; nil: none.
	Between func(tap Device) []Device
	// Filters uses clsact filters even if the kernel has tcx.
	Filters bool
}

// side is one of the two programs.
type side int

const (
	tapSide side = iota // at a tap's ingress: what its guest sends
	nicSide             // at the NIC's egress
)

// NoFileSystem is the error if the bpf file system is not mounted.
type NoFileSystem struct{ Root string }

func (e *NoFileSystem) Error() string {
	return e.Root + ": expected the bpf file system, found none: what is attached would go with this process"
}

// Hint returns what to do.
func (e *NoFileSystem) Hint() string {
	return "mount -t bpf bpf " + e.Root + " (systemd does it at boot; in a container it is the host's business)"
}

// mounted returns an error unless the bpf file system is mounted (include/uapi/linux/magic.h, BPF_FS_MAGIC).
func (p Program) mounted() error {
	var fs unix.Statfs_t
	err := unix.Statfs(p.Root, &fs)
	switch {
	case errors.Is(err, unix.ENOENT), err == nil && uint32(fs.Type) != unix.BPF_FS_MAGIC:
		return &NoFileSystem{p.Root}
	case err != nil:
		return fmt.Errorf("%s: %w", p.Root, err)
	}
	return nil
}

// Foreign is the error if a directory for pinned objects is another user's: what is pinned there is believed. The bpf
// file system lets everybody make one, unless it is mounted with another mode (kernel/bpf/inode.c: 1777).
type Foreign struct {
	Dir string
	Err error
}

func (e *Foreign) Error() string { return e.Dir + ": " + e.Err.Error() }

func (e *Foreign) Unwrap() error { return e.Err }

// Hint returns what to do.
func (e *Foreign) Hint() string { return "see who made it and what is pinned there, and remove it" }

// owned refuses directories that others than root or this user own or can write. Those that do not exist pass.
func (p Program) owned() error {
	for dir := p.dir(); dir != filepath.Clean(p.Root); dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = errors.New("it is no directory")
		}
		if err == nil {
			err = owner.Check(info)
		}
		if err != nil {
			return &Foreign{dir, err}
		}
	}
	return nil
}

// folder returns the name of the NIC's directory. The file system reserves names with dots (kernel/bpf/inode.c,
// bpf_lookup), and no device name has a colon (net/core/dev.c, dev_valid_name).
func (p Program) folder() string { return strings.ReplaceAll(p.NIC.Name, ".", ":") }

func (p Program) dir() string { return filepath.Join(p.Root, "mpps", version, p.folder()) }

// The names in the directory.
const (
	windowsPin = "windows"
	entriesPin = "entries"
	nicPin     = "nic"
	tapPin     = "tap-"
)

func (p Program) pin(d Device, s side) string {
	if s == nicSide {
		return filepath.Join(p.dir(), nicPin)
	}
	return filepath.Join(p.dir(), fmt.Sprintf("%s%d", tapPin, d.Index))
}

// otherVersions returns the NIC's directories of other versions.
func (p Program) otherVersions() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(p.Root, "mpps", versionPrefix+"*", p.folder()))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(dir string) bool { return dir == p.dir() }), nil
}

// begun reports whether one of the directories above the NIC's is empty: a write was killed before it made the NIC's
// own. Without that a rollback would find nothing to put back, and leave them.
func (p Program) begun() bool {
	for dir := filepath.Dir(p.dir()); dir != filepath.Clean(p.Root); dir = filepath.Dir(dir) {
		if below, err := os.ReadDir(dir); err == nil {
			return len(below) == 0
		}
	}
	return false
}

// Steered returns the names of the NICs that have a directory of this version.
func Steered(root string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "mpps", version, "*"))
	if err != nil {
		return nil, err
	}
	var nics []string
	for _, dir := range dirs {
		nics = append(nics, strings.ReplaceAll(filepath.Base(dir), ":", "."))
	}
	return nics, nil
}

// Read returns the lanes that are in effect, and those whose tap does not exist now. there is false if nothing of mpps
// is attached to the NIC.
func (p Program) Read() (lanes []setting.Lane, there bool, err error) {
	others, err := p.otherVersions()
	if err != nil {
		return nil, false, err
	}
	if len(others) > 0 {
		return nil, true, fmt.Errorf("%s: expected %s, found the program of another version of mpps", others[0],
			version)
	}
	if exists, err := p.Exists(); !exists || err != nil {
		return nil, err == nil && p.begun(), err
	}
	m, err := p.openMaps()
	if err != nil {
		return nil, true, err
	}
	if m == nil {
		return nil, true, nil // left by a killed write
	}
	defer m.close()
	if is, err := p.attached(p.NIC, nicSide); !is || err != nil {
		return nil, true, err
	}
	entries, err := m.requested()
	if err != nil {
		return nil, true, err
	}
	erases := map[int]bool{}
	for _, e := range entries {
		d, found := p.Find(e.Tap)
		if found {
			if is, err := p.steers(m, e, d, erases); err != nil {
				return nil, true, err
			} else if !is {
				continue
			}
		}
		lanes = append(lanes, e)
	}
	return lanes, true, nil
}

// steers reports whether a lane is in effect on a device: the program has its window and is attached, and no classifier
// erases the lane.
func (p Program) steers(m *maps, l setting.Lane, d Device, erases map[int]bool) (bool, error) {
	if is, err := m.hasWindow(d, l); !is || err != nil {
		return false, err
	}
	if gone, err := p.erased(d, erases); gone || err != nil {
		return false, err
	}
	return p.attached(d, tapSide)
}
