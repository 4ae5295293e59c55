package lab

import (
	"fmt"
	"path"
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
		"-machine", "q35,accel=kvm", "-cpu", "host", "-m", strconv.Itoa(g.MemoryMiB), "-smp", strconv.Itoa(g.VCPUs),
		"-kernel", kernel, "-initrd", initrd, "-append", g.cmdline(),
		"-serial", "file:"+console, "-pidfile", g.PIDFile(), "-daemonize")
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
		tap, queues := g.tap(i), max(n.Queues, 1)
		multi := ""
		netdev := "tap,id=" + id + ",ifname=" + tap + ",script=no,downscript=no"
		if queues > 1 {
			multi, netdev = " multi_queue", netdev+",queues="+strconv.Itoa(queues)
		}
		prepare.WriteString("ip link del " + tap + " 2>/dev/null || true\n")
		if n.Model == Macvtap {
			fd := 3 + i // of the shell, which QEMU inherits
			fmt.Fprintf(&prepare, "ip link add link %s name %s address %s type macvtap mode bridge\n"+
				"ip link set %[2]s up\nexec %[4]d<>/dev/tap$(cat /sys/class/net/%[2]s/ifindex)\n",
				quote([]string{n.Bridge}), tap, n.MAC, fd)
			netdev = fmt.Sprintf("tap,id=%s,fd=%d", id, fd)
		} else {
			prepare.WriteString("ip tuntap add " + tap + " mode tap" + multi +
				"\nip link set " + tap + " master " + quote([]string{n.Bridge}) + " up\n")
		}
		device := "e1000"
		switch n.Model {
		case Vhost, Macvtap:
			netdev += ",vhost=on"
			device = "virtio-net-pci"
		case Virtio:
			netdev += ",vhost=off"
			device = "virtio-net-pci"
		}
		device += ",netdev=" + id + ",mac=" + n.MAC + ",romfile=" // nothing boots from it
		if queues > 1 {
			// One vector per queue and direction, one for the configuration, one for the control queue.
			device += ",mq=on,vectors=" + strconv.Itoa(2*queues+2)
		}
		if n.RxQueue > 0 {
			device += ",rx_queue_size=" + strconv.Itoa(n.RxQueue)
		}
		argv = append(argv, "-netdev", netdev, "-device", device)
	}
	return "set -e\nmkdir -p " + path.Clean(directDir) + "\nrm -f " + console + " " + g.PIDFile() + "\n" +
		prepare.String() + "exec " + quote(argv), nil
}

// toVFIO binds a VF to vfio-pci and sets its MAC address if its PF is in this network namespace; in another one,
// whoever moved it there has done so.
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
		if n.Model != VF {
			fmt.Fprintf(&b, "ip link del %s 2>/dev/null\n", g.tap(i))
		}
	}
	return b.String() + "exit 0\n"
}
