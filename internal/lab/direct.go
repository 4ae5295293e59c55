package lab

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Folder in L1 for the files of guests that are started directly.
const directDir = "/run/lab/"

// directScript returns the script that starts a guest by a QEMU command line: it recreates taps and binds VFs to
// vfio-pci. Paths are L1's.
func (g *GuestSpec) directScript(kernel, initrd, console string) (string, error) {
	var prepare strings.Builder
	var argv []string
	if g.CPUs != "" {
		argv = []string{"taskset", "-c", g.CPUs}
	}
	argv = append(argv,
		"qemu-system-x86_64", "-name", g.Name, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-cpu", "host", "-smp", strconv.Itoa(g.VCPUs),
		"-kernel", kernel, "-initrd", initrd, "-append", g.cmdline(),
		"-serial", "file:"+console, "-pidfile", g.PIDFile(), "-daemonize")
	argv = append(argv, g.machine()...)
	for i, n := range g.NICs {
		id := "n" + strconv.Itoa(i)
		if n.Model == VF {
			if _, err := parsePCI(n.VF); err != nil {
				return "", err
			}
			prepare.WriteString(toVFIO(n))
			argv = append(argv, "-device", "vfio-pci,host="+n.VF+",rombar=0")
			continue
		}
		made, backend := g.backEnd(i)
		prepare.WriteString(made)
		argv = append(argv, backend...)
		device := "virtio-net-pci"
		if n.Model == E1000 {
			device = "e1000"
		}
		device += ",netdev=" + id + ",mac=" + n.MAC + ",romfile=" // nothing boots from it
		if n.Queues > 1 {
			// One vector per queue and direction, one for the configuration, one for the control queue.
			device += ",mq=on,vectors=" + strconv.Itoa(2*n.Queues+2)
		}
		if n.RxQueue > 0 {
			device += ",rx_queue_size=" + strconv.Itoa(n.RxQueue)
		}
		argv = append(argv, "-device", device)
	}
	return "set -e\nmkdir -p " + path.Clean(directDir) + "\nrm -f " + console + " " + g.PIDFile() + "\n" +
		prepare.String() + "exec " + quote(argv), nil
}

// backEnd returns the script that makes what a NIC is connected to in L1, and QEMU's options for it.
func (g *GuestSpec) backEnd(nic int) (prepare string, options []string) {
	n, id := g.NICs[nic], "n"+strconv.Itoa(nic)
	netdev := func(format string, args ...any) []string {
		return []string{"-netdev", fmt.Sprintf(format, args...)}
	}
	tap, bridge := g.tap(nic), quote([]string{n.Bridge})
	clear := "ip link del " + tap + " 2>/dev/null || true\n"
	switch n.Model {
	case VhostUser:
		return "rm -f " + n.Socket + "\n", append([]string{"-chardev", "socket,id=c" + id + ",path=" + n.Socket +
			",server=on"}, netdev("vhost-user,id=%s,chardev=c%[1]s", id)...)
	case Passt:
		address := netip.MustParsePrefix(n.Addr)
		ports := strings.NewReplacer(",", ",,") // for QEMU
		return "", netdev("passt,id=%s,ipv6=off,interface=%s,address=%s,netmask=%d,gateway=%s,map-host-loopback=none,"+
			"tcp-ports=%s,udp-ports=%s", id, n.Bridge, address.Addr(), address.Bits(), address.Masked().Addr().Next(),
			ports.Replace(n.TCP), ports.Replace(n.UDP))
	case Macvtap:
		fd := 3 + nic // of the shell, which QEMU inherits
		return clear + fmt.Sprintf("ip link add link %s name %s address %s type macvtap mode bridge\n"+
			"ip link set %[2]s up\nexec %[4]d<>/dev/tap$(cat /sys/class/net/%[2]s/ifindex)\n",
			bridge, tap, n.MAC, fd), netdev("tap,id=%s,fd=%d,vhost=on", id, fd)
	}
	multi, more := "", ""
	if n.Queues > 1 {
		multi, more = " multi_queue", ",queues="+strconv.Itoa(n.Queues)
	}
	switch n.Model {
	case Vhost:
		more += ",vhost=on"
	case Virtio:
		more += ",vhost=off"
	}
	return clear + "ip tuntap add " + tap + " mode tap" + multi + "\nip link set " + tap + " master " + bridge +
		" up\n", netdev("tap,id=%s,ifname=%s,script=no,downscript=no%s", id, tap, more)
}

// machine returns QEMU's options for the machine and its memory.
func (g *GuestSpec) machine() []string {
	mem := strconv.Itoa(g.MemoryMiB)
	if !slices.ContainsFunc(g.NICs, func(n NIC) bool { return n.Model == VhostUser }) {
		return []string{"-machine", "q35,accel=kvm", "-m", mem}
	}
	return []string{"-machine", "q35,accel=kvm,memory-backend=ram", "-m", mem,
		"-object", "memory-backend-memfd,id=ram,share=on,size=" + mem + "M"}
}

// toVFIO returns the script that binds a VF to vfio-pci and sets its MAC address. If its PF is in another network
// namespace, the address must have been set before the PF was moved there.
func toVFIO(n NIC) string {
	return fmt.Sprintf(`d=/sys/bus/pci/devices/%[1]s
for p in $d/physfn/net/*; do
	[ -e $p ] || continue
	for v in $d/physfn/virtfn*; do
		[ $(basename $(readlink $v)) != %[1]s ] || ip link set ${p##*/} vf ${v##*virtfn} mac %[2]s
	done
done
echo vfio-pci > $d/driver_override
if [ "$(basename $(readlink $d/driver))" != vfio-pci ]; then
	[ ! -e $d/driver ] || echo %[1]s > $d/driver/unbind
	echo %[1]s > /sys/bus/pci/drivers_probe
fi
`, n.VF, n.MAC)
}

// PIDFile returns the path in L1 of a direct guest's PID file.
func (g GuestSpec) PIDFile() string { return directDir + g.Name + ".pid" }

// tap returns the tap name of a NIC of a direct guest.
func (g *GuestSpec) tap(nic int) string {
	if t := g.NICs[nic].Tap; t != "" {
		return t
	}
	const room = 15 - len("t0-") // IFNAMSIZ is 16 with the final 0
	return fmt.Sprintf("t%d-%s", nic, g.Name[:min(len(g.Name), room)])
}

// directEnd returns the script that kills a direct guest and removes its taps.
func (g *GuestSpec) directEnd() string {
	var b strings.Builder
	fmt.Fprintf(&b, `p=$(cat %s 2>/dev/null)
if [ -n "$p" ]; then
	kill -KILL "$p" 2>/dev/null
	for i in $(seq 100); do [ -e /proc/$p ] || break; sleep 0.1; done
	[ ! -e /proc/$p ] || { echo "QEMU $p does not end" >&2; exit 1; }
fi
rm -f %[1]s
`, g.PIDFile())
	for i, n := range g.NICs {
		if n.tapped() {
			fmt.Fprintf(&b, "ip link del %s 2>/dev/null\n", g.tap(i))
		}
	}
	return b.String() + "exit 0\n"
}
