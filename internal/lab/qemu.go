package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ports is the number of L1's command ports, and so of concurrent commands.
const ports = 8

// loader returns the command line that runs a program of the tree on L0 with the tree's own libraries.
func (t *Tree) loader(program string) []string {
	r := t.Root()
	return []string{
		filepath.Join(r, "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		"--library-path", filepath.Join(r, "usr/lib/x86_64-linux-gnu"),
		filepath.Join(r, program),
	}
}

// qemu returns the command line of the tree's QEMU up to its data folders, and its environment.
func (t *Tree) qemu() (argv, env []string) {
	r := t.Root()
	argv = append(t.loader("usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(r, "usr/share/qemu"), "-L", filepath.Join(r, "usr/share/seabios"))
	return argv, []string{"QEMU_MODULE_DIR=" + filepath.Join(r, "usr/lib/x86_64-linux-gnu/qemu")}
}

// virtiofsd returns the command line that serves a folder on a socket. It ends with its QEMU.
func (t *Tree) virtiofsd(socket, dir string, more ...string) []string {
	return append(append(t.loader("usr/libexec/virtiofsd"),
		"--socket-path="+socket, "--shared-dir="+dir, "--sandbox=none", "--seccomp=none",
		// A file that was removed under a saved host is gone for its user, not for the whole host.
		"--migration-on-error=guest-error"), more...)
}

// machine is what the command line of L1's QEMU depends on.
type machine struct {
	Tree      *Tree
	Run       string // folder of sockets and logs
	Accel     Accel
	CPUs      int // split between the two nodes
	MemoryMiB int // split between the two nodes
	Mode      Mode
	Realtime  Realtime
	Kernel    string   // image of L1's kernel
	Menu      []string // kernel arguments of L1's boot menu
	Args      []string // and those of Config
	Persist   bool     // a third file system, "upper", is the upper layer
	Disk      string   // image of a disk that is the upper layer instead; empty: none
	Restored  bool     // waits for a saved state instead of booting
}

// argv returns the whole command line. Every device names its bus: with a pxb present, QEMU would otherwise put some
// behind it and fail.
func (m machine) argv() []string {
	a, _ := m.Tree.qemu()
	add := func(words ...string) { a = append(a, words...) }
	sock := func(name string) string { return filepath.Join(m.Run, name) }

	add("-name", "l1", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none")
	if m.Accel == KVM {
		// Interrupt remapping of intel-iommu needs the split irqchip under KVM.
		cpu := "host"
		if m.Realtime != "" {
			cpu += ",migratable=off" // with the CPU's invariant TSC, if it has one
		}
		add("-machine", "q35,kernel-irqchip=split", "-accel", "kvm", "-cpu", cpu)
	} else {
		cpu := "EPYC-Rome"
		if m.Realtime != "" {
			cpu += ",-hypervisor" // otherwise the kernel does not look at the serial number
			add("-smbios", "type=1,serial=VMware-lab")
		}
		add("-machine", "q35,kernel-irqchip=off", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", cpu)
	}
	half := m.MemoryMiB / 2
	add("-m", fmt.Sprintf("%dM", 2*half), "-smp", fmt.Sprintf("%d,sockets=2,cores=%d,threads=1", m.CPUs, m.CPUs/2),
		"-object", fmt.Sprintf("memory-backend-memfd,id=m0,size=%dM,share=on", half),
		"-object", fmt.Sprintf("memory-backend-memfd,id=m1,size=%dM,share=on", half),
		"-numa", fmt.Sprintf("node,nodeid=0,cpus=0-%d,memdev=m0", m.CPUs/2-1),
		"-numa", fmt.Sprintf("node,nodeid=1,cpus=%d-%d,memdev=m1", m.CPUs/2, m.CPUs-1),
		"-numa", "dist,src=0,dst=1,val=21")
	// intel-iommu even with an AMD CPU: amd-iommu hangs virtio and starves igb behind the pxb.
	add("-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on")

	fs := []string{"labroot", "share"}
	if m.Realtime != "" {
		fs = append(fs, "labover")
	}
	switch {
	case m.Disk != "":
		add("-drive", "if=none,id=d0,file="+m.Disk+",format=raw,cache=writeback", "-device",
			"virtio-blk-pci,drive=d0,bus=pcie.0")
	case m.Persist:
		fs = append(fs, "upper")
	}
	for _, tag := range fs {
		add("-chardev", "socket,id=fs-"+tag+",path="+sock(tag+".sock"),
			"-device", "vhost-user-fs-pci,bus=pcie.0,chardev=fs-"+tag+",tag="+tag)
	}

	// A pipe always counts as connected, so L1 blocks on its ports instead of polling them.
	add("-device", "virtio-serial-pci,id=vs0,bus=pcie.0")
	for _, p := range portNames() {
		add("-chardev", "pipe,id="+p+",path="+sock(p), "-device", "virtserialport,bus=vs0.0,chardev="+p+",name=mpps."+
			strings.TrimPrefix(p, "port"))
	}

	add("-device", "pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=64,numa_node=1",
		"-device", "pcie-root-port,id=rp1,bus=pxb1,chassis=1,slot=1",
		"-device", "pcie-root-port,id=rp2,bus=pcie.0,chassis=2,slot=2",
		"-device", "pcie-root-port,id=rp3,bus=pcie.0,chassis=3,slot=3",
		"-netdev", "tap,id=n0,ifname=p0,script=no,downscript=no",
		"-device", "igb,id=igb0,bus=rp1,netdev=n0,mac="+MACigb0,
		"-netdev", "tap,id=n1,ifname=p1,script=no,downscript=no",
		"-device", "igb,id=igb1,bus=rp2,netdev=n1,mac="+MACigb1,
		"-netdev", "tap,id=n2,ifname=v0,script=no,downscript=no,queues=4",
		"-device", "virtio-net-pci,id=vn0,bus=rp3,netdev=n2,mac="+MACvirtio+
			",mq=on,vectors=10,iommu_platform=on,disable-legacy=on,ats=on,rss=on,hash=on")

	// /lab/heart feeds it; a host that stops feeding it ends (WATCHDOG event).
	add("-device", "i6300esb,bus=pcie.0", "-action", "watchdog=poweroff")
	add("-serial", "file:"+sock("serial.log"), "-monitor", "none",
		"-qmp", "unix:"+sock("qmp.sock")+",server=on,wait=off",
		"-chardev", "file,id=ev,path="+sock(eventsLog)+",input-path="+sock("events.in"), "-mon",
		"chardev=ev,mode=control")
	add("-kernel", m.Kernel, "-append", m.cmdline())
	if m.Restored {
		add("-incoming", "defer")
	}
	return a
}

// L1's NICs. Find them by address: their names depend on the mode.
const (
	MACigb0   = "52:54:00:00:01:00" // igb, NUMA node 1
	MACigb1   = "52:54:00:00:02:00" // igb, no node
	MACvirtio = "52:54:00:00:03:00" // virtio-net, 4 queue pairs
)

// portNames returns the pipes of L1's ports: the command ports and one for a terminal.
func portNames() []string {
	var p []string
	for i := range ports {
		p = append(p, fmt.Sprintf("port%d", i))
	}
	return append(p, "porttty")
}

// cmdline returns L1's kernel command line: the root and other arguments only the lab knows, those of L1's boot menu,
// and those of Config.
func (m machine) cmdline() string {
	a := []string{"root=labroot", "rootfstype=virtiofs", "ro", "init=/lab/init", "lab.mode=" + string(m.Mode)}
	switch {
	case m.Disk != "":
		a = append(a, "lab.upper=/dev/vda")
	case m.Persist:
		a = append(a, "lab.upper=virtiofs:upper")
	}
	if over := m.Realtime.over(); over != nil {
		a = append(a, "lab.over="+strings.Join(over, ","))
	}
	if m.Mode == Systemd {
		// tuned needs longer than the 90 s that systemd gives a service by default, when three hosts share two CPUs.
		a = append(a, "systemd.show_status=0", "systemd.default_timeout_start_sec=600")
	}
	return strings.Join(slices.Concat(a, m.Menu, m.Args), " ")
}
