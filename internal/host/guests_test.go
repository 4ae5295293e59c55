package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Lines as Linux 6.12, QEMU 10.0 and libvirt 11.3 wrote them.
const (
	statVCPU  = "297 (CPU 0/KVM) R 1 288 288 0 -1 138412224 5450 0 0 0 196 110 0 0 20 0 11 0 1789 848240640 14474 18446744073709551615 93890074406912 93890081360181 140721684760144 0 0 0 2147219511 4096 16963 0 0 0 -1 1 0 0 0 94 0 93890085011336 93890098569424 93890163195904 140721684763483 140721684766375 140721684766375 140721684766684 0"
	statVhost = "294 (vhost-289) S 1 288 288 0 -1 138428608 0 0 0 0 0 0 0 0 20 0 11 0 1787 848240640 14122 18446744073709551615 93890074406912 93890081360181 140721684760144 0 0 0 2147221247 4096 16963 1 0 0 -1 3 0 0 0 0 0 93890085011336 93890098569424 93890163195904 140721684763483 140721684766375 140721684766375 140721684766684 0"
)

// stat is a stat file of a thread with a name, a start time and a policy.
func stat(tid int, name string, started, cpu, priority, policy int) string {
	fields := strings.Fields(statVhost[strings.LastIndexByte(statVhost, ')')+1:])
	for at, value := range map[int]int{22: started, 39: cpu, 40: priority, 41: policy} {
		fields[at-3] = fmt.Sprint(value)
	}
	return fmt.Sprintf("%d (%s) %s", tid, name, strings.Join(fields, " "))
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]task{
		statVCPU:                           {tid: 297, comm: "CPU 0/KVM", cpu: 1, started: 1789},
		statVhost:                          {tid: 294, comm: "vhost-289", cpu: 3, started: 1787},
		stat(5, "a) S (b (c", 7, 2, 99, 1): {tid: 5, comm: "a) S (b (c", cpu: 2, started: 7, priority: 99, policy: 1},
	} {
		if found, err := parseStat(text); err != nil || found != want {
			t.Errorf("%.20s: expected %+v, found %+v, %v", text, want, found, err)
		}
	}
	for _, text := range []string{"", "1", "1 (x", "x (y) S 1 2", "1 (x) S", ")(", strings.Replace(statVCPU, " 1789 ", " soon ", 1)} {
		if found, err := parseStat(text); err == nil {
			t.Errorf("%q was read as %+v", text, found)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statVCPU)
	f.Add(stat(1, ") (", 0, 0, 0, 0))
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseStat(text) })
}

// ofLibvirt is the command line that libvirt gave a guest with five NICs: vhost with two queues, e1000, vhost with
// one, virtio without vhost, and vhost-user.
const ofLibvirt = `/usr/bin/qemu-system-x86_64 -name|guest=lab,,one,debug-threads=on -S -object|{"qom-type":"secret","id":"masterKey0"} -machine|pc-q35-10.0,usb=off,acpi=on -accel|kvm -m|size=262144k -smp|2,sockets=2,cores=1,threads=1 -uuid|604803A9-c81f-45a7-839a-a6ab341a1fa9 -nodefaults -boot|strict=on -device|{"driver":"qemu-xhci","id":"usb","bus":"pci.6"} -netdev|{"type":"tap","fds":"25:26","vhost":true,"vhostfds":"27:28","id":"hostnet0"} -device|{"driver":"virtio-net-pci","mq":true,"vectors":6,"netdev":"hostnet0","id":"net0","mac":"52:54:00:aa:00:01"} -netdev|{"type":"tap","fd":"29","id":"hostnet1"} -device|{"driver":"e1000","netdev":"hostnet1","mac":"52:54:00:aa:00:02"} -netdev|{"type":"tap","fd":"30","vhost":true,"vhostfd":"31","id":"hostnet2"} -device|{"driver":"virtio-net-pci","netdev":"hostnet2","mac":"52:54:00:AA:00:03"} -netdev|{"type":"tap","fd":"32","id":"hostnet3"} -device|{"driver":"virtio-net-pci","netdev":"hostnet3","mac":"52:54:00:aa:00:04"} -netdev|{"type":"vhost-user","chardev":"c0","queues":4,"id":"hostnet4"} -device|{"driver":"virtio-net-pci","netdev":"hostnet4","mac":"52:54:00:aa:00:05"} -msg|timestamp=on`

