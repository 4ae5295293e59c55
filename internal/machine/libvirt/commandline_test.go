package libvirt

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestCommandLinesOfOthers reads command lines that no libvirt has written.
func TestCommandLinesOfOthers(t *testing.T) {
	for line, want := range map[string][]facts.Interface{
		// Proxmox VE 8
		"kvm -id 100 -nodefaults -netdev type=tap,id=net0,ifname=tap100i0,script=/s,downscript=/d,vhost=on,queues=4 " +
			"-device virtio-net-pci,mac=BC:24:11:00:00:01,netdev=net0,bus=pci.0,addr=0x12,id=net0,mq=on,vectors=10," +
			"rx_queue_size=1024,tx_queue_size=256": {{MAC: "bc:24:11:00:00:01", Type: "tap", Tap: "tap100i0",
			Model: "virtio", Backend: "vhost", Queues: 4, RxQueueSize: 1024, TxQueueSize: 256}},
		// without mq the device has one queue whatever the back end has
		"qemu-kvm -netdev tap,id=a,ifname=t,queues=4 -device virtio-net-pci-non-transitional,netdev=a": {{Type: "tap",
			Tap: "t", Model: "virtio-non-transitional", Backend: "qemu", Queues: 1}},
		"qemu-kvm -machine virt -nic tap,ifname=t1,model=virtio-net-device,mac=52:54:00:00:00:07 -nic user": {
			{MAC: "52:54:00:00:00:07", Type: "tap", Tap: "t1", Model: "virtio", Backend: "qemu", Queues: 1},
			{Type: "user", Queues: 1}},
		"qemu-kvm -nic none": nil, "qemu-kvm -net none": nil, "qemu-kvm -nodefaults -m 1G": nil,
		"qemu-kvm -hda disk.img": {{Type: "user", Queues: 1}},
		"qemu-kvm -nic bridge,br=br7,model=e1000e": {{Type: "bridge", Source: "br7", Model: "e1000e", Backend: "qemu",
			Queues: 1}},
		"qemu-kvm -net nic,model=virtio-net-pci,macaddr=52:54:00:00:00:08 -net tap,ifname=t2,vhost=on": {{
			MAC: "52:54:00:00:00:08", Type: "tap", Tap: "t2", Model: "virtio", Backend: "vhost", Queues: 1}},
		"qemu-kvm -netdev user,id=u -net nic,netdev=u,model=rtl8139": {{Type: "user", Model: "rtl8139", Queues: 1}},
		`qemu-kvm -chardev socket,id=c,path=/run/ovs/vhu1,server=on -netdev vhost-user,id=v,chardev=c,queues=2 -device ` +
			`{"driver":"virtio-net-pci","netdev":"v","mq":true}`: {{Type: "vhost-user", Source: "/run/ovs/vhu1",
			Model: "virtio", Queues: 2}},
		"qemu-kvm -netdev vhost-vdpa,vhostdev=/dev/vhost-vdpa-0,id=v -device virtio-net-ccw,netdev=v": {{
			Type: "vhost-vdpa", Source: "/dev/vhost-vdpa-0", Model: "virtio", Queues: 1}},
		`qemu-kvm -netdev {"type":"stream","id":"p","addr":{"type":"unix","path":"/run/passt"}} -device ` +
			`virtio-net-pci,netdev=p`: {{Type: "stream", Model: "virtio", Queues: 1}},
		"qemu-kvm -netdev passt,id=p -device virtio-net-pci,netdev=p": {{Type: "passt", Model: "virtio", Queues: 1}},
		"qemu-kvm -netdev af-xdp,ifname=ens1f0,id=x,queues=2 -device virtio-net-pci,netdev=x,mq=on": {{Type: "af-xdp",
			Source: "ens1f0", Model: "virtio", Queues: 2}},
		// the netdevs come first whatever the order
		"qemu-kvm -nic tap,ifname=b -netdev tap,id=a,ifname=a -device e1000,netdev=a": {
			{Type: "tap", Tap: "a", Model: "e1000", Backend: "qemu", Queues: 1},
			{Type: "tap", Tap: "b", Backend: "qemu", Queues: 1}},
	} {
		q := parseQEMU(strings.Fields(line))
		must.Same(t, q.guest().Interfaces, want, "%s", line)
	}
}

func TestCPUsAndFunctionsOfCommandLine(t *testing.T) {
	for line, cpus := range map[string]int{
		"q -smp 4": 4, "q -smp 4,sockets=1,cores=8": 4, "q -smp cpus=2,maxcpus=8": 2,
		"q -smp sockets=2,cores=4,threads=2": 16,
		"q -smp cores=-3":                    1,
		// products of 2⁶³ and 2⁶⁵
		"q -smp sockets=8192,dies=8192,clusters=8192,modules=8192,cores=2048": maxVCPUs,
		"q -smp sockets=8192,dies=8192,clusters=8192,modules=8192,cores=8192": maxVCPUs,
	} {
		must.Equal(t, parseQEMU(strings.Fields(line)).cpus, cpus, "%s CPUs", line)
	}
	q := parseQEMU(strings.Fields("q -device vfio-pci,host=41:10.0 " +
		"-device vfio-pci,sysfsdev=/sys/bus/pci/devices/0001:41:10.1 " +
		"-device vfio-pci,sysfsdev=/sys/bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"))
	if want := []string{"0000:41:10.0", "0001:41:10.1"}; !reflect.DeepEqual(q.functions, want) {
		t.Errorf("%v, want %v", q.functions, want)
	}
}

