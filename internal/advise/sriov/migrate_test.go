package sriov

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// vm1 is a guest with a function in each form and a NIC on a bridge.
const vm1 = `<domain type='kvm'>
  <name>vm1</name>
  <uuid>5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a01</uuid>
  <os><type arch='x86_64' machine='pc-q35-9.2'>hvm</type></os>
  <cpu mode='host-passthrough'/>
  <devices>
    <disk type='file' device='disk'><source file='/var/lib/libvirt/images/it&apos;s vm1.qcow2'/><target dev='vda'/></disk>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='br0'/>
      <model type='virtio'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:00:00:02'/>
      <source><address type='pci' domain='0x0000' bus='0x41' slot='0x02' function='0x1'/></source>
      <vlan><tag id='7'/></vlan>
      <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>
    </interface>
  </devices>
</domain>`

const (
	bare = `<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x41' slot='0x02' function='0x2'/></source></hostdev>`
	pool = `<interface type='network'><mac address='52:54:00:00:00:04'/><source network='vfs'/></interface>`
	pair = `<teaming type='transient' persistent='ua-standby0'/></interface>`
)

// hosts returns two equal hosts; the guest is on the first.
func hosts() (from, to *facts.Host) {
	host := func(name string) *facts.Host {
		h := &facts.Host{Name: name, KVM: facts.KVM{Loaded: true, Vendor: "kvm_amd", QEMU: "10.0.2", Libvirt: "11.3.0"}}
		h.Topology.Model, h.Topology.Vendor, h.Topology.Online = "AMD EPYC 7302", "AuthenticAMD",
			setting.CPUs(0, 1, 2, 3)
		h.Topology.Nodes = []facts.Node{{ID: 0, CPUs: setting.CPUs(0, 1, 2, 3), Memory: 64 << 30, Free: 32 << 30}}
		h.NICs = []facts.NIC{{Name: "eno1", Driver: "ixgbe", Up: true, Carrier: "up", Speed: 10000,
			SRIOV: &facts.SRIOV{Total: 63, Enabled: 4}}}
		h.Bridges = []facts.Bridge{{Name: "br0"}}
		for i, pci := range []string{"0000:41:02.0", "0000:41:02.1", "0000:41:02.2", "0000:41:02.3"} {
			h.VFs = append(h.VFs, facts.VF{PF: "eno1", Index: i, PCI: pci, Group: 30 + i, Driver: "ixgbevf",
				MAC: facts.NoMAC, SpoofCheck: true, LinkState: "auto"})
		}
		return h
	}
	from, to = host("kvm1"), host("kvm2")
	from.Guests = []facts.Guest{{
		Name: "vm1", UUID: "5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a01", Managed: true, State: "running", VCPUs: 2,
		Memory: 4 << 30, Machine: "pc-q35-9.2", CPUMode: "host-passthrough",
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Source: "br0"},
			{MAC: "52:54:00:00:00:02", Type: "hostdev", Source: "0000:41:02.1"}},
		Hostdevs: []string{"0000:41:02.1"}, Definition: vm1,
	}}
	v := &from.VFs[1]
	v.Guest, v.Driver, v.MAC, v.VLAN, v.MaxTxRate = "vm1", "vfio-pci", "52:54:00:00:00:02", 7, 500
	to.VFs[0].Guest = "other"
	to.Guests = []facts.Guest{{Name: "other", Managed: true, State: "running", Hostdevs: []string{"0000:41:02.0"}}}
	return from, to
}

// withDevice adds devices to the guest's definition and gives it the functions.
func withDevice(h *facts.Host, xml string, functions ...string) {
	g := &h.Guests[0]
	g.Definition = strings.Replace(g.Definition, "  </devices>", xml+"\n  </devices>", 1)
	for _, pci := range functions {
		g.Hostdevs = append(g.Hostdevs, pci)
		at := slices.IndexFunc(h.VFs, func(v facts.VF) bool { return v.PCI == pci })
		h.VFs[at].Guest, h.VFs[at].Driver, h.VFs[at].MAC = "vm1", "vfio-pci", fmt.Sprintf("52:54:00:00:00:%02x", at+1)
	}
}

