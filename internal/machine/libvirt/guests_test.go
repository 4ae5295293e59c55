package libvirt

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ofLibvirt is libvirt's command line of a guest with five NICs: vhost with two queues, e1000, vhost with one queue,
// virtio without vhost, and vhost-user.
const ofLibvirt = `/usr/bin/qemu-system-x86_64 -name|guest=lab,,one,debug-threads=on -S -object|{"qom-type":"secret","id":"masterKey0"} -machine|pc-q35-10.0,usb=off,acpi=on -accel|kvm -m|size=262144k -smp|2,sockets=2,cores=1,threads=1 -uuid|604803A9-c81f-45a7-839a-a6ab341a1fa9 -nodefaults -boot|strict=on -device|{"driver":"qemu-xhci","id":"usb","bus":"pci.6"} -netdev|{"type":"tap","fds":"25:26","vhost":true,"vhostfds":"27:28","id":"hostnet0"} -device|{"driver":"virtio-net-pci","mq":true,"vectors":6,"netdev":"hostnet0","id":"net0","mac":"52:54:00:aa:00:01"} -netdev|{"type":"tap","fd":"29","id":"hostnet1"} -device|{"driver":"e1000","netdev":"hostnet1","mac":"52:54:00:aa:00:02"} -netdev|{"type":"tap","fd":"30","vhost":true,"vhostfd":"31","id":"hostnet2"} -device|{"driver":"virtio-net-pci","netdev":"hostnet2","mac":"52:54:00:AA:00:03"} -netdev|{"type":"tap","fd":"32","id":"hostnet3"} -device|{"driver":"virtio-net-pci","netdev":"hostnet3","mac":"52:54:00:aa:00:04"} -netdev|{"type":"vhost-user","chardev":"c0","queues":4,"id":"hostnet4"} -device|{"driver":"virtio-net-pci","netdev":"hostnet4","mac":"52:54:00:aa:00:05"} -msg|timestamp=on`

func TestParseQEMU(t *testing.T) {
	found := parseQEMU(strings.FieldsFunc(ofLibvirt, func(r rune) bool { return r == ' ' || r == '|' }))
	want := qemu{
		name: "lab,one", uuid: "604803a9-c81f-45a7-839a-a6ab341a1fa9", cpus: 2, mem: 256 << 20, mach: "pc-q35-10.0",
		kvm: true,
		nics: []qemuNIC{
			{id: "hostnet0", mac: "52:54:00:aa:00:01", model: "virtio-net-pci", kind: "tap", tap: "fd:25", vhost: true, queues: 2},
			{id: "hostnet1", mac: "52:54:00:aa:00:02", model: "e1000", kind: "tap", tap: "fd:29", queues: 1},
			{id: "hostnet2", mac: "52:54:00:aa:00:03", model: "virtio-net-pci", kind: "tap", tap: "fd:30", vhost: true, queues: 1,
				single: true},
			{id: "hostnet3", mac: "52:54:00:aa:00:04", model: "virtio-net-pci", kind: "tap", tap: "fd:32", queues: 1,
				single: true},
			{id: "hostnet4", mac: "52:54:00:aa:00:05", model: "virtio-net-pci", kind: "vhost-user", queues: 4,
				single: true},
		},
	}
	must.Hold(t, reflect.DeepEqual(found, want), "expected %+v\nfound    %+v", want, found)

	byHand := parseQEMU([]string{
		"qemu-kvm", "-enable-kvm", "-name", "wild", "-m", "2G", "-smp", "cpus=4", "-M", "q35", "-netdev",
		"tap,id=n0,ifname=wt0,script=no,vhost=on,queues=2", "-device",
		"virtio-net-pci,netdev=n0,mac=52:54:0:cc:0:1,mq=on", "-snapshot",
	})
	want = qemu{
		name: "wild", cpus: 4, mem: 2 << 30, mach: "q35", kvm: true,
		nics: []qemuNIC{{id: "n0", mac: "52:54:00:cc:00:01", model: "virtio-net-pci", kind: "tap", tap: "wt0", vhost: true, queues: 2}},
	}
	must.Hold(t, reflect.DeepEqual(byHand, want), "expected %+v\nfound    %+v", want, byHand)
	for _, line := range [][]string{nil, {""}, {"q", "-netdev"}, {"q", "-netdev", "{"}, {"q", "-m", "99999999999T"},
		{"q", "-smp", "x", "-name"}, {"q", "-netdev", "tap,id=a,queues=-5"}} {
		if q := parseQEMU(line); q.mem == 0 || q.cpus != 1 || len(q.nics) > 1 || len(q.nics) == 1 &&
			q.nics[0].queues != 1 {
			t.Errorf("%q became %+v", line, q)
		}
	}
}