func TestParseQEMU(t *testing.T) {
	found := parseQEMU(strings.FieldsFunc(ofLibvirt, func(r rune) bool { return r == ' ' || r == '|' }))
	want := qemu{
		name: "lab,one", uuid: "604803a9-c81f-45a7-839a-a6ab341a1fa9", cpus: 2, mem: 256 << 20, mach: "pc-q35-10.0", kvm: true,
		nics: []qemuNIC{
			{"hostnet0", "52:54:00:aa:00:01", "virtio-net-pci", "tap", "fd:25", true, 2},
			{"hostnet1", "52:54:00:aa:00:02", "e1000", "tap", "fd:29", false, 1},
			{"hostnet2", "52:54:00:aa:00:03", "virtio-net-pci", "tap", "fd:30", true, 1},
			{"hostnet3", "52:54:00:aa:00:04", "virtio-net-pci", "tap", "fd:32", false, 1},
			{"hostnet4", "52:54:00:aa:00:05", "virtio-net-pci", "vhost-user", "", false, 4},
		},
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("expected %+v\nfound    %+v", want, found)
	}

	byHand := parseQEMU([]string{
		"qemu-kvm", "-enable-kvm", "-name", "wild", "-m", "2G", "-smp", "cpus=4", "-M", "q35", "-netdev",
		"tap,id=n0,ifname=wt0,script=no,vhost=on,queues=2", "-device", "virtio-net-pci,netdev=n0,mac=52:54:0:cc:0:1,mq=on", "-snapshot",
	})
	want = qemu{
		name: "wild", cpus: 4, mem: 2 << 30, mach: "q35", kvm: true,
		nics: []qemuNIC{{"n0", "52:54:00:cc:00:01", "virtio-net-pci", "tap", "wt0", true, 2}},
	}
	if !reflect.DeepEqual(byHand, want) {
		t.Errorf("expected %+v\nfound    %+v", want, byHand)
	}
	for _, line := range [][]string{nil, {""}, {"q", "-netdev"}, {"q", "-netdev", "{"}, {"q", "-m", "99999999999T"}, {"q", "-smp", "x", "-name"}, {"q", "-netdev", "tap,id=a,queues=-5"}} {
		if q := parseQEMU(line); q.mem == 0 || q.cpus != 1 || len(q.nics) > 1 || len(q.nics) == 1 && q.nics[0].queues != 1 {
			t.Errorf("%q became %+v", line, q)
		}
	}
}

func TestTitlesAreElementsOfAddresses(t *testing.T) {
	for name, want := range map[string]string{"vm1": "vm1", "a b": "a b", "a/b\x1b": "a_b_", "": "qemu-7", "..": "qemu-7"} {
		if found := (qemu{name: name, pid: 7}).title(); found != want {
			t.Errorf("%q: expected %q, found %q", name, want, found)
		}
	}
}