func migrationOf(t *testing.T, h *facts.Host, ask MigrateRequest) *Migration {
	t.Helper()
	ask.Guest, ask.To = "vm1", "kvm2"
	m := must.Get(Migrate(h, ask))(t)
	return m
}

// linesOf returns every command of a plan, including the undo commands.
func linesOf(m *Migration) []string {
	var lines []string
	for _, w := range m.Ways {
		for _, s := range w.Steps {
			lines = append(append(lines, s.Commands...), s.Undo...)
		}
	}
	return lines
}

func wantsLines(t *testing.T, m *Migration, words ...string) {
	t.Helper()
	text := strings.Join(linesOf(m), "\n")
	must.Contain(t, text, words...)
}

// TestMigrateIsPlanned plans a migration to a host with the same function.
func TestMigrateIsPlanned(t *testing.T) {
	from, to := hosts()
	m := migrationOf(t, from, MigrateRequest{Target: to})
	must.Hold(t, !m.Live && strings.Contains(m.Why, "refused by libvirt and QEMU") && len(m.Ways) == 2 &&
		m.Ways[0].Name == "detach-attach" && m.Ways[1].Name == "define-anew", "%+v", m)
	if f := m.Functions[0]; f.Target != "0000:41:02.1" || f.PFThere != "eno1" || f.Number != 1 || f.VLAN != 7 {
		t.Errorf("%+v", f)
	}
	if missing := m.Missing(); len(missing) > 0 {
		t.Errorf("%+v", missing)
	}
	wantsLines(t, m, "virsh detach-interface vm1 hostdev --mac 52:54:00:00:00:02 --live --config",
		"virsh migrate --live --persistent --verbose vm1 qemu+ssh://root@kvm2/system",
		"mpps sriov assign vm1 --vf 0000:41:02.1 --mac 52:54:00:00:00:02 --vlan 7 --rate 500 --live",
		"mpps sriov assign vm1 --vf 0000:41:02.1 --mac 52:54:00:00:00:02 --vlan 7 --rate 500\n",
		"virsh -c qemu+ssh://root@kvm2/system detach-device vm1 /dev/stdin --config <<'EOF'\n<interface type='hostdev'",
		`rsync --sparse --inplace '/var/lib/libvirt/images/it'\''s vm1.qcow2' 'root@kvm2:/var/lib/libvirt/images/it'\''s vm1.qcow2'`,
	)
	if want := "<source><address type='pci' domain='0x0000' bus='0x41' slot='0x02' function='0x1'/></source>\n  " +
		"<vlan><tag id='7'/></vlan>\n  <address type='pci' domain='0x0000' bus='0x05' slot='0x00' " +
		"function='0x0'/>\n</interface>"; len(m.Ways[0].XML) != 1 || !strings.Contains(m.Ways[0].XML[0], want) {
		t.Errorf("%v", m.Ways[0].XML)
	}
	for _, w := range m.Ways {
		for n, s := range w.Steps {
			must.Hold(t, len(s.Commands) != 0 && s.On != "" && s.Undo != nil, "%s, step %d: %+v", w.Name, n, s)
		}
	}
	for _, line := range linesOf(m) {
		must.Hold(t, !strings.Contains(line, "--offline"), "an offline migration: %s", line)
	}
}

