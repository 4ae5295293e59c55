package domain

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestParseSet(t *testing.T) {
	cases := []struct{ in, want string }{
		{"0", "0"}, {"0-3,8", "0-3,8"}, {"8,0-3", "0-3,8"}, {"0-3,^2", "0-1,3"}, {"^2,0-3", "0-3"}, {"0-3,^2,2", "0-3"},
		{" 1 , 2 - 4 ", "1-4"}, {"1,1,1", "1"}, {"16383", "16383"}, {"007", "7"},
		{"", ""}, {" ", ""}, {",", ""}, {"1,", ""}, {"a", ""}, {"1-", ""}, {"-1", ""}, {"3-1", ""}, {"^1", ""},
		{"1,^1", ""},
		{"^1-2", ""}, {"1 2", ""}, {"0x3", ""}, {"16384", ""}, {"99999999999999999999", ""}, {"1-2-3", ""}, {"+1", ""},
		{strings.Repeat("1,", 40000) + "1", ""}, {strings.Repeat("0-16383,", 20) + "1", ""},
		{"0-16383,^7", "0-6,8-16383"},
	}
	for _, c := range cases {
		set, err := ParseSet(c.in)
		if got := FormatSet(set); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%.40q: got %q (%v), expected %q", c.in, got, err, c.want)
		}
	}
	must.Equal(t, FormatSet([]int{5, 1, 2, 2, 0}), "0-2,5", "unsorted numbers written as")
}

func TestCanonMAC(t *testing.T) {
	for in, want := range map[string]string{"52:54:00:AA:bB:01": "52:54:00:aa:bb:01",
		"0:1:2:3:4:f":       "00:01:02:03:04:0f",
		"52-54-00-00-00-01": "", "52:54:00:00:00": "", "52:54:00:00:00:001": "", "52:54:00:00:00:gg": "",
		"52:54:00:00:00:+1": "", "": ""} {
		if got, ok := CanonMAC(in); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, expected %q", in, got, want)
		}
	}
}