func TestTitlesAreElementsOfAddresses(t *testing.T) {
	for name, want := range map[string]string{"vm1": "vm1", "a b": "a b", "a/b\x1b": "a_b_", "": "qemu-7",
		"..": "qemu-7"} {
		if found := (qemu{name: name, pid: 7}).Title(); found != want {
			t.Errorf("%q: expected %q, found %q", name, want, found)
		}
	}
}

func FuzzParseQEMU(f *testing.F) {
	f.Add(ofLibvirt)
	f.Fuzz(func(t *testing.T, text string) {
		q := parseQEMU(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '|' }))
		for _, nic := range q.nics {
			must.Hold(t, nic.queues >= 1 && nic.queues <= len(text)+256, "%d queues", nic.queues)
		}
	})
}

func TestVhostWorkersAreMatchedByOrderAndNumber(t *testing.T) {
	nics := parseQEMU(strings.FieldsFunc(ofLibvirt, func(r rune) bool { return r == ' ' || r == '|' })).nics
	const one, three, plugged = "52:54:00:aa:00:01", "52:54:00:aa:00:03", "52:54:00:aa:00:09"
	running := func(macs ...string) *domain.Guest {
		var g domain.Guest
		for _, mac := range macs {
			g.Interfaces = append(g.Interfaces, domain.Interface{MAC: mac, Type: "bridge", Model: "virtio"})
		}
		return &g
	}
	cases := map[string]struct {
		nics    []qemuNIC
		live    *domain.Guest
		workers int
		want    string
	}{
		"as started":          {nics, nil, 3, one + "/0 " + one + "/1 " + three + "/0"},
		"with the definition": {nics, running(one, three), 3, one + "/0 " + one + "/1 " + three + "/0"},
		"one plugged in": {nics, running(one, three, plugged), 4, one + "/0 " + one + "/1 " + three + "/0 " +
			plugged + "/0"},
		"one pulled out":       {nics, running(three), 1, three + "/0"},
		"too few":              {nics, nil, 2, "? ?"},
		"too many":             {nics, nil, 4, "? ? ? ?"},
		"none":                 {nil, nil, 0, ""},
		"nobody knows of them": {nil, nil, 2, "? ?"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			threads := []facts.Thread{{Role: "emulator", Queue: -1}}
			for range c.workers {
				threads = append(threads, facts.Thread{Role: "vhost", Queue: -1})
			}
			matchVhosts(threads, vhostQueues(c.nics, c.live))
			var found []string
			for i, thread := range threads[1:] {
				must.Hold(t, thread.Index == i, "worker %d has number %d", i, thread.Index)
				if thread.Sure == "" {
					found = append(found, "?")
					continue
				}
				found = append(found, fmt.Sprintf("%s/%d", thread.NIC, thread.Queue))
				if want := map[bool]facts.Sure{true: facts.OnlyOne,
					false: facts.ByOrder}[c.workers == 1]; thread.Sure != want {
					t.Errorf("sure by %q, expected %q", thread.Sure, want)
				}
			}
			if text := strings.Join(found, " "); text != c.want {
				t.Errorf("expected %s, found %s", c.want, text)
			}
		})
	}
}

const definedXML = `<domain type='kvm'>
  <name>vm 1</name>
  <uuid>604803a9-c81f-45a7-839a-a6ab341a1fa9</uuid>
  <memory unit='MiB'>256</memory>
  <memoryBacking><hugepages/></memoryBacking>
  <vcpu placement='static' current='1'>2</vcpu>
  <cputune>
    <vcpupin vcpu='1' cpuset='0-3,^2'/>
    <emulatorpin cpuset='0-1'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='1'/>
  </numatune>
  <os>
    <type arch='x86_64' machine='pc-q35-10.0'>hvm</type>
  </os>
  <cpu mode='host-passthrough'/>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:aa:00:01'/>
      <source bridge='br0'/>
      <model type='virtio'/>
      <driver name='vhost' queues='2' rx_queue_size='1024'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:aa:00:07'/>
      <source>
        <address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x1'/>
      </source>
    </interface>
    <graphics type='vnc' port='-1' passwd='sesame'/>
  </devices>
</domain>
`