// TestMigrateTakesAnotherFunction: the guest's PCI address is in use on the target, and a function on the same
// port is preferred.
func TestMigrateTakesAnotherFunction(t *testing.T) {
	from, to := hosts()
	to.VFs[1].Holder = "process 7"
	to.Reservations = []facts.Reservation{{PCI: "0000:41:02.2", Guest: "fourth"}}
	to.NICs = append(to.NICs, facts.NIC{Name: "eno2", Driver: "i40e", Up: true, Carrier: "up", Speed: 40000})
	to.VFs = append([]facts.VF{{PF: "eno2", Index: 0, PCI: "0000:21:02.0", Group: 9, MAC: facts.NoMAC}}, to.VFs...)
	if f := migrationOf(t, from, MigrateRequest{Target: to}).Functions[0]; f.Target != "0000:41:02.3" {
		t.Errorf("%+v", f)
	}
	to.VFs = to.VFs[:4]
	m := migrationOf(t, from, MigrateRequest{Target: to})
	if f := m.Functions[0]; f.Target != "0000:21:02.0" || f.PFThere != "eno2" {
		t.Errorf("%+v", f)
	}
	if !slices.ContainsFunc(m.Checks,
		func(c MigrateCheck) bool { return strings.Contains(c.Command, "modinfo iavf") }) {
		t.Errorf("another card, and nobody asks for its driver: %+v", m.Checks)
	}
	from.Guests[0].MemoryNodes = setting.CPUs(0) // a port with a carrier, then one near the guest's memory
	to.NICs = append(to.NICs, facts.NIC{Name: "eno3", Driver: "ixgbe", Up: true, Carrier: "up"},
		facts.NIC{Name: "eno4", Driver: "ixgbe", Up: true, Carrier: "down"})
	to.NICs[1].Node = 1
	to.VFs = append(to.VFs, facts.VF{PF: "eno4", PCI: "0000:22:02.0", Group: 10, MAC: facts.NoMAC},
		facts.VF{PF: "eno3", PCI: "0000:23:02.0", Group: 11, MAC: facts.NoMAC})
	if f := migrationOf(t, from, MigrateRequest{Target: to}).Functions[0]; f.PFThere != "eno3" {
		t.Errorf("%+v", f)
	}
	from.Guests[0].MemoryNodes, to.VFs = nil, nil
	m = migrationOf(t, from, MigrateRequest{Target: to})
	if missing := m.Missing(); len(missing) != 1 || !strings.Contains(missing[0].What, "a free virtual function") {
		t.Errorf("%+v", missing)
	}
	wantsLines(t, m, "mpps sriov assign vm1 --pf eno1 --mac 52:54:00:00:00:02 --vlan 7 --rate 500 --live")
}

// TestMigrateChecks: each thing that the target lacks is found.
func TestMigrateChecks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(from, to *facts.Host)
		want   string
	}{
		"an older QEMU": {func(_, to *facts.Host) { to.KVM.QEMU = "9.2.0" }, "QEMU is no older than here"},
		"its machine": {func(from, to *facts.Host) { from.KVM.QEMU, to.KVM.QEMU = "9.1.0", "9.1.0" },
			"machine type pc-q35-9.2"},
		"an older libvirt": {func(_, to *facts.Host) { to.KVM.Libvirt = "9.0.0" }, "libvirt is no older than here"},
		"the processor": {func(_, to *facts.Host) { to.Topology.Model = "AMD EPYC 9124" },
			"a processor that the guest can go on with (host-passthrough)"},
		"another vendor": {func(from, to *facts.Host) {
			from.Guests[0].CPUMode, to.Topology.Vendor, to.Topology.Model = "host-model", "GenuineIntel", "Xeon"
		}, "a processor that the guest can go on with (host-model)"},
		"memory": {func(_, to *facts.Host) { to.Topology.Nodes[0].Free = 1 << 30 }, "4 GiB of memory"},
		"huge pages": {func(from, _ *facts.Host) { from.Guests[0].Hugepages = true },
			"4 GiB of memory in huge pages"},
		"a node": {func(from, _ *facts.Host) { from.Guests[0].MemoryNodes = setting.CPUs(1) },
			"4 GiB of memory"},
		"a pinned CPU": {func(from, _ *facts.Host) { from.Guests[0].Pins = []setting.CPUSet{setting.CPUs(9)} },
			"2 vCPUs"}, "the bridge": {func(_, to *facts.Host) { to.Bridges = nil }, "bridge br0"},
		"the port is down": {func(_, to *facts.Host) { to.NICs[0].Carrier = "down" },
			"the port of that function is up"},
		"the limit": {func(_, to *facts.Host) { to.NICs[0].Speed = 1000 }, "its limit of 500 Mb/s"},
		"no IOMMU": {func(_, to *facts.Host) {
			for i := range to.VFs {
				to.VFs[i].Group = -1
			}
		}, "a free virtual function"},
		"the same guest": {func(from, to *facts.Host) { to.Guests = append(to.Guests, from.Guests[0]) },
			"no guest of that name"},
		"the same host": {func(_, to *facts.Host) { to.Name = "kvm1" }, "the snapshot is of the other host"},
		"another device": {func(from, _ *facts.Host) {
			withDevice(from, `<hostdev mode='subsystem' type='mdev'><source/></hostdev>`)
		}, "no other device"},
		"the guest is held": {func(from, _ *facts.Host) { from.Guests[0].State = "paused" }, "the guest runs"},
		"no KVM":            {func(_, to *facts.Host) { to.KVM.Loaded = false }, "KVM"},
	} {
		from, to := hosts()
		c.change(from, to)
		missing := migrationOf(t, from, MigrateRequest{Target: to}).Missing()
		if !slices.ContainsFunc(missing,
			func(found MigrateCheck) bool { return strings.HasPrefix(found.What, c.want) }) || len(missing) > 2 {
			t.Errorf("%s: %+v", name, missing)
		}
	}
}

