package main

import (
	"strings"
	"testing"

	"mpps/internal/advise/sriov"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestMigrationCommands parses every command of this program that a plan of a migration prints: each is one that it
// takes.
func TestMigrationCommands(t *testing.T) {
	const definition = `<domain type='kvm'><name>vm1</name><os><type machine='pc-q35-9.2'>hvm</type></os><devices>
<disk type='file' device='disk'><source file='/images/vm1.qcow2'/></disk>
<interface type='hostdev'><mac address='52:54:00:00:00:02'/><source><address type='pci' domain='0' bus='0x41' slot='0x02' function='0x1'/></source></interface>
<interface type='network'><mac address='52:54:00:00:00:03'/><source network='vfs'/></interface>
</devices></domain>`
	host := func(name string) *facts.Host {
		return &facts.Host{Name: name, VFs: []facts.VF{
			{PF: "eno1", Index: 1, PCI: "0000:41:02.1", Group: 1, MAC: "52:54:00:00:00:02", VLAN: 7, QoS: 3,
				MaxTxRate: 500, MinTxRate: 100, Trust: true, LinkState: "enable"},
			{PF: "eno1", Index: 2, PCI: "0000:41:02.2", Group: 2, MAC: "52:54:00:00:00:03"},
		}}
	}
	from, to := host("kvm1"), host("kvm2")
	from.Guests = []facts.Guest{{Name: "vm1", Managed: true, State: "running", Definition: definition,
		Hostdevs: []string{"0000:41:02.1", "0000:41:02.2"}}}
	given := facts.Reservation{PF: "eno1", Index: 1, PCI: "0000:41:02.1", Guest: "vm1", Form: facts.ByInterface,
		MAC: "52:54:00:00:00:02"}
	parsed := 0
	for _, ask := range []sriov.MigrateRequest{{}, {Target: to}, {Failover: true}, {Failover: true, Target: to}} {
		for _, reserved := range [][]facts.Reservation{nil, {given}} {
			from.Reservations = reserved
			ask.Guest, ask.To = "vm1", "kvm2"
			plan := must.Get(sriov.Migrate(from, ask))(t)
			lines := []string{}
			for _, c := range plan.Checks {
				lines = append(lines, c.Command)
			}
			for _, w := range plan.Ways {
				for _, s := range w.Steps {
					lines = append(append(lines, s.Commands...), s.Undo...)
				}
			}
			for _, w := range commandsIn("a plan", strings.Join(lines, "\n")) {
				parsed++
				must.Succeed(t, w.parses(), "%s", w)
			}
		}
	}
	must.Hold(t, parsed >= 40, "only %d commands were found", parsed)
}