// guestHost returns a host with a running guest of libvirt, one that is shut off, and one that libvirt does not know.
func guestHost(t *testing.T) *tree.Tree { return guestHostWith(t, nil) }

// guestHostWith returns guestHost with more files.
func guestHostWith(t *testing.T, more map[string]string) *tree.Tree {
	t.Helper()
	running := strings.NewReplacer(
		"<domain type='kvm'>", "<domain type='kvm' id='1'>", "queues='2'", "queues='1'",
		"<source bridge='br0'/>", "<source bridge='br0'/><target dev='vnet3'/>",
	).Replace(definedXML)
	zero := func(words string) string { return strings.NewReplacer(" ", "\x00", "_", " ").Replace(words) }
	all := map[string]string{
		"etc/libvirt/qemu/vm 1.xml": "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n" + definedXML,
		"etc/libvirt/qemu/vm2.xml": strings.NewReplacer("vm 1", "vm2", "604803a9", "704803a9", "00:aa",
			"00:bb").Replace(definedXML),
		"etc/libvirt/qemu/bad.xml": "<domain><name>bad</domain>",
		"run/libvirt/qemu/vm 1.xml": "<domstatus state='running' reason='booted' pid='300'>\n<domainJob/>\n" + running +
			"</domstatus>\n",
		"proc/300/comm": "qemu-system-x86",
		"proc/300/cmdline": zero("/usr/bin/qemu-kvm -name guest=vm_1,debug-threads=on -uuid " +
			"604803a9-c81f-45a7-839a-a6ab341a1fa9 -netdev " +
			"{\"type\":\"tap\",\"fd\":\"25\",\"vhost\":true,\"vhostfd\":\"27\",\"id\":\"hostnet0\"} -device " +
			"{\"driver\":\"virtio-net-pci\",\"netdev\":\"hostnet0\",\"mac\":\"52:54:00:aa:00:01\"}"),
		"proc/300/fdinfo/25":       "pos:\t0\nflags:\t0104002\niff:\tvnet3",
		"proc/300/task/300/stat":   treetest.Stat(300, "qemu-system-x86", 100, 0, 0, 0),
		"proc/300/task/300/status": "Name: x\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed_list: 0",
		"proc/300/task/305/stat":   treetest.Stat(305, "CPU 0/KVM", 103, 2, 1, 1),
		"proc/300/task/305/status": "Cpus_allowed_list:\t2",
		"proc/300/task/304/stat":   treetest.Stat(304, "IO iothread3", 101, 1, 0, 0),
		"proc/300/task/304/status": "Cpus_allowed_list:\t0-3",
		"proc/300/task/309/stat":   treetest.Stat(309, "vnc_worker", 109, 1, 0, 0),
		"proc/301/comm":            "vhost-300",
		"proc/301/stat":            treetest.OfKernel(treetest.Stat(301, "vhost-300", 102, 3, 0, 0)),
		"proc/301/status":          "Cpus_allowed_list:\t3",
		"proc/400/comm":            "qemu-kvm",
		"proc/400/cmdline": zero("qemu-kvm -name wild -smp 2 -m 64 -netdev " +
			"tap,id=a,ifname=wt0,vhost=on,queues=2 -device virtio-net-pci,netdev=a,mac=52:54:00:cc:00:01"),
		"proc/400/task/400/stat":   treetest.Stat(400, "qemu-kvm", 200, 0, 0, 0),
		"proc/400/task/401/stat":   treetest.Stat(401, "vhost-400", 201, 0, 0, 0),
		"proc/400/task/402/stat":   treetest.Stat(402, "vhost-400", 201, 0, 0, 0),
		"proc/400/task/402/status": "Cpus_allowed_list:\t1",
		"proc/500/comm":            "irqbalance",
		"proc/501/comm":            "systemd-network",
	}
	return treetest.Lines(t, treetest.Merged(all, more))
}