func TestMemoryUnits(t *testing.T) {
	cases := []struct {
		n    uint64
		unit string
		want uint64
		ok   bool
	}{
		{1, "", 1, true}, {1, "KiB", 1, true}, {1, "k", 1, true}, {1000, "KB", 977, true}, {16, "GiB", 16 << 20, true},
		{2, "M", 2048, true}, {1, "TB", 976562500, true}, {1023, "b", 1, true}, {2049, "bytes", 3, true},
		{0, "GiB", 0, true},
		{1, "X", 0, false}, {1, "KiX", 0, false}, {1 << 60, "GiB", 0, false}, {1 << 63, "E", 0, false},
	}
	for _, c := range cases {
		if got, ok := scaleKiB(c.n, c.unit); got != c.want || ok != c.ok {
			t.Errorf("%d %q: got %d %v, expected %d %v", c.n, c.unit, got, ok, c.want, c.ok)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	const tap, user = "interface/02:00:00:00:00:02/", "interface/02:00:00:00:00:04/"
	cases := []struct{ path, value, problem, hint string }{
		{tap + "driver.queues", "0", "allowed: 1 to 256", "256 queues"},
		{tap + "driver.queues", "257", "found \"257\"", "256 queues"},
		{tap + "driver.queues", "four", "found \"four\"", ""},
		{tap + "driver.queues", "-1", "allowed: 1 to 256", ""},
		{tap + "driver.queues", "99999999999999999999", "allowed: 1 to 256", ""},
		{tap + "driver.rx_queue_size", "300", "256, 512 or 1024", "powers of two"},
		{tap + "driver.rx_queue_size", "2048", "256, 512 or 1024", "powers of two"},
		{tap + "driver.rx_queue_size", "128", "256, 512 or 1024", "powers of two"},
		{tap + "driver.tx_queue_size", "1024", "256 on an interface of type direct", "does not start"},
		{user + "driver.tx_queue_size", "2048", "256, 512 or 1024", "powers of two"},
		{tap + "driver.name", "vfio", "vhost or qemu", ""},
		{"interface/0/driver.name", "vhost", "vfio on an interface of type hostdev", ""},
		{tap + "model", "virtoi", "virtio, ", "packet rate"},
		{tap + "coalesce.rx.frames.max", "65", "0 to 64", "caps it at 64"},
		{tap + "mtu", "67", "68 to 65535", ""},
		{tap + "vlan", "4095", "1 to 4094", "reserved"},
		{tap + "type", "bridge", "can be read but not set", ""},
		{"interface/02:00:00:00:00:06/vlan", "7", "2 <tag> elements", "trunk"},
		{"interface/02:00:00:00:00:99/model", "virtio", "no such interface", "02:00:00:00:00:01"},
		{"interface/7/model", "virtio", "no such interface", "02:00:00:00:00:01"},
		{"interface/eth0/model", "virtio", "expected a MAC address", ""},
		{"vcpupin/2", "1", "found vCPU 2, expected 0 to 1", "drop the pin"},
		{"vcpupin/x", "1", "expected a number", ""},
		{"vcpupin/0", "1-", "CPU numbers and ranges", ""},
		{"vcpupin/0", "", "CPU numbers and ranges", ""},
		{"vcpupin", "1", "not a path", "vcpupin/*"},
		{"vcpupin/0/x", "1", "not a path", "vcpupin/*"},
		{"iothreadpin/0", "1", "expected 1 or above", "from 1"},
		{"vcpusched/0-3", "fifo:1", "found vCPU 3", ""},
		{"vcpusched/0", "other", "fifo:PRIORITY", ""},
		{"vcpusched/0", "fifo", "priority from 1 to 99", "starve"},
		{"vcpusched/0", "batch:1", "batch, idle", ""},
		{"iothreadsched/1", "batch", "no I/O thread 1", "<iothreads>"},
		{"emulatorsched", "rr:100", "1 to 99", "starve"},
		{"numatune/memory.nodeset", "0,,1", "NUMA node numbers", ""},
		{"numatune/memory.mode", "loose", "strict, ", ""},
		{"memoryBacking/hugepages", "1.5GiB", "default, or sizes", ""},
		{"memoryBacking/hugepages", "3MiB", "powers of two", "x86"},
		{"memoryBacking/hugepages", "1GiB 2MiB@0", "at most one size without cells", ""},
		{"memoryBacking/hugepages", "1024", "default, or sizes", ""},
		{"memoryBacking/locked", "no", "allowed: yes", "delete"},
		{"cpu/mode", "host", "host-passthrough, ", ""}, {"cpu/mode", "custom", "custom with a model", "cpu-models"},
		{"cpu/mode", "host-model model=x", "host-passthrough, ", ""}, {"cpu/mode", "custom model=x fallback=no",
			"fallback=allow", ""},
		{"cpu/migratable", "off", "CPU mode", "set the mode first"},
		{"memoryBacking/hugepages", "1GiB@1", "cells 0 to 0", "cpu/numa/cells"},
		{"cpu/numa/cell/0.memAccess", "shared", "no <cpu>", ""},
		{"cpu/numa/cells", "0-3", "VCPUS:SIZE", ""},
		{"cpu/numa/cells", "0:1GiB 0-1:1GiB", "each vCPU in one cell", "stands in two"},
		{"cpu/numa/cells", "0-7:MEMORY", "vCPUs 0 to 1", "has 2 vCPUs"},
		{"cpu/numa/cells", "0:1TiB", "together", "libvirt would make it 1TiB"},
		{"numatune/memory", "loose:0", "strict, ", ""}, {"numatune/memory", "strict:", "MODE:NODES", ""},
		{"numatune/memnode/0.mode", "strict", "nothing without nodes", "nodeset first"},
		{"cpu/numa/cells", "0:1", "VCPUS:SIZE", ""},
		{"cpu/cache.mode", "passthrough", "CPU mode", "host-passthrough"},
		{"features/hyperv/spinlocks.retries", "1024", "4095 or more", "8191"},
		{"features/hyperv/vendor_id.value", "longer-than-twelve", "1 to 12", ""},
		{"interface/1/mac", "01:00:5e:00:00:01", "unicast", "group"},
		{"interface/1/mac", "02:00:00:00:00:01", "no other interface has", "interface 0"},
		{tap + "mac", "02:00:00:00:00:99", "an index from 0", ""},
		{tap + "managed", "yes", "type direct", "hostdev"},
		{tap + "source.pci", "0000:01:10.0", "type direct", "hostdev"},
		{"interface/0/source.pci", "0000:01:20.0", "PCI address", ""},
		{"hostdev/0000:01:10", "managed", "a PCI address", ""},
		{"hostdev/0000:01:10.0", "yes", "managed or unmanaged", "vfio-pci"},
		{tap + "coalesce.rx.frames.max", "32", "type direct", "network and bridge"},
		{user + "vlan", "5", "type vhostuser", "hostdev"},
		{"clock/timer/kvmclok.present", "no", "expected one of", ""},
		{"features/hyperv/turbo.state", "on", "expected one of", ""},
		{"", "x", "not a path", "vcpupin/0"},
		{"nonsense/\x00" + strings.Repeat("a", 1000), "x", "not a path", "vcpupin/0"},
	}
	for _, c := range cases {
		d := sample(t, "libvirt-nics.xml")
		c.value = strings.ReplaceAll(c.value, "MEMORY", formatKiB(d.Guest().MemoryKiB))
		old := d.String()
		err := d.Set(c.path, c.value)
		var value *ValueError
		var path *PathError
		if !errors.As(err, &value) && !errors.As(err, &path) {
			t.Errorf("%.60s=%s: error %v, expected a typed one", c.path, c.value, err)
			continue
		}
		hint := err.(interface{ Hint() string }).Hint()
		must.Hold(t, strings.Contains(err.Error(), c.problem) && strings.Contains(hint, c.hint),
			"%s=%s: %q, hint %q; expected %q, hint %q", c.path, c.value, err, hint, c.problem, c.hint)
		if len(err.Error()) > 300 {
			t.Errorf("%.60s: message of %d characters", c.path, len(err.Error()))
		}
		must.Equal(t, d.String(), old, "%s=%s was refused and still changed the document", c.path, c.value)
	}
}

func TestSetTakes(t *testing.T) {
	cases := []struct{ path, value, want string }{
		{"interface/02:00:00:00:00:04/driver.tx_queue_size", "512", "512"},
		{"interface/02:00:00:00:00:05/driver.tx_queue_size", "1024", "1024"},
		{"interface/02:00:00:00:00:02/driver.tx_queue_size", "256", "256"},
		{"interface/0/driver.name", "vfio", "vfio"},
		{"interface/01/driver.queues", " 08 ", "8"},
		{"interface/2:0:0:0:0:2/driver.queues", "256", "256"},
		{"vcpupin/00", "3,1-2,^2", "1,3"},
		{"vcpusched/1,0", " fifo:01", "fifo:1"},
		{"cpu/numa/cells", " 1,0:MEMORY ", "0-1:MEMORY"},
		{"numatune/memory", " 1,0", "strict:0-1"},
		{"hostdev/1:10.3", "managed", "managed"}, {"hostdev/0000:01:10.4", "unmanaged", "unmanaged"},
		{"interface/0/source.pci", "AF:10.7", "0000:af:10.7"}, {"interface/0/mac", "2:0:0:0:0:F", "02:00:00:00:00:0f"},
		{"features/hyperv/spinlocks.retries", "8191", "8191"},
		{"memoryBacking/hugepages", "yes", "default"},
		{"memoryBacking/hugepages", "1048576KiB@0,0", "1GiB@0"},
	}
	for _, c := range cases {
		d := sample(t, "libvirt-nics.xml")
		memory := formatKiB(d.Guest().MemoryKiB)
		c.value, c.want = strings.ReplaceAll(c.value, "MEMORY", memory), strings.ReplaceAll(c.want, "MEMORY", memory)
		set(t, d, c.path, c.value)
		if got, there, err := d.Get(c.path); got != c.want || !there || err != nil {
			t.Errorf("%s=%s reads %q %v %v, expected %q", c.path, c.value, got, there, err, c.want)
		}
	}
}

// TestSchedulerGroups: libvirt writes one <vcpusched> a vCPU, people write groups; half a group cannot be set.
func TestSchedulerGroups(t *testing.T) {
	d := parse(t, "<domain><vcpu>4</vcpu><cputune><vcpusched vcpus='0-1' scheduler='fifo' "+
		"priority='1'/></cputune></domain>")
	var bad *PathError
	if err := d.Set("vcpusched/0", "fifo:2"); !errors.As(err, &bad) || !strings.Contains(bad.Advice, "vcpusched/0-1") {
		t.Errorf("half a group: %v", err)
	}
	set(t, d, "vcpusched/0,1", "fifo:2")
	set(t, d, "vcpusched/2", "rr:7")
	must.Same(t, d.Guest().Sched, []Sched{{"0-1", "fifo", 2}, {"2", "rr", 7}}, "read")
	set(t, d, "vcpusched/0-1", "batch")
	must.Equal(t, d.Guest().Sched[0], Sched{"0-1", "batch", 0}, "read")
}

// TestRestoreTakesWhatWasThere: values that Set refuses, and values that nobody can read.
func TestRestoreTakesWhatWasThere(t *testing.T) {
	const path = "interface/0/coalesce.rx.frames.max"
	text := "<domain><devices><interface type='bridge'><model type='homemade'/><driver " +
		"queues='many'/><coalesce><rx><frames max='128'/></rx></coalesce></interface></devices></domain>"
	d := parse(t, text)
	old, had, err := d.Get(path)
	must.Need(t, old == "128" && had && err == nil, "read %q %v %v", old, had, err)
	set(t, d, path, "32")
	must.Refuse(t, d.Set(path, "128"), "set took 128 frames")
	d = parse(t, d.String())
	if err := d.Restore(path, old, had); err != nil || d.String() != text {
		t.Errorf("restored to %s (%v)", d, err)
	}
	if err := d.Restore("interface/0/model", "homemade", true); err != nil || d.String() != text {
		t.Errorf("restored to %s (%v)", d, err)
	}
	var bad *ValueError
	if v, there, err := d.Get("interface/0/driver.queues"); v != "" || !there || !errors.As(err, &bad) {
		t.Errorf("unreadable queues: %q %v %v", v, there, err)
	}
}

func TestAmbiguousMAC(t *testing.T) {
	d := sample(t, "hand-odd.xml")
	var bad *PathError
	if _, _, err := d.Get("interface/52:54:00:00:00:11/model"); !errors.As(err, &bad) ||
		!strings.Contains(bad.Advice, "index") {
		t.Errorf("two interfaces with one MAC address: %v", err)
	}
	set(t, d, "interface/3/model", "virtio")
	if got := d.Guest().Interfaces; got[2].Model != "" || got[3].Model != "virtio" || got[3].Path != "interface/3" {
		t.Errorf("read %+v", got[2:])
	}
}

func TestDoubledElementsAreNotEdited(t *testing.T) {
	d := parse(t, "<domain><numatune><memory nodeset='0'/><memory nodeset='1'/></numatune></domain>")
	if got, there, err := d.Get("numatune/memory.nodeset"); got != "0" || !there || err != nil {
		t.Errorf("read %q %v %v, expected libvirt's choice, the first", got, there, err)
	}
	for _, err := range []error{d.Set("numatune/memory.nodeset", "2"), d.Delete("numatune/memory.nodeset"),
		d.Restore("numatune/memory.nodeset", "2", true)} {
		var bad *PathError
		must.Hold(t, errors.As(err, &bad) && strings.Contains(bad.Problem, "2 such <memory> elements"), "error %v", err)
	}
}

// TestRestoreAfterLibvirt: libvirt stores defaults beside what was set; restoring must not leave them behind alone.
func TestRestoreAfterLibvirt(t *testing.T) {
	cases := []struct{ path, stored, want string }{
		{"numatune/memory.nodeset", "<domain>\n  <numatune>\n    <memory mode='strict' nodeset='0'/>\n  " +
			"</numatune>\n  <os/>\n</domain>", "<domain>\n  <os/>\n</domain>"},
		{"numatune/memnode/0.nodeset", "<domain><numatune><memnode cellid='0' mode='strict' " +
			"nodeset='0'/></numatune><os/></domain>", "<domain><os/></domain>"},
		{"numatune/memory.nodeset", "<domain><numatune><memory mode='preferred' nodeset='0'/></numatune></domain>",
			"<domain><numatune><memory mode='preferred'/></numatune></domain>"},
		{"features/hyperv/vapic.state", "<domain><features><acpi/><hyperv mode='custom'><vapic " +
			"state='on'/></hyperv></features></domain>", "<domain><features><acpi/></features></domain>"},
		{"features/hyperv/vapic.state", "<domain><features><hyperv mode='passthrough'><vapic " +
			"state='on'/></hyperv></features></domain>", "<domain><features><hyperv " +
			"mode='passthrough'/></features></domain>"},
	}
	for _, c := range cases {
		d := parse(t, c.stored)
		if err := d.Restore(c.path, "", false); err != nil || d.String() != c.want {
			t.Errorf("%s: %s (%v), expected %s", c.path, d, err, c.want)
		}
	}
}
