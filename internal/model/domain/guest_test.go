package domain

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestGuest compares what is read of each sample with the .json beside it.
func TestGuest(t *testing.T) {
	files, err := filepath.Glob("testdata/*.xml")
	must.Need(t, err == nil && len(files) != 0, "no samples: %v", err)
	for _, file := range files {
		d := sample(t, filepath.Base(file))
		got := must.Get(json.MarshalIndent(d.Guest(), "", " "))(t)
		got = append(got, '\n')
		if again, _ := json.MarshalIndent(d.Guest(), "", " "); !bytes.Equal(append(again, '\n'), got) {
			t.Errorf("%s: read otherwise the second time", file)
		}
		golden := strings.TrimSuffix(file, ".xml") + ".json"
		if *update {
			must.Do(t, os.WriteFile(golden, got, 0o644))
		}
		want := must.Get(os.ReadFile(golden))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s", file, lineDiff(string(want), string(got)))
		}
	}
}

func TestGuestSaysWhatIsUnclear(t *testing.T) {
	d := parse(t, `<domain id='x'><memory unit='bogus'>1</memory><currentMemory>lots</currentMemory><vcpu current='-'>many</vcpu>
	<cputune><vcpupin vcpu='a' cpuset='9-1'/></cputune>
	<devices><interface type='hostdev'><mac address='zz'/><driver queues='q'/><source><address type='pci' bus='0x100' slot='0'/></source></interface></devices></domain>`)
	var where []string
	for _, u := range d.Guest().Unclear {
		where = append(where, u.Where+"="+u.Found)
	}
	want := []string{"domain id=x", "vcpu=many", "vcpu current=-", "memory=1 bogus", "currentMemory=lots",
		"vcpupin vcpu=a", "vcpupin cpuset=9-1",
		"interface 0 pci address=bus 0x100", "interface 0 mac=zz", "interface 0 driver queues=q"}
	must.Hold(t, slices.Equal(where, want), "got  %q\nwant %q", where, want)
}

func TestPending(t *testing.T) {
	live, defined := sample(t, "libvirt-live.xml"), sample(t, "libvirt-bridge.xml")
	must.Empty(t, Pending(live, defined), "a guest that runs as defined has pending")
	if got := Diff(live, defined); len(got) != 2 {
		t.Errorf("the plain difference is %+v, expected CPU mode and interface type", got)
	}
	set(t, defined, "interface/52:54:00:00:00:01/model", "virtio")
	set(t, defined, "interface/52:54:00:00:00:02/driver.queues", "2")
	set(t, defined, "emulatorpin", "0")
	must.Do(t, defined.Delete("interface/52:54:00:00:00:02/mtu"))
	want := []Difference{
		{"emulatorpin", "", "0", false, true},
		{"interface/52:54:00:00:00:01/model", "e1000", "virtio", true, true},
		{"interface/52:54:00:00:00:02/driver.queues", "4", "2", true, true},
		{"interface/52:54:00:00:00:02/mtu", "9000", "", true, false},
	}
	must.Same(t, Pending(live, defined), want, "pending")
	set(t, defined, "cpu/mode", "host-passthrough")
	if got := Pending(live, defined); len(got) != 5 || got[1].Path != "cpu/mode" {
		t.Errorf("pending %+v, expected CPU mode as well", got)
	}
	unplugged := parse(t, strings.Replace(sample(t, "libvirt-bridge.xml").String(), "52:54:00:00:00:02",
		"52:54:00:00:00:03", 1))
	var paths []string
	for _, d := range Pending(live, unplugged) {
		paths = append(paths, d.Path)
	}
	must.Hold(t, slices.Contains(paths, "interface/52:54:00:00:00:02/type") &&
		slices.Contains(paths, "interface/52:54:00:00:00:03/model"), "an exchanged interface shows as %q", paths)
}