func TestGuestsOfARecordedHost(t *testing.T) {
	m := guestHost(t)
	h := &facts.Host{
		Taps: []facts.Tap{{Name: "vnet3"}, {Name: "wt0"}, {Name: "other"}},
		VFs:  []facts.VF{{PF: "eth0", PCI: "0000:01:10.1"}, {PF: "eth0", PCI: "0000:01:10.3"}},
	}
	Inventory(t.Context(), m, h, new(Definitions))

	names := facts.Map(h.Guests, func(g facts.Guest) string { return g.Name + " " + g.State })
	if want := []string{"bad shut off", "vm 1 running", "vm2 shut off", "wild running"}; !slices.Equal(names, want) {
		t.Fatalf("expected guests %q, found %q", want, names)
	}
	must.Hold(t, h.Taps[0].Guest == "vm 1" && h.Taps[1].Guest == "wild" && h.Taps[2].Guest == "" &&
		h.VFs[0].Guest == "vm 1" && h.VFs[1].Guest == "", "taps %+v, VFs %+v", h.Taps, h.VFs)
	must.Hold(t, len(h.Unseen) == 1 && strings.Contains(h.Unseen[0].What, "guest bad"), "unseen: %+v", h.Unseen)

	g := h.Guests[1]
	must.Hold(t, !strings.Contains(g.Definition, "sesame") && !strings.Contains(g.Definition, "WARNING") &&
		strings.HasPrefix(g.Definition, "<domain"), "definition:\n%s", g.Definition)
	wanted := facts.Guest{
		Name: "vm 1", UUID: "604803a9-c81f-45a7-839a-a6ab341a1fa9", Managed: true, State: "running", PID: 300, VCPUs: 1,
		Owner:    &facts.Owner{Platform: facts.Libvirt},
		MaxVCPUs: 2,
		Memory:   256 << 20, Hugepages: true, CPUMode: "host-passthrough", Machine: "pc-q35-10.0",
		Interfaces: []facts.Interface{
			{MAC: "52:54:00:aa:00:01", Type: "bridge", Source: "br0", Tap: "vnet3", Model: "virtio", Backend: "vhost",
				Queues: 2, RxQueueSize: 1024},
			{MAC: "52:54:00:aa:00:07", Type: "hostdev", Source: "0000:01:10.1", Queues: 1, Function: "0000:01:10.1"},
		},
		Hostdevs: []string{"0000:01:10.1"}, Functions: []string{"0000:01:10.1"}, Pins: []setting.CPUSet{nil, {0, 1, 3}},
		EmulatorPin: setting.CPUs(0, 1), MemoryNodes: setting.CPUs(1),
		Definition: g.Definition, Pending: []string{"interface/52:54:00:aa:00:01/driver.queues"},
		Threads: []facts.Thread{
			{TID: 300, Comm: "qemu-system-x86", Role: "emulator", Queue: -1, Affinity: setting.CPUs(0, 1),
				Policy: "SCHED_OTHER"},
			{TID: 304, Comm: "IO iothread3", Role: "iothread", Index: 3, Queue: -1, Affinity: setting.CPUs(0, 1, 2, 3),
				CPU: 1, Policy: "SCHED_OTHER"},
			{TID: 305, Comm: "CPU 0/KVM", Role: "vcpu", Queue: -1, Affinity: setting.CPUs(2), CPU: 2,
				Policy: "SCHED_FIFO", Priority: 1},
			{TID: 309, Comm: "vnc_worker", Role: "worker", Queue: -1, CPU: 1, Policy: "SCHED_OTHER"},
			{TID: 301, Comm: "vhost-300", Role: "vhost", NIC: "52:54:00:aa:00:01", Sure: "only one",
				Affinity: setting.CPUs(3), CPU: 3, Policy: "SCHED_OTHER"},
		},
	}
	must.Hold(t, reflect.DeepEqual(g, wanted), "expected %+v\nfound    %+v", wanted, g)
}

