package irq

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestInterruptRows(t *testing.T) {
	text := strings.Join([]string{
		"           CPU0       CPU1       ",
		"  7:         34          0  IR-IO-APIC-edge    ",
		" 18:        302          1   IO-APIC-fasteoi   uhci_hcd:usb4, radeon",
		" 34:     256407 2758558739  IR-PCI-MSI-edge      eth4-TxRx-0",
		" 35:          0          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0",
		" 36:          0          0 PCI-MSIX-0000:00:03.0   3-edge      ",
		" 44:          5          6  GICv3 27 Level     arch_timer",
		"NMI:       6191       6289   Non-maskable interrupts",
		"ERR:         34",
		" 99:          1",
	}, "\n")
	want := []string{
		"7 34 []", "18 303 [uhci_hcd:usb4 radeon]", "34 2758815146 [eth4-TxRx-0]", "35 0 [virtio2-output.0]", "36 0 []",
		"44 11 [arch_timer]",
	}
	var got []string
	for _, row := range ParseInterrupts(text) {
		got = append(got, fmt.Sprint(row.Number, row.Count(), row.Actions))
	}
	must.Hold(t, slices.Equal(got, want), "rows:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// TestInterruptsOfRecordedHosts compares the result with that of the recording project's own tool.
func TestInterruptsOfRecordedHosts(t *testing.T) {
	folder := treetest.Corpus(t, "hosts")
	for _, c := range []struct {
		file, device, pci, bus, driver string
		want                           string
	}{
		{"rss-ladder.tests/igb.E5606/interrupts", "eth0", "", "", "igb",
			"57 device, 58 rx-0, 59 rx-1, 60 rx-2, 61 rx-3, 62 tx-0, 63 tx-1, 64 tx-2, 65 tx-3"},
		{"rss-ladder.tests/ixgbe.E5645/interrupts", "eth1", "", "", "ixgbe",
			"74 device, 75 TxRx-0, 76 TxRx-1, 77 TxRx-2, 78 TxRx-3, 79 TxRx-4, 80 TxRx-5, 81 TxRx-6, 82 TxRx-7"},
		{"rss-ladder.tests/mlx5.Q6700/interrupts", "enp1s0f0", "0000:01:00.0", "0000:01:00.0", "mlx5_core",
			"27 mlx5_pages_eq, 28 mlx5_cmd_eq, 29 mlx5_async_eq, 30 mlx5_comp0, 31 mlx5_comp1, 32 mlx5_comp2, 33 " +
				"mlx5_comp3"},
		{"server-info-show.tests/1xE3-1271.I217_and_X710.L2_mixed.masterconf/interrupts", "eth0", "0000:01:00.0",
			"0000:01:00.0", "i40e",
			"32 misc, 33 TxRx-0, 34 TxRx-1, 35 TxRx-2, 36 TxRx-3, 37 fdir-TxRx-0"},
	} {
		text := must.Get(os.ReadFile(filepath.Join(folder, c.file)))(t)
		var got []string
		nic := facts.NIC{Name: c.device, PCI: c.pci, Driver: c.driver}
		for _, irq := range matchInterrupts(&nic, c.bus, nil, ParseInterrupts(string(text)), nil) {
			got = append(got, fmt.Sprintf("%d %s", irq.Number, irq.On))
		}
		must.Equal(t, strings.Join(got, ", "), c.want, "%s, %s", c.file, c.device)
	}
}

func TestInterruptNames(t *testing.T) {
	for _, c := range []struct{ action, device, bus, driver, want string }{
		{"eth0-TxRx-3", "eth0", "0000:41:00.0", "igb", "TxRx-3"},
		{"eth0-TxRx-3", "enp65s0", "0000:41:00.0", "igb", "TxRx-3"}, // asked for before the device was renamed
		{"i40e-ens1f0-TxRx-12", "ens1f0", "0000:41:00.0", "i40e", "TxRx-12"},
		{"virtio2-input.0", "eth0", "virtio2", "virtio_net", "input.0"},
		{"mlx5_comp3@pci:0000:01:00.0", "eth0", "0000:01:00.0", "mlx5_core", "mlx5_comp3"},
		{"ena-mgmnt@pci:0000:00:05.0", "eth0", "0000:00:05.0", "ena", "mgmnt"},
		{"eth0-Tx-Rx-0", "eth0", "0000:00:05.0", "ena", "Tx-Rx-0"},
		{"eth0", "eth0", "0000:00:05.0", "e1000", "device"},
		{"eth0-q0", "eth0", "0000:00:05.0", "be2net", "q0"},
		{"eth0-tx/rx", "eth0", "0000:00:05.0", "x", "tx_rx"},
	} {
		must.Equal(t, irqNameOn(c.action, c.device, c.bus, c.driver), c.want, "%s on %s", c.action, c.device)
	}
	must.Hold(t, !containsName("eth10-TxRx-0", []string{"eth1"}) && containsName("i40e-eth1-TxRx-0", []string{"eth1"}),
		"a device's name must match as a whole word only")
}

func FuzzInterrupts(f *testing.F) {
	f.Add("           CPU0\n 34:     256407  IR-PCI-MSI-edge      eth4-TxRx-0\n")
	f.Add("\n7: \n:::\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, row := range ParseInterrupts(text) {
			row.Count()
			for _, action := range row.Actions {
				if on := irqNameOn(action, "eth0", "virtio2", "igb"); strings.Contains(on, "/") || on == "" {
					t.Errorf("name %q of %q does not fit into an address", on, action)
				}
			}
		}
	})
}