func FuzzParseQEMU(f *testing.F) {
	f.Add(ofLibvirt)
	f.Fuzz(func(t *testing.T, text string) {
		q := parseQEMU(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '|' }))
		for _, nic := range q.nics {
			if nic.queues < 1 || nic.queues > len(text)+256 {
				t.Errorf("%d queues", nic.queues)
			}
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
		"as started":           {nics, nil, 3, one + "/0 " + one + "/1 " + three + "/0"},
		"with the definition":  {nics, running(one, three), 3, one + "/0 " + one + "/1 " + three + "/0"},
		"one plugged in":       {nics, running(one, three, plugged), 4, one + "/0 " + one + "/1 " + three + "/0 " + plugged + "/0"},
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
				if thread.Index != i {
					t.Errorf("worker %d has number %d", i, thread.Index)
				}
				if thread.Sure == "" {
					found = append(found, "?")
					continue
				}
				found = append(found, fmt.Sprintf("%s/%d", thread.NIC, thread.Queue))
				if want := map[bool]string{true: "only one", false: "order of creation"}[c.workers == 1]; thread.Sure != want {
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

// guestHost is a host with one running guest of libvirt, one that is shut off, and one that libvirt does not know.
func guestHost(t *testing.T) *Machine {
	running := strings.NewReplacer(
		"<domain type='kvm'>", "<domain type='kvm' id='1'>", "queues='2'", "queues='1'",
		"<source bridge='br0'/>", "<source bridge='br0'/><target dev='vnet3'/>",
	).Replace(definedXML)
	zero := func(words string) string { return strings.NewReplacer(" ", "\x00", "_", " ").Replace(words) }
	all := files{
		"etc/libvirt/qemu/vm 1.xml": "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n" + definedXML,
		"etc/libvirt/qemu/vm2.xml":  strings.NewReplacer("vm 1", "vm2", "604803a9", "704803a9", "00:aa", "00:bb").Replace(definedXML),
		"etc/libvirt/qemu/bad.xml":  "<domain><name>bad</domain>",
		"run/libvirt/qemu/vm 1.xml": "<domstatus state='running' reason='booted' pid='300'>\n<domainJob/>\n" + running + "</domstatus>\n",
		"proc/300/comm":             "qemu-system-x86",
		"proc/300/cmdline":          zero("/usr/bin/qemu-kvm -name guest=vm_1,debug-threads=on -uuid 604803a9-c81f-45a7-839a-a6ab341a1fa9 -netdev {\"type\":\"tap\",\"fd\":\"25\",\"vhost\":true,\"vhostfd\":\"27\",\"id\":\"hostnet0\"} -device {\"driver\":\"virtio-net-pci\",\"netdev\":\"hostnet0\",\"mac\":\"52:54:00:aa:00:01\"}"),
		"proc/300/fdinfo/25":        "pos:\t0\nflags:\t0104002\niff:\tvnet3",
		"proc/300/task/300/stat":    stat(300, "qemu-system-x86", 100, 0, 0, 0),
		"proc/300/task/300/status":  "Name: x\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed_list: 0",
		"proc/300/task/305/stat":    stat(305, "CPU 0/KVM", 103, 2, 1, 1),
		"proc/300/task/305/status":  "Cpus_allowed_list:\t2",
		"proc/300/task/304/stat":    stat(304, "IO iothread3", 101, 1, 0, 0),
		"proc/300/task/304/status":  "Cpus_allowed_list:\t0-3",
		"proc/300/task/309/stat":    stat(309, "vnc_worker", 109, 1, 0, 0),
		"proc/301/comm":             "vhost-300",
		"proc/301/stat":             stat(301, "vhost-300", 102, 3, 0, 0),
		"proc/301/status":           "Cpus_allowed_list:\t3",
		"proc/400/comm":             "qemu-kvm",
		"proc/400/cmdline":          zero("qemu-kvm -name wild -smp 2 -m 64 -netdev tap,id=a,ifname=wt0,vhost=on,queues=2 -device virtio-net-pci,netdev=a,mac=52:54:00:cc:00:01"),
		"proc/400/task/400/stat":    stat(400, "qemu-kvm", 200, 0, 0, 0),
		"proc/400/task/401/stat":    stat(401, "vhost-400", 201, 0, 0, 0),
		"proc/400/task/402/stat":    stat(402, "vhost-400", 201, 0, 0, 0),
		"proc/400/task/402/status":  "Cpus_allowed_list:\t1",
		"proc/500/comm":             "irqbalance",
		"proc/501/comm":             "systemd-network",
	}
	return tree(t, all)
}

func TestGuestsOfARecordedHost(t *testing.T) {
	m := guestHost(t)
	h := &facts.Host{
		Taps: []facts.Tap{{Name: "vnet3"}, {Name: "wt0"}, {Name: "other"}},
		VFs:  []facts.VF{{PF: "eth0", PCI: "0000:01:10.1"}, {PF: "eth0", PCI: "0000:01:10.3"}},
	}
	m.services(t.Context(), h)
	m.guests(t.Context(), h)

	var names []string
	for _, g := range h.Guests {
		names = append(names, g.Name+" "+g.State)
	}
	if want := []string{"bad shut off", "vm 1 running", "vm2 shut off", "wild running"}; !slices.Equal(names, want) {
		t.Fatalf("expected guests %q, found %q", want, names)
	}
	if h.Taps[0].Guest != "vm 1" || h.Taps[1].Guest != "wild" || h.Taps[2].Guest != "" || h.VFs[0].Guest != "vm 1" || h.VFs[1].Guest != "" {
		t.Errorf("taps %+v, VFs %+v", h.Taps, h.VFs)
	}
	if len(h.Unseen) != 1 || !strings.Contains(h.Unseen[0].What, "guest bad") {
		t.Errorf("unseen: %+v", h.Unseen)
	}

	g := h.Guests[1]
	if strings.Contains(g.Definition, "sesame") || strings.Contains(g.Definition, "WARNING") || !strings.HasPrefix(g.Definition, "<domain") {
		t.Errorf("definition:\n%s", g.Definition)
	}
	wanted := facts.Guest{
		Name: "vm 1", UUID: "604803a9-c81f-45a7-839a-a6ab341a1fa9", Managed: true, State: "running", PID: 300, VCPUs: 1, MaxVCPUs: 2,
		Memory: 256 << 20, Hugepages: true, CPUMode: "host-passthrough", Machine: "pc-q35-10.0",
		Interfaces: []facts.Interface{
			{MAC: "52:54:00:aa:00:01", Type: "bridge", Source: "br0", Tap: "vnet3", Model: "virtio", Backend: "vhost", Queues: 2, RxQueueSize: 1024},
			{MAC: "52:54:00:aa:00:07", Type: "hostdev", Source: "0000:01:10.1", Queues: 1},
		},
		Hostdevs: []string{"0000:01:10.1"}, Pins: []setting.CPUSet{nil, {0, 1, 3}}, EmulatorPin: setting.CPUs(0, 1), MemoryNodes: setting.CPUs(1),
		Definition: g.Definition, Pending: []string{"interface/52:54:00:aa:00:01/driver.queues"},
		Threads: []facts.Thread{
			{TID: 300, Comm: "qemu-system-x86", Role: "emulator", Queue: -1, Affinity: setting.CPUs(0, 1), Policy: "SCHED_OTHER"},
			{TID: 304, Comm: "IO iothread3", Role: "iothread", Index: 3, Queue: -1, Affinity: setting.CPUs(0, 1, 2, 3), CPU: 1, Policy: "SCHED_OTHER"},
			{TID: 305, Comm: "CPU 0/KVM", Role: "vcpu", Queue: -1, Affinity: setting.CPUs(2), CPU: 2, Policy: "SCHED_FIFO", Priority: 1},
			{TID: 309, Comm: "vnc_worker", Role: "worker", Queue: -1, CPU: 1, Policy: "SCHED_OTHER"},
			{TID: 301, Comm: "vhost-300", Role: "vhost", NIC: "52:54:00:aa:00:01", Sure: "only one", Affinity: setting.CPUs(3), CPU: 3, Policy: "SCHED_OTHER"},
		},
	}
	if !reflect.DeepEqual(g, wanted) {
		t.Errorf("expected %+v\nfound    %+v", wanted, g)
	}
	running := map[string]bool{}
	for _, s := range h.Services {
		running[s.Name] = s.Running
	}
	if !running["irqbalance"] || !running["systemd-networkd"] || running["tuned"] {
		t.Errorf("services: %+v", h.Services)
	}
}

func TestMechanismsOfGuestsOnARecordedHost(t *testing.T) {
	m := guestHost(t)
	all := m.Mechanisms()
	for address, want := range map[string]string{
		"domain:vm 1/vcpupin/1":                                 "0-1,3",
		"domain:vm 1/vcpupin/0":                                 "absent",
		"domain:vm 1/interface/52:54:00:aa:00:01/driver.queues": "2",
		"domain:vm2/interface/52:54:00:bb:00:01/driver.queues":  "2",
		"domain:gone/vcpupin/0":                                 "absent",
		"domain:bad/vcpupin/0":                                  "unknown",
		"domain:vm 1/no/such/path":                              "unknown",
		"thread-affinity:vm 1/vcpu/0":                           "2",
		"thread-affinity:vm 1/vcpu/1":                           "absent",
		"thread-affinity:vm 1/emulator":                         "0-1",
		"thread-affinity:vm 1/iothread/3":                       "0-3",
		"thread-affinity:vm 1/vhost/52:54:00:aa:00:01/0":        "3",
		"thread-affinity:vm 1/vhost/52:54:00:aa:00:01/1":        "absent",
		"thread-affinity:wild/vhost/52:54:00:cc:00:01/1":        "1",
		"thread-affinity:wild/vhost/52:54:00:cc:00:01/0":        "unknown", // its status file is missing
		"thread-affinity:vm2/emulator":                          "absent",
		"thread-affinity:vm 1/vhost":                            "absent",
		"thread-affinity:vm 1/worker/0":                         "absent",
	} {
		a, err := setting.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		if found := all.Read(t.Context(), a); found.String() != want {
			t.Errorf("%s: expected %s, found %s (%s)", address, want, found, found.Why)
		}
	}
	err := all.Write(t.Context(), setting.Of(setting.ThreadAffinity, "vm 1", "emulator"), setting.Value("0"))
	if !errors.Is(err, errNotLive) {
		t.Errorf("writing to a recorded tree: %v", err)
	}
	err = all.Write(t.Context(), setting.Of(setting.Domain, "vm 1", "vcpupin", "0"), setting.Value("0"))
	if !errors.Is(err, errNotLive) {
		t.Errorf("defining in a recorded tree: %v", err)
	}
}

// keeper is a libvirt that keeps one definition and may alter what it is given.
type keeper struct {
	text  string
	alter func(string) string
	fail  error
	given []string
}

func (k *keeper) all(context.Context) (inventory, error) { return inventory{}, nil }
func (k *keeper) definition(_ context.Context, guest string, secrets bool) (string, error) {
	if guest != "vm 1" {
		return "", errNoGuest
	}
	if !secrets {
		return secret.ReplaceAllString(k.text, ""), nil
	}
	return k.text, nil
}
func (k *keeper) running(context.Context, string) (string, error) { return "", errNoGuest }
func (k *keeper) define(_ context.Context, text string) error {
	if k.fail != nil {
		return k.fail
	}
	k.given = append(k.given, text)
	k.text = k.alter(text)
	return nil
}

func TestDefinitionsAreEditedInPlace(t *testing.T) {
	same := func(text string) string { return text }
	k := &keeper{text: definedXML, alter: same}
	path := "interface/52:54:00:aa:00:01/driver.queues"
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("4")); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(definedXML, "queues='2'", "queues='4'", 1); k.text != want {
		t.Errorf("expected only the number of queues to change, found\n%s", k.text)
	}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("4")); err != nil || len(k.given) != 1 {
		t.Errorf("the same value was written again (%d definitions, %v)", len(k.given), err)
	}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("2")); err != nil || k.text != definedXML {
		t.Errorf("put back: %v\n%s", err, k.text)
	}
	if err := redefine(t.Context(), k, "vm 1", "vcpupin/0", setting.Value("3")); err != nil {
		t.Fatal(err)
	}
	if err := redefine(t.Context(), k, "vm 1", "vcpupin/0", setting.Missing("")); err != nil || k.text != definedXML {
		t.Errorf("taken out again: %v\n%s", err, k.text)
	}
}