// TestOwnersOfProcesses: Proxmox's guest is one whose process its PID file names, KubeVirt's one in a pod below
// virt-launcher. What a command line says of itself is not enough.
func TestOwnersOfProcesses(t *testing.T) {
	line := strings.ReplaceAll("/usr/bin/kvm -id 101 -name web,debug-threads=on -smbios "+
		"type=1,uuid=11111111-2222-3333-4444-555555555555 -smp 2 -pidfile /var/run/qemu-server/101.pid ", " ", "\x00")
	with := func(more map[string]string) map[string]string {
		return treetest.Merged(qemuFiles(400, 0, "0-1"), map[string]string{"proc/400/cmdline": line}, more)
	}
	parent := func(name string) map[string]string {
		return map[string]string{"proc/77/task/77/comm": name + "\n", "proc/77/comm": name + "\n",
			"proc/400/stat": strings.Replace(treetest.Stat(400, "kvm", 500, 0, 0, 0), ") S 1 ", ") S 77 ", 1)}
	}
	instance := func(folder, name string) map[string]string { // Incus and LXD, lxd/instance/drivers/driver_qemu.go
		return map[string]string{folder + name + "/qemu.pid": "400\n", "proc/400/cmdline": "/opt/incus/bin/" +
			"qemu-system-x86_64\x00-S\x00-name\x00web1\x00-pidfile\x00/" + folder + name + "/qemu.pid\x00"}
	}
	const systemID = "30ad89ac-5906-49ca-8d52-3c6343c598f6"
	ofSystem := func(maker, product string) map[string]string {
		return map[string]string{"proc/400/cmdline": "qemu-system-x86_64\x00-name\x00guest=instance-0000002a\x00" +
			"-uuid\x00" + systemID + "\x00-smbios\x00type=1,manufacturer=" + maker + ",product=" + product + ",serial=7,family=Virtual Machine\x00"}
	}
	const ofPod = "qemu-kvm\x00-name\x00guest=shop_web,debug-threads=on\x00"
	pod := map[string]string{"proc/400/cgroup": "0::/kubepods.slice/kubepods-podx.slice/cri-containerd-y.scope\n"}
	for what, c := range map[string]struct {
		files    map[string]string
		platform facts.Platform
		id       string
	}{
		"Proxmox":                  {map[string]string{"run/qemu-server/101.pid": "400\n"}, facts.Proxmox, "101"},
		"no PID file":              {nil, facts.QEMU, ""},
		"a PID file of another":    {map[string]string{"run/qemu-server/101.pid": "401\n"}, facts.QEMU, ""},
		"another guest's PID file": {map[string]string{"run/qemu-server/102.pid": "400\n"}, facts.QEMU, ""},
		"a way out of the folder": {map[string]string{"proc/400/cmdline": strings.Replace(line, "101", "../x", 1),
			"run/x.pid": "400\n"}, facts.QEMU, ""},
		"KubeVirt": {treetest.Merged(pod, parent("virt-launcher-m"), map[string]string{
			"proc/400/cmdline": ofPod}), facts.KubeVirt, "shop/web"},
		"Harvester": {treetest.Merged(pod, parent("virt-launcher-m"), map[string]string{
			"etc/harvester-release.yaml": "a: b\n", "proc/400/cmdline": ofPod}), facts.Harvester, "shop/web"},
		"KubeVirt below another root of the kubelet": {treetest.Merged(parent("virt-launcher-m"), map[string]string{
			"proc/400/cmdline": ofPod, "proc/400/cgroup": "0::/kubelet.slice/kubelet-kubepods.slice/" +
				"kubelet-kubepods-podx.slice/cri-containerd-y.scope\n"}), facts.KubeVirt, "shop/web"},
		"no pod, with a name that begins like one": {treetest.Merged(parent("virt-launcher-m"), map[string]string{
			"proc/400/cgroup": "0::/system.slice/kubepods-backup.service\n"}), facts.QEMU, ""},
		"a pod of another":               {treetest.Merged(pod, parent("sh")), facts.QEMU, ""},
		"virt-launcher in no pod":        {parent("virt-launcher-m"), facts.QEMU, ""},
		"Harvester without the pod":      {map[string]string{"etc/harvester-release.yaml": "a: b\n"}, facts.QEMU, ""},
		"Incus":                          {instance("run/incus/", "web1"), facts.Incus, "web1"},
		"Incus, in a project":            {instance("run/incus/", "shop_web1"), facts.Incus, "shop/web1"},
		"LXD's snap":                     {instance("var/snap/lxd/common/lxd/logs/", "web1"), facts.LXD, "web1"},
		"LXD in a project":               {instance("var/log/lxd/", "shop_web1"), facts.LXD, "shop/web1"},
		"Incus's file of another":        {instance("run/incus/", "web2"), facts.QEMU, ""},
		"an instance's folder elsewhere": {instance("run/incus/../mine/", "web1"), facts.QEMU, ""},
		"a way out of Incus's folder": {map[string]string{"run/qemu.pid": "400\n", "proc/400/cmdline": "qemu-system-x86_64" +
			"\x00-name\x00..\x00-pidfile\x00/run/incus/../qemu.pid\x00"}, facts.QEMU, ""},
		"Incus's board without its file": {map[string]string{"proc/400/cmdline": strings.ReplaceAll("/usr/bin/qemu-system-x86_64 "+
			"-name web1 -smbios type=2,manufacturer=LinuxContainers,product=Incus -pidfile /run/incus/web1/qemu.pid ", " ",
			"\x00")}, facts.QEMU, ""},
		"nova, whose libvirt is in a container": {ofSystem("OpenStack Foundation", "OpenStack Nova"), facts.Nova, systemID},
		"nova of Red Hat":                       {ofSystem("Red Hat", "OpenStack Compute"), facts.Nova, systemID},
		"CloudStack, whose libvirt is away":     {ofSystem("Apache Software Foundation", "CloudStack KVM Hypervisor"), facts.CloudStack, systemID},
		"oVirt, whose libvirt is away":          {ofSystem("oVirt", "oVirt Node"), facts.OVirt, systemID},
		"another maker's system":                {ofSystem("Red Hat", "KVM"), facts.QEMU, ""},
	} {
		t.Run(what, func(t *testing.T) {
			h := &facts.Host{}
			Inventory(t.Context(), treetest.Recorded(t, with(c.files)), h, new(Definitions))
			if len(h.Guests) != 1 || h.Guests[0].Owner == nil {
				t.Fatalf("guests %+v, not verified %+v", h.Guests, h.Unverified)
			}
			if o := h.Guests[0].Owner; o.Platform != c.platform || o.ID != c.id {
				t.Errorf("expected %s %q, found %+v", c.platform, c.id, o)
			}
		})
	}
}

