package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/sriov"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestMigrationCanBePasted draws a plan narrower than its commands: they stay whole, at the beginning of their lines,
// in order; everything else keeps to the width.
func TestMigrationCanBePasted(t *testing.T) {
	long := "virsh migrate --live --persistent --verbose " + strings.Repeat("a-guest-with-a-long-name", 4) +
		" qemu+ssh://root@kvm2/system"
	paste := "virsh attach-device vm1 /dev/stdin --live <<'EOF'\n<interface type='hostdev'>\n</interface>\nEOF"
	m := &sriov.Migration{
		Guest: "vm1", State: "running", From: "kvm1", To: "kvm2", Why: strings.Repeat("refused for a reason ",
			9), Notes: []string{"a note"},
		Never: []sriov.MigrateCommand{{Command: "virsh migrate --offline", Why: "it does not refuse"}},
		Checks: []sriov.MigrateCheck{
			{On: "kvm1", State: sriov.MigrateOK, What: "this is so", Found: "yes", Command: "not shown"},
			{On: "kvm2", State: sriov.MigrateMissing, What: "this is not", Found: "nothing", Command: long},
			{On: "kvm2", State: sriov.MigrateUnknown, What: "who knows", Found: "not asked", Command: "virsh version"},
		}, Ways: []sriov.MigrateWay{
			{Name: "detach-attach", What: "detach, migrate, attach", Traffic: "none meanwhile",
				Needs: []string{"a guest that lets go"}, XML: []string{"<teaming/>"},
				Steps: []sriov.MigrateStep{{On: "kvm1", What: "migrate", Commands: []string{long}, Traffic: "stands",
					Undo: []string{paste}}, {On: "kvm2", What: "attach", Commands: []string{paste}}}},
			{Name: "define-anew", What: "redefine", Traffic: "none",
				Steps: []sriov.MigrateStep{{On: "kvm1", What: "shut down", Commands: []string{"virsh shutdown vm1"}}}},
		},
	}
	text := Draw(72, func(t *Text) { Migration(t, m) })
	last := -1
	for _, want := range []string{"refused: ", "never: ", "on kvm1", "MISSING", "to check", "\n" + long + "\n",
		"undo, on kvm1", "\n" + paste + "\n", "on kvm2: attach", "or: redefine", "\nvirsh shutdown vm1\n"} {
		at := strings.Index(text[last+1:], want)
		must.Need(t, at >= 0, "no %q behind what comes before it in\n%s", want, text)
		last += 1 + at
	}
	must.Hold(t, !strings.Contains(text, "not shown"), "a check that is well shows what would mend it")
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); Visible(line) > 72 && !strings.Contains(line, long) {
			t.Errorf("wider than 72: %q", line)
		}
	}
	m.Live = true
	if text := Draw(72, func(t *Text) { Migration(t, m) }); !strings.Contains(text, "possible: ") ||
		strings.Contains(text, "refused: ") {
		t.Errorf("a migration that is possible:\n%s", text)
	}
}

// TestGuestSideIsDrawn draws functions that are served well, badly and not seen.
func TestGuestSideIsDrawn(t *testing.T) {
	g := &sriov.GuestSide{Guest: "vm1", State: "running", VCPUs: 2, Seen: true, IRQBalance: "stopped",
		Notes: []string{"of Windows"}, Functions: []sriov.GuestFunction{
			{PF: "eno1", Index: 3, PCI: "0000:41:02.3", MAC: "52:54:00:00:00:02", Offers: 2, Wants: "ixgbevf",
				Name:   "eth1",
				Driver: "ixgbevf", MACInside: "52:54:00:00:00:02", State: "off", Because: "one CPU serves all 2 queues",
				Advice: []string{"irqbalance"},
				Interrupts: []sriov.GuestInterrupt{{Name: "TxRx-0", VCPUs: setting.CPUs(0)},
					{Name: "TxRx-1", VCPUs: setting.CPUs(0, 1)}}},
			{PF: "eno1", Index: 4, PCI: "0000:41:02.4", Wants: "ixgbevf", State: "unknown",
				Because: "its inside was not seen"},
		}}
	text := Draw(80, func(t *Text) { GuestSide(t, g) })
	must.Contain(t, text, "eno1 VF 3", "2 queue pairs offered", "eth1 driver ixgbevf", "TxRx-0 on vCPU 0\n",
		"TxRx-1 on vCPUs 0-1\n", "off  one CPU serves", "hint: irqbalance", "not known for its port's driver",
		"needs ixgbevf (Linux)", "note: of Windows")
	g.Seen, g.Why = false, "it is shut off"
	must.Contain(t, Draw(80, func(t *Text) { GuestSide(t, g) }), "not seen inside: it is shut off")
}
