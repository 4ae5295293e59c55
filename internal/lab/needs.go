package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// treeBytes is the disk space for building the tree, including fetched packages.
const treeBytes = 2 << 30

// needed maps programs that L0 must have to their Debian packages. The rest (unshare, mount, chroot) is in packages
// that Debian marks essential.
var needed = []struct{ program, pkg string }{
	{"debootstrap", "debootstrap"},
	{"gpgv", "gpgv"},
	{"ip", "iproute2"},
	{"unshare", "util-linux"},
}

// keyring has the keys that the packages of the tree are signed with. debootstrap and apt check them.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// MissingError reports packages that L0 lacks.
type MissingError struct{ Packages []string }

func (e *MissingError) Error() string {
	return "lab: missing packages: " + strings.Join(e.Packages, ", ")
}

// Hint returns the command that installs them.
func (e *MissingError) Hint() string {
	return "apt-get install -y --no-install-recommends " + strings.Join(e.Packages, " ")
}

// privileges is what to do where the kernel refuses what a lab needs.
const privileges = "in a container, give it CAP_SYS_ADMIN and CAP_NET_ADMIN ('docker run --privileged')"

// checkNeeds returns a *MissingError, or another error if the lab cannot run here at all.
func checkNeeds() error {
	if os.Geteuid() != 0 {
		return advise(fmt.Errorf("lab: needs root (network namespaces, taps, a tree with device files), found uid %d",
			os.Geteuid()), "run it as root, such as with sudo")
	}
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, n.pkg)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		missing = append(missing, "debian-archive-keyring")
	}
	if len(missing) > 0 {
		return &MissingError{missing}
	}
	return thread.Do(checkNetwork)
}

// checkNetwork tries what newNetwork and QEMU do: a network namespace, and a tap in it. It leaves the calling thread in
// the namespace, which ends with the thread.
func checkNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return advise(fmt.Errorf("lab: no network namespace: %w", err), privileges)
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		return advise(fmt.Errorf("lab: no tap devices: %w", err), privileges+" and the device")
	}
	if err != nil {
		return advise(fmt.Errorf("lab: no tap devices: %w", err), "modprobe tun")
	}
	defer tun.Close()
	tap, err := unix.NewIfreq("lab")
	if err != nil {
		return err
	}
	tap.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(int(tun.Fd()), unix.TUNSETIFF, tap); err != nil {
		return advise(fmt.Errorf("lab: no tap devices: %w", err), privileges)
	}
	return nil
}

// cacheHint is what to do where the cache cannot be in its folder.
const cacheHint = "name another folder with MPPS_LAB"

// checkCache returns an error if other users could put a tree into the cache: its programs run as root.
func checkCache(dir string) error {
	var folder unix.Stat_t
	if err := unix.Stat(dir, &folder); err != nil {
		return nil // it is made, or found to be unusable, by makeCache
	}
	if folder.Uid != 0 || folder.Mode&0o022 != 0 {
		return advise(fmt.Errorf("lab: no root tree can be in %s: other users can write there, and its programs "+
			"run as root", dir), cacheHint)
	}
	return nil
}

// makeCache creates the cache folder. It returns an error if a tree could not be in it: not writable, or programs and
// device files would not work there.
func makeCache(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return advise(fmt.Errorf("lab: no folder for the root tree: %w", err), cacheHint)
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return advise(fmt.Errorf("lab: no root tree can be in %s: %w", dir, err), cacheHint)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("lab: %s: %w", dir, err)
	}
	if disk.Flags&(unix.ST_NOEXEC|unix.ST_NODEV) != 0 {
		return advise(fmt.Errorf("lab: no root tree can be in %s: its file system is mounted noexec or nodev", dir),
			cacheHint)
	}
	return nil
}

// checkDisk returns an error if the tree does not fit into the file system of a folder.
func checkDisk(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("lab: %s: %w", dir, err)
	}
	return enoughDisk(dir, disk.Bavail*uint64(disk.Bsize))
}

func enoughDisk(dir string, free uint64) error {
	if free >= treeBytes {
		return nil
	}
	return advise(fmt.Errorf("lab: the root tree needs %d MiB in %s, found %d MiB free", treeBytes>>20, dir, free>>20),
		"free space there, or name another folder with MPPS_LAB")
}

// besideMiB is the memory that QEMU, virtiofsd and a measurement need in addition to L1's.
const besideMiB = 512

// checkMemory returns an error if L1's memory is not available without swapping, on the machine or in this process's
// control groups.
func checkMemory(root string, lab int) error {
	available, where, err := availableMiB(root)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	var space unix.Rlimit // QEMU maps all of L1's memory
	if err := unix.Getrlimit(unix.RLIMIT_AS, &space); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if space.Cur>>20 < uint64(available) {
		available, where = int(space.Cur>>20), " to a process (ulimit -v)"
	}
	if available < lab+besideMiB {
		hint := "end other programs and labs ('mpps-lab list')"
		if where != "" {
			hint = "raise that limit, or " + hint
		}
		return advise(fmt.Errorf("lab: a host of %d MiB needs %d MiB of memory, found %d MiB available%s", lab,
			lab+besideMiB, available, where), hint)
	}
	return nil
}

// checkNamespaces returns an error if the build cannot have mount and PID namespaces.
func checkNamespaces(ctx context.Context) error {
	if _, err := output(ctx, nil, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--", "true"); err != nil {
		return advise(fmt.Errorf("lab: no mount and process namespaces for the build: %w", err), privileges)
	}
	return nil
}

// mirrorLimit is the mirror's time to answer.
const mirrorLimit = 8 * time.Second

// checkMirror returns an error if the mirror does not have the suite; proxies are variables such as http_proxy=URL.
func checkMirror(ctx context.Context, mirror string, proxies []string) error {
	const hint = "name another mirror with MPPS_LAB_MIRROR=URL"
	uri, err := url.Parse(strings.TrimSuffix(mirror, "/") + "/dists/" + suite + "/Release")
	if err != nil {
		return advise(fmt.Errorf("lab: package mirror: %w", err), hint)
	}
	switch uri.Scheme {
	case "http", "https":
	case "file":
		if _, err := os.Stat(uri.Path); err != nil {
			return advise(fmt.Errorf("lab: the package mirror lacks %s: %w", suite, err), hint)
		}
		return nil
	default:
		return nil // debootstrap says what is wrong with it
	}
	ctx, cancel := context.WithTimeout(ctx, mirrorLimit)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	for _, p := range proxies {
		if proxy, ok := strings.CutPrefix(p, uri.Scheme+"_proxy="); ok {
			via, err := url.Parse(proxy)
			if err != nil {
				return fmt.Errorf("lab: apt's proxy: %w", err)
			}
			transport.Proxy = http.ProxyURL(via)
		}
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, uri.String(), nil)
	if err != nil {
		return fmt.Errorf("lab: package mirror: %w", err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(ask)
	if err != nil {
		return advise(fmt.Errorf("lab: the package mirror does not answer: %w", err), hint)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return advise(fmt.Errorf("lab: the package mirror answers %s with %s", uri, answer.Status), hint)
	}
	return nil
}
