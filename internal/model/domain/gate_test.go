package domain

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestSupported(t *testing.T) {
	const nic = "interface/02:00:00:00:00:02/"
	cases := []struct {
		path, value   string
		libvirt, qemu string
		program       string // that is too old; "" if none is
	}{
		{nic + "driver.rx_queue_size", "1024", "2.2.0", "2.7.0", "libvirt"},
		{nic + "driver.rx_queue_size", "1024", "2.3.0", "2.6.2", "QEMU"},
		{nic + "driver.rx_queue_size", "1024", "2.3.0", "2.7.0", ""},
		{nic + "driver.rx_queue_size", "1024", "", "", ""},
		{nic + "driver.queues", "4", "1.2.2", "2.0.0", ""},
		{"cpu/mode", "maximum", "7.0.0", "9.0", "libvirt"}, {"cpu/mode", "host-model", "1.2.2", "2.0", ""},
		{"features/hyperv/ipi.state", "on", "9.0.0", "3.0.1", "QEMU"}, {"features/hyperv/ipi.state", "off", "1.2.2",
			"2.0", ""},
		{"features/hyperv/vapic.state", "on", "1.2.2", "2.0", ""},
		{"vcpusched/0", "fifo:1", "1.2.12", "", "libvirt"}, {"emulatorsched", "fifo:1", "5.2.9", "", "libvirt"},
		{"interface/0/vlan", "5", "9.0.0", "7.2.9", ""}, // a virtual function
		{"nonsense", "1", "0.1", "0.1", ""},
	}
	for _, c := range cases {
		d := sample(t, "libvirt-nics.xml")
		err := d.CheckSupport(c.path, c.value, Host{Libvirt: c.libvirt, QEMU: c.qemu})
		var old *VersionError
		if errors.As(err, &old) != (c.program != "") || old != nil &&
			(old.Program != c.program || !strings.Contains(old.Hint(), c.program)) {
			t.Errorf("%s=%s with libvirt %s and QEMU %s: %v, expected %q", c.path, c.value, c.libvirt, c.qemu, err,
				c.program)
		}
	}
}

// TestAbsent: a host that is known refuses CPUs and nodes that it does not have, one that is not known refuses none.
func TestAbsent(t *testing.T) {
	on := Host{CPUs: []int{0, 1, 2, 3}, Nodes: []int{0, 2}}
	for _, c := range []struct{ path, value, absent string }{
		{"vcpupin/0", "3", ""}, {"vcpupin/0", "0-4", "4"}, {"vcpupin/0", "0-9,^4-9", ""}, {"emulatorpin", "9", "9"},
		{"iothreadpin/1", "5-6", "5-6"}, {"vcpu.cpuset", "0-7", "4-7"},
		{"numatune/memory", "strict:1", "1"}, {"numatune/memory", "strict:2", ""},
		{"numatune/memnode/0.nodeset", "0-2", "1"},
		{"interface/0/driver.queues", "9", ""},
	} {
		d := sample(t, "libvirt-nics.xml")
		err := d.CheckSupport(c.path, c.value, on)
		var absent *AbsentError
		if errors.As(err, &absent) != (c.absent != "") || absent != nil && FormatSet(absent.Absent) != c.absent {
			t.Errorf("%s=%s: %v, expected to miss %q", c.path, c.value, err, c.absent)
		}
		must.Succeed(t, d.CheckSupport(c.path, c.value, Host{}), "%s=%s where nothing is known", c.path, c.value)
	}
}

// TestVLANOfABridge: libvirt tags ports of Linux bridges since 11.0.0, those of Open vSwitch since long before.
func TestVLANOfABridge(t *testing.T) {
	const text = "<domain><devices><interface type='bridge'><source bridge='b'/><model " +
		"type='virtio'/>%</interface></devices></domain>"
	for port, refused := range map[string]bool{"": true, "<virtualport type='openvswitch'/>": false} {
		d := parse(t, strings.Replace(text, "%", port, 1))
		if err := d.CheckSupport("interface/0/vlan", "5", Host{Libvirt: "10.10.0"}); (err != nil) != refused {
			t.Errorf("port %q: %v", port, err)
		}
		must.Succeed(t, d.CheckSupport("interface/0/vlan", "5", Host{Libvirt: "11.3.0"}), "port %q", port)
	}
}

// TestGatesNameRules: a gate of a path that does not exist would never close.
func TestGatesNameRules(t *testing.T) {
	for _, g := range gates {
		r, _ := match(strings.Replace(g.path, "*", "0", 1))
		if r == nil {
			t.Errorf("no rule for %s", g.path)
			continue
		}
		if g.value != "" {
			must.Pass(CheckValue(strings.Replace(g.path, "*", "0", 1), g.value))(t, "%s is never %s", g.path, g.value)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		has, needs string
		want       bool
	}{{"1.9", "1.10", true}, {"1.10", "1.9", false}, {"2", "2.1", false}, {"2.1.3", "2.1", false}, {"", "1", false},
		{"x", "1", false}, {"10.0.2", "2.12", false}} {
		must.Equal(t, older(c.has, c.needs), c.want, "%s older than %s", c.has, c.needs)
	}
}
