package lab

import (
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestDirectScript(t *testing.T) {
	for name, c := range map[string]struct {
		nic         NIC
		want, never []string
	}{
		"e1000": {NIC{Model: E1000, Bridge: "br0", MAC: "52:54:00:aa:00:01"},
			[]string{"ip tuntap add t0-guest mode tap\n", "'e1000,netdev=n0,mac=52:54:00:aa:00:01,romfile='",
				"ip link set t0-guest master 'br0' up"}, []string{"vhost", "mq=on", "multi_queue"}},
		"virtio": {NIC{Model: Virtio, Bridge: "br0"}, []string{"vhost=off", "virtio-net-pci"}, []string{"mq=on"}},
		"vhost": {NIC{Model: Vhost, Bridge: "br0", Tap: "mytap", RxQueue: 1024},
			[]string{"vhost=on", "ifname=mytap,", "rx_queue_size=1024"}, []string{"t0-"}},
		"vhost, multiqueue": {NIC{Model: Vhost, Bridge: "br0", Queues: 4},
			[]string{"mode tap multi_queue\n", "vhost=on", "queues=4", "mq=on,vectors=10"}, nil},
		"macvtap": {NIC{Model: Macvtap, Bridge: "p7", MAC: "52:54:00:aa:00:03"},
			[]string{"ip link add link 'p7' name t0-guest", "exec 3<>/dev/tap", "tap,id=n0,fd=3,vhost=on"},
			[]string{"tuntap", "memfd"}},
		"vhost-user": {NIC{Model: VhostUser, Socket: "/run/vhu0"}, []string{"rm -f /run/vhu0\n",
			"'socket,id=cn0,path=/run/vhu0,server=on' '-netdev' 'vhost-user,id=n0,chardev=cn0'", "memory-backend=ram",
			"'memory-backend-memfd,id=ram,share=on,size=512M'"}, []string{"tuntap", "ip link"}},
		"passt": {NIC{Model: Passt, Bridge: "p8", Addr: "10.60.8.2/24", TCP: "7878,50000-50099", UDP: "9"},
			[]string{"'passt,id=n0,ipv6=off,interface=p8,address=10.60.8.2,netmask=24,gateway=10.60.8.1,",
				"tcp-ports=7878,,50000-50099,udp-ports=9'", "arp_notify=1"}, []string{"tuntap", "vhost=", "memfd"}},
		"vf": {NIC{Model: VF, VF: "0000:01:10.0", MAC: "52:54:00:aa:00:02"},
			[]string{"'vfio-pci,host=0000:01:10.0,rombar=0'", "mac 52:54:00:aa:00:02", "driver_override"},
			[]string{"tuntap", "netdev"}},
	} {
		g := GuestSpec{Name: "guest-of-a-long-name", Direct: true, NICs: []NIC{c.nic}, MemoryMiB: 512, VCPUs: 3}
		if name == "e1000" {
			g.Name, g.CPUs, c.want = "guest", "1-3", append(c.want, "exec 'taskset' '-c' '1-3' 'qemu")
		}
		must.Do(t, g.fill())
		script := must.Get(g.directScript("/boot/vmlinuz", "/share/initrd", "/run/lab/guest.console"))(t)
		for _, want := range append(c.want, "set -e\n", "'qemu-system-x86_64'", "'-m' '512'", "'-smp' '3'",
			"mpps.hostname="+g.Name, "'-pidfile' '/run/lab/"+g.Name+".pid'") {
			must.Hold(t, strings.Contains(script, want), "%s: expected %q in\n%s", name, want, script)
		}
		for _, never := range c.never {
			must.Hold(t, !strings.Contains(script, never), "%s: found %q in\n%s", name, never, script)
		}
		if end := g.directEnd(); g.NICs[0].tapped() != strings.Contains(end, "ip link del") ||
			!strings.Contains(end, "kill -KILL") {
			t.Errorf("%s: ended by\n%s", name, end)
		}
		if tap := g.tap(0); len(tap) > 15 {
			t.Errorf("%s: tap %s has %d bytes", name, tap, len(tap))
		}
	}
	g := GuestSpec{Name: "g", Direct: true, Agent: true, NICs: []NIC{{Model: Vhost, Bridge: "br0"}}}
	must.Refuse(t, g.fill(), "an agent without libvirt was accepted")
	for _, bad := range []NIC{{Model: VhostUser}, {Model: Passt, Bridge: "p8"}, {Model: Passt, Addr: "10.0.0.2/24"},
		{Model: VhostUser, Socket: "/run/vhu0", Queues: 2}} {
		g := GuestSpec{Name: "g", Direct: true, NICs: []NIC{bad}}
		must.Refuse(t, g.fill(), "%+v was accepted", bad)
		g.NICs[0], g.Direct = NIC{Model: VhostUser, Socket: "/run/vhu0"}, false
		must.Refuse(t, g.fill(), "vhost-user in a definition was accepted")
	}
}
