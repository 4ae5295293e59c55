package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// suite is the Debian release of the lab: its kernel (6.12) has virtio_pci, virtiofs, FUSE and virtio_console built in,
// so that it needs no initramfs. QEMU is that of its backports: hosts emulated by the release's own, 10.0, die
// (docs/benchmarks.md).
const suite = "trixie"

// packages lists the packages of the tree. It is L1's root and, through its own loader, the QEMU that runs on L0. A
// trailing minus excludes a package: initramfs-tools would spend 20 s on an unused initramfs.
var packages = []string{
	"qemu-system-x86", "virtiofsd", "seabios", "ipxe-qemu",
	"linux-image-amd64", "linux-base", "initramfs-tools-", "xz-utils", "kmod", "udev",
	"libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-daemon-driver-network",
	"libvirt-daemon-driver-nodedev", "libvirt-clients",
	"iproute2", "ethtool", "pciutils", "numactl", "irqbalance", "procps", "busybox-static",
	"iputils-ping", "tcpdump", "nftables", "iptables", "ebtables",
	"iperf3", "netperf", "sockperf", "xdp-tools", "bpftool", "rt-tests",
	"systemd", "systemd-sysv", "dbus", "tuned",
	"grub-common", "grub2-common",
	"openvswitch-switch", // its services are masked: a scene starts the switch with ovs-ctl
	// The same switch with DPDK, a device of the kernel as its port, rings for its pools. DPDK's ABI is in the names.
	"openvswitch-switch-dpdk", "librte-net-af-packet25", "librte-mempool-ring25",
	"passt",
	"qemu-guest-agent", // for guests with Agent, which take it from this tree
}

// aptConf keeps the tree small and unpacking fast.
const aptConf = `APT::Install-Recommends "0";
DPkg::Options {"--force-unsafe-io";"--path-exclude=/usr/share/doc/*";"--path-exclude=/usr/share/man/*";"--path-exclude=/usr/share/locale/*";}
`

//go:embed root
var rootFiles embed.FS

//go:embed enter.sh
var enterScript string

//go:embed install.sh
var installScript string

//go:embed net.sh
var netScript string

// digest identifies a recipe: the tree is rebuilt when any of its input changes.
func digest() string {
	h := sha256.New()
	fmt.Fprintln(h, suite, packages, aptConf, enterScript, installScript)
	err := walkRoot(func(path string, data []byte) error {
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return nil
	})
	if err != nil {
		panic(err) // embedded files cannot fail to be read
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// walkRoot calls f for each embedded file of L1's root, with its path in that root, in a fixed order.
func walkRoot(f func(path string, data []byte) error) error {
	return fs.WalkDir(rootFiles, "root", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := rootFiles.ReadFile(path)
		if err != nil {
			return err
		}
		return f(strings.TrimPrefix(path, "root/"), data)
	})
}

// writeRoot writes the embedded files into a tree; those in /lab are executable.
func writeRoot(tree string) error {
	return walkRoot(func(path string, data []byte) error {
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "lab/") {
			mode = 0o755
		}
		dst := filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(dst, data, mode); err != nil {
			return err
		}
		return os.Chmod(dst, mode)
	})
}