// TestValuesThatWouldBeRefusedCanBePutBack: somebody wrote more queues than there can be, mpps corrects it, and a
// rollback brings it back.
func TestValuesThatWouldBeRefusedCanBePutBack(t *testing.T) {
	odd := strings.Replace(definedXML, "queues='2'", "queues='3000'", 1)
	doc, err := domain.Parse([]byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	path := "interface/52:54:00:aa:00:01/driver.queues"
	before, err := valueIn(doc, path)
	if err != nil || before.Value != "3000" || !strings.HasPrefix(before.Why, asFound) {
		t.Fatalf("found %+v, %v", before, err)
	}
	k := &keeper{text: odd, alter: func(text string) string { return text }}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("4")); err != nil {
		t.Fatal(err)
	}
	if err := redefine(t.Context(), k, "vm 1", path, setting.Value("3000")); err == nil {
		t.Error("3000 queues were set")
	}
	if err := redefine(t.Context(), k, "vm 1", path, before); err != nil || k.text != odd {
		t.Errorf("not put back: %v\n%s", err, k.text)
	}
}

func TestRefusedDefinitionsLeaveTheGuestAsItWas(t *testing.T) {
	path := "interface/52:54:00:aa:00:01/driver.queues"
	refusal := errors.New("unsupported configuration")
	first := true
	cases := map[string]struct {
		keeper      keeper
		guest, path string
		to          setting.Reading
		want        string
	}{
		"libvirt refuses":      {keeper{fail: refusal}, "vm 1", path, setting.Value("4"), "unsupported configuration"},
		"libvirt knows better": {keeper{alter: func(string) string { return definedXML }}, "vm 1", path, setting.Value("4"), "wanted 4, but libvirt made it 2"},
		"no such guest":        {keeper{}, "gone", path, setting.Value("4"), "no such guest"},
		"no such interface":    {keeper{}, "vm 1", "interface/52:54:00:00:00:99/driver.queues", setting.Value("4"), "no such interface"},
		"no such path":         {keeper{}, "vm 1", "devices/disk", setting.Value("4"), "not a path"},
		"nonsense":             {keeper{}, "vm 1", path, setting.Value("many"), "many"},
		"unknown":              {keeper{}, "vm 1", path, setting.CouldNotTell("why"), "unknown value"},
		"altered, then put back": {keeper{alter: func(text string) string {
			if first {
				first = false
				return strings.Replace(text, "queues='4'", "queues='3'", 1)
			}
			return text
		}}, "vm 1", path, setting.Value("4"), "but libvirt made it 3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := &c.keeper
			k.text = definedXML
			err := redefine(t.Context(), k, c.guest, c.path, c.to)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("expected an error with %q, found %v", c.want, err)
			}
			if k.text != definedXML {
				t.Errorf("the guest is not as it was:\n%s", k.text)
			}
		})
	}
}