// TestHubsAreBounded: QEMU makes eight NICs of -net, each with every back end. A command line of 256 KiB that repeats
// both would make some hundred million of them.
func TestHubsAreBounded(t *testing.T) {
	args := append([]string{"qemu-kvm"}, slices.Repeat([]string{"-net", "nic"}, 300)...)
	args = append(args, slices.Repeat([]string{"-net", "user"}, 200)...)
	must.Equal(t, len(parseQEMU(args).nics), mostHubNICs*200, "NICs")
}

// TestTapsOfProcesses finds taps by what a process holds.
func TestTapsOfProcesses(t *testing.T) {
	process := func(pid, args string, more map[string]string) map[string]string {
		files := map[string]string{
			"proc/" + pid + "/comm": "qemu-kvm\n", "proc/" + pid + "/cmdline": strings.ReplaceAll(args, " ", "\x00"),
			"proc/" + pid + "/ns/net": "-> net:[1]",
		}
		for name, text := range more {
			files["proc/"+pid+"/"+name] = text
		}
		return files
	}
	tun := func(fd, tap string) map[string]string {
		return map[string]string{"fd/" + fd: "-> /dev/net/tun", "fdinfo/" + fd: "pos:\t0\niff:\t" + tap + "\n"}
	}
	m := treetest.Recorded(t, treetest.Merged(
		map[string]string{"proc/1/ns/net": "-> net:[1]", "sys/class/net/mv0/ifindex": "23\n"},
		process("10", "qemu-kvm -name helper -nic bridge", tun("9", "tap0")),
		process("11", "qemu-kvm -name plugged -nodefaults", tun("9", "tap1")),
		process("12", "qemu-kvm -name macvtap -netdev tap,id=a,fd=9 -device virtio-net-pci,netdev=a",
			map[string]string{"fd/9": "-> /dev/tap23", "fdinfo/9": "pos:\t0\n"}),
		process("13", "qemu-kvm -name pod -netdev tap,id=a,ifname=tap0 -device virtio-net-pci,netdev=a",
			map[string]string{"ns/net": "-> net:[2]"}),
		process("14", "qemu-kvm -name two -nic tap -nic tap", treetest.Merged(tun("7", "x"), tun("8", "y"))),
	))
	h := &facts.Host{Taps: []facts.Tap{{Name: "tap0"}, {Name: "tap1"}}}
	WithoutThreads(context.Background(), m, h, &Definitions{})
	must.Hold(t, h.Taps[0].Guest == "helper" && h.Taps[1].Guest == "plugged",
		"%+v; a pod's tap0 is another device", h.Taps)
	for name, want := range map[string]string{"helper": "tap0", "plugged": "tap1", "macvtap": "mv0", "pod": "tap0",
		"two": "  x y"} {
		g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == name })
		taps := facts.Map(g.Interfaces, func(i facts.Interface) string { return i.Tap })
		if got := strings.Join(taps, " "); got != want || g.Elsewhere != (name == "pod") {
			t.Errorf("%s: taps %q, want %q; elsewhere %v", name, got, want, g.Elsewhere)
		}
	}
}

// TestSessionGuests: a guest of qemu:///session, of which the system's libvirtd knows nothing, may have the name of one
// of the system's.
func TestSessionGuests(t *testing.T) {
	const system, session = "604803a9-c81f-45a7-839a-a6ab341a1fa9", "00000000-c81f-45a7-839a-a6ab341a1fa9"
	definition := "<domain type='kvm'><name>web</name><uuid>" + system + "</uuid></domain>\n"
	commandLine := func(uuid string) string {
		return strings.ReplaceAll("qemu-kvm -name guest=web -uuid "+uuid+" -nodefaults", " ", "\x00")
	}
	files := map[string]string{
		DefinedFolder + "/web.xml": definition,
		"proc/20/comm":             "qemu-kvm\n", "proc/20/cmdline": commandLine(session),
	}
	check := func(what string, managed, other int) {
		t.Helper()
		h := &facts.Host{}
		WithoutThreads(context.Background(), treetest.Recorded(t, files), h, &Definitions{})
		must.Need(t, len(h.Guests) == 2, "%s: %+v", what, h.Guests)
		for _, g := range h.Guests {
			if g.Managed && g.PID != managed || !g.Managed && g.PID != other {
				t.Errorf("%s: guest %s, managed %v, is process %d", what, g.Name, g.Managed, g.PID)
			}
			must.Equal(t, g.Managed, g.Name == "web", "%s: process %d is guest %s", what, g.PID, g.Name)
		}
	}
	check("the system's is shut off", 0, 20)
	files[RunningFolder+"/web.xml"] = "<domstatus state='running'>" + definition + "</domstatus>"
	files["proc/30/comm"], files["proc/30/cmdline"] = "qemu-kvm\n", commandLine(system)
	check("both run", 30, 20)
	pins := threadPins{machine: treetest.Recorded(t, files)}
	for range 2 {
		r := pins.Read(context.Background(), setting.Of(setting.ThreadAffinity, "web", "emulator"))
		must.Equal(t, r.State, setting.Unknown, "the threads of one of two processes are taken for the guest's: %+v", r)
	}
}