// TestMigrateForms migrates a plain hostdev and a function from a pool.
func TestMigrateForms(t *testing.T) {
	from, to := hosts()
	withDevice(from, bare+pool, "0000:41:02.2", "0000:41:02.3")
	m := migrationOf(t, from, MigrateRequest{Target: to})
	forms := facts.Map(m.Functions, func(f MigrateVF) string { return f.Form })
	if got := strings.Join(forms, " "); got != "interface network hostdev" {
		t.Fatalf("%s: %+v", got, m.Functions)
	}
	wantsLines(t, m,
		"<hostdev mode='subsystem' type='pci' managed='yes'>\n  <source><address type='pci' domain='0x0000' "+
			"bus='0x41' slot='0x02' function='0x2'/></source>\n</hostdev>",
		"mpps sriov assign vm1 --vf 0000:41:02.2 --as hostdev --mac 52:54:00:00:00:03 --live",
		"mpps sriov assign vm1 --pf eno1 --network vfs --as network --mac 52:54:00:00:00:04 --live",
		"virsh detach-interface vm1 network --mac 52:54:00:00:00:04 --config",
	)
}

// TestMigrateOfWhatIsPluggedIn: a definition without the function is not changed.
func TestMigrateOfWhatIsPluggedIn(t *testing.T) {
	from, to := hosts()
	withDevice(from, "", "0000:41:02.2")
	m := migrationOf(t, from, MigrateRequest{Target: to})
	wantsLines(t, m, "virsh detach-interface vm1 hostdev --mac 52:54:00:00:00:03 --live\n",
		"virsh attach-device vm1 /dev/stdin --live <<")
	must.Hold(t, len(m.Notes) == 1 && strings.Contains(m.Notes[0], "plugged into the running guest"), "%v", m.Notes)
	from.VFs[1].Driver = "mlx5_vfio_pci"
	if m := migrationOf(t, from, MigrateRequest{Target: to}); len(m.Notes) != 2 ||
		!strings.Contains(m.Notes[1], "Linux 5.18") {
		t.Errorf("a driver that can migrate: %v", m.Notes)
	}
}

// TestMigrateOfWhatMppsGave: a function that mpps assigned is released by mpps.
func TestMigrateOfWhatMppsGave(t *testing.T) {
	from, to := hosts()
	from.Reservations = []facts.Reservation{{PF: "eno1", Index: 1, PCI: "0000:41:02.1", Guest: "vm1",
		Form: facts.ByInterface, MAC: "52:54:00:00:00:02"}}
	wantsLines(t, migrationOf(t, from, MigrateRequest{Target: to}),
		"mpps sriov release vm1 --mac 52:54:00:00:00:02 --live")
}

func TestHostNames(t *testing.T) {
	for name, good := range map[string]bool{
		"kvm2": true, "kvm-2.example.net": true, "10.0.0.2": true, "2001:db8::1": true, "kvm_2": true,
		"": false, "-oProxyCommand=x": false, "a;b": false, "$(x)": false, "root@kvm2": false, "kvm2:22": false,
		"a b": false, "x\n": false,
	} {
		if err := CheckHost(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := libvirtURI("2001:db8::1"); got != "qemu+ssh://root@[2001:db8::1]/system" {
		t.Error(got)
	}
}