func TestParseDomstats(t *testing.T) {
	found := parseDomstats("Domain: 'lab one'\n  state.state=1\n  state.reason=1\n\nDomain: 'it's'\n  state.state=5\n  state.reason=0\n\nDomain: 'x'\n  state.state=99\n")
	want := []libvirtGuest{{name: "lab one", state: "running"}, {name: "it's", state: "shut off"}, {name: "x", state: "no state"}}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("expected %+v, found %+v", want, found)
	}
	l, q := parseVersions("Compiled against library: libvirt 11.3.0\nUsing library: libvirt 11.3.0\nUsing API: QEMU 11.3.0\nRunning hypervisor: QEMU 10.0.13\n")
	if l != "11.3.0" || q != "10.0.13" {
		t.Errorf("found libvirt %q, QEMU %q", l, q)
	}
	if q := quoted("it's; rm"); q != `'it'\''s; rm'` {
		t.Errorf("quoted as %s", q)
	}
}

// TestDefinitionsAreReadAnewWhenTheyChange reads, changes the file behind it, and reads again.
func TestDefinitionsAreReadAnewWhenTheyChange(t *testing.T) {
	m := guestHost(t)
	a := setting.Of(setting.Domain, "vm2", "vcpupin", "1")
	for _, want := range []string{"0-1,3", "7"} {
		if found := (domains{m}).Read(t.Context(), a); found.Value != want {
			t.Errorf("expected %s, found %+v", want, found)
		}
		text := strings.Replace(definedXML, "cpuset='0-3,^2'", "cpuset='7'", 1)
		if err := m.record("etc/libvirt/qemu/vm2.xml", text); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOwnAffinity(t *testing.T) {
	own, err := getAffinity(0)
	if err != nil || len(own) == 0 {
		t.Fatalf("found %s, %v", own, err)
	}
	if err := setAffinity(0, nil); err == nil {
		t.Error("an empty set was accepted")
	}
	if err := setAffinity(0, setting.CPUs(20000)); err == nil {
		t.Error("CPU 20000 was accepted")
	}
	if err := setAffinity(-1, own); err == nil {
		t.Error("thread −1 was found")
	}
	if again, _ := getAffinity(0); !again.Equal(own) {
		t.Errorf("refused writes changed the affinity from %s to %s", own, again)
	}
}