// TestMachinesOfOthers: processes that run virtual machines without QEMU are noted once for each program, by their
// names or by KVM's; QEMU and others are not.
func TestMachinesOfOthers(t *testing.T) {
	process := func(pid string, comm string) map[string]string {
		return map[string]string{"proc/" + pid + "/comm": comm + "\n"}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  map[string]string // what and why of what is unseen
	}{
		"nobody": {process("7", "bash"), nil},
		"Cloud Hypervisor, whose name is cut": {process("7", "cloud-hyperviso"), map[string]string{
			"cloud-hyperviso": "mpps judges guests of QEMU alone (1 of its processes, such as 7)"}},
		"Firecracker twice, and crosvm": {treetest.Merged(process("8", "firecracker"), process("9", "firecracker"),
			process("10", "crosvm")), map[string]string{
			"firecracker": "mpps judges guests of QEMU alone (2 of its processes, such as 8)",
			"crosvm":      "mpps judges guests of QEMU alone (1 of its processes, such as 10)"}},
		"one that KVM alone knows": {treetest.Merged(process("11", "myvmm"), map[string]string{
			"sys/kernel/debug/kvm/11-23/exits": "5\n", "sys/kernel/debug/kvm/exits": "9\n"}), map[string]string{
			"myvmm": "mpps judges guests of QEMU alone (1 of its processes, such as 11)"}},
		"QEMU, which is a guest": {treetest.Merged(qemuFiles(400, 0, "0"), map[string]string{
			"sys/kernel/debug/kvm/400-23/exits": "5\n"}), nil},
		"a folder of nobody": {map[string]string{"sys/kernel/debug/kvm/12-3/exits": "5\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &facts.Host{}
			Inventory(t.Context(), treetest.Recorded(t, c.files), h, new(Definitions))
			must.Hold(t, len(h.Unseen) == len(c.want), "expected %d, found %+v", len(c.want), h.Unseen)
			for _, u := range h.Unseen {
				must.Hold(t, u.Part == facts.UnseenMachines && u.IsGuests() && u.Why == c.want[u.Of],
					"%+v, expected %q", u, c.want[u.Of])
			}
		})
	}
}

// TestFilesUnread: a definition that cannot be read is one that keeps an audit from passing.
func TestFilesUnread(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{"etc/libvirt/qemu/a.xml/x": "", "etc/libvirt/qemu/b.xml": "<domain><name>"})
	h := &facts.Host{}
	Inventory(t.Context(), m, h, new(Definitions))
	seen := map[string]bool{}
	for _, u := range h.Unseen {
		seen[u.Of] = u.Part == facts.UnseenDefinition
	}
	if !seen["a"] || !seen["b"] {
		t.Errorf("unseen: %+v", h.Unseen)
	}
}