func TestDiffOfUnreadableValues(t *testing.T) {
	a := parse(t, "<domain><cputune><emulatorpin cpuset='x'/></cputune></domain>")
	b := parse(t, "<domain><cputune><emulatorpin cpuset='y'/></cputune></domain>")
	if got := Diff(a, b); !slices.Equal(got, []Difference{{"emulatorpin", "x", "y", true, true}}) {
		t.Errorf("got %+v", got)
	}
	must.Empty(t, Diff(a, a), "a document differs from itself")
}

func TestPaths(t *testing.T) {
	got := sample(t, "libvirt-realtime.xml").Paths()
	want := strings.Fields(`memoryBacking/hugepages memoryBacking/nosharepages memoryBacking/locked memoryBacking/source.type
		memoryBacking/access.mode memoryBacking/allocation.mode vcpu.cpuset vcpupin/0 vcpupin/1 vcpupin/4 emulatorpin iothreadpin/1
		emulatorsched vcpusched/0 vcpusched/1
		numatune/memory.mode numatune/memory.nodeset numatune/memnode/0.mode numatune/memnode/1.mode numatune/memnode/0.nodeset
		numatune/memnode/1.nodeset features/hyperv.mode features/hyperv/relaxed.state features/hyperv/vapic.state
		features/hyperv/spinlocks.state features/hyperv/spinlocks.retries features/kvm/hidden.state features/pmu.state cpu/mode cpu/migratable cpu/cache.mode cpu/numa/cells
		cpu/numa/cell/0.memAccess clock/timer/kvmclock.present clock/timer/tsc.present interface/52:54:00:aa:bb:01/type interface/0/mac
		interface/52:54:00:aa:bb:01/model interface/52:54:00:aa:bb:01/driver.name interface/52:54:00:aa:bb:01/driver.queues
		interface/52:54:00:aa:bb:01/driver.rx_queue_size interface/52:54:00:aa:bb:01/driver.tx_queue_size
		interface/52:54:00:aa:bb:01/coalesce.rx.frames.max hostdev/0000:3b:02.1`)
	must.Hold(t, slices.Equal(got, want), "got\n%q\nexpected\n%q", got, want)
}

// TestInterfaceBackEnds reads what decides which way a NIC's packets take.
func TestInterfaceBackEnds(t *testing.T) {
	d := must.Get(Parse([]byte(`<domain><devices>
<interface type='user'><mac address='52:54:00:00:00:01'/><backend type='passt' logFile='/tmp/x'/></interface>
<interface type='vhostuser'><mac address='52:54:00:00:00:02'/><backend type='passt'/></interface>
<interface type='bridge'><mac address='52:54:00:00:00:03'/><source bridge='br-int'/><virtualport type='openvswitch'>
<parameters interfaceid='09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f'/></virtualport></interface>
<interface type='network'><mac address='52:54:00:00:00:04'/><source network='ovs' portgroup='vlan-01'/></interface>
<interface type='vdpa'><mac address='52:54:00:00:00:05'/><source dev='/dev/vhost-vdpa-0'/></interface>
<interface type='direct'><mac address='52:54:00:00:00:06'/><source dev='eth0' mode='private'/></interface>
<interface type='user'><mac address='52:54:00:00:00:07'/></interface>
</devices></domain>`)))(t)
	for i, want := range []Interface{
		{Type: "user", Backend: "passt"}, {Type: "vhostuser", Backend: "passt"},
		{Type: "bridge", Source: "br-int", VirtualPort: "openvswitch"}, {Type: "network", Source: "ovs"},
		{Type: "vdpa", Source: "/dev/vhost-vdpa-0"}, {Type: "direct", Source: "eth0", SourceMode: "private"},
		{Type: "user"},
	} {
		got := d.Guest().Interfaces[i]
		must.Hold(t, got.Type == want.Type && got.Source == want.Source && got.Backend == want.Backend &&
			got.VirtualPort == want.VirtualPort && got.SourceMode == want.SourceMode,
			"interface %d: got %+v, want %+v", i, got, want)
	}
}
