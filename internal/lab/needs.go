package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// treeBytes is what a build of the tree takes on the disk, the fetched packages included.
const treeBytes = 2 << 30

// needed maps a program that L0 must have to the Debian package that brings it. The rest (unshare,
// mount, chroot) belongs to packages that Debian marks essential.
var needed = []struct{ program, pkg string }{
	{"debootstrap", "debootstrap"},
	{"ip", "iproute2"},
	{"unshare", "util-linux"},
}

// MissingError says which packages L0 lacks.
type MissingError struct{ Packages []string }

func (e *MissingError) Error() string {
	return "lab: missing packages: " + strings.Join(e.Packages, ", ")
}

// Hint is the command that installs them.
func (e *MissingError) Hint() string {
	return "apt-get install -y --no-install-recommends " + strings.Join(e.Packages, " ")
}

// checkNeeds gives a *MissingError, or an error when the lab cannot run here at all.
func checkNeeds() error {
	if os.Geteuid() != 0 {
		return errors.New("lab: needs root (network namespaces, taps, a tree with device files), found uid " + fmt.Sprint(os.Geteuid()))
	}
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil && !slices.Contains(missing, n.pkg) {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) > 0 {
		return &MissingError{missing}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return advise(fmt.Errorf("lab: no tap devices: %w", err), "modprobe tun")
	}
	return nil
}

// checkDisk returns an error if the tree does not fit into the file system of a folder.
func checkDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("lab: %s: %w", dir, err)
	}
	return enoughDisk(dir, fs.Bavail*uint64(fs.Bsize))
}

func enoughDisk(dir string, free uint64) error {
	if free >= treeBytes {
		return nil
	}
	return advise(fmt.Errorf("lab: the root tree needs %d MiB in %s, found %d MiB free", treeBytes>>20, dir, free>>20), "free space there, or name another folder with MPPS_LAB")
}
