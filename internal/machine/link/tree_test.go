package link

import (
	"context"
	"testing"

	"mpps/internal/machine/netfilter"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestNetworkOfRecordedHost(t *testing.T) {
	m := treetest.Recorded(t, treetest.KVMHost())
	h := &facts.Host{}
	Inventory(context.Background(), m, h)
	if len(h.NICs) != 2 || len(h.Bridges) != 1 || len(h.Taps) != 1 || len(h.Tunnels) != 1 || len(h.VFs) != 1 ||
		len(h.Unseen) != 0 {
		t.Fatalf("%d NICs, %d bridges, %d taps, %d tunnels, %d VFs, unseen %v; want 2, 1, 1, 1, 1, none",
			len(h.NICs), len(h.Bridges), len(h.Taps), len(h.Tunnels), len(h.VFs), h.Unseen)
	}
	none := setting.CPUSet{}
	ens1, eth0 := h.NICs[0], h.NICs[1]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"PF", []any{ens1.Name, ens1.Driver, ens1.Bus, ens1.PCI, ens1.Node, ens1.Up, ens1.Carrier, ens1.Speed,
			ens1.Master},
			[]any{"ens1", "igb", "pci", "0000:41:00.0", 1, true, "up", 1000, "br0"}},
		{"PF link", *ens1.Link, facts.PCILink{Speed: "5.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 4,
			MaxWidth: 8}},
		{"PF SR-IOV", *ens1.SRIOV, facts.SRIOV{Total: 7, Enabled: 1, AutoProbe: true}},
		{"PF queues", []any{ens1.RxQueues, ens1.TxQueues, ens1.RPS, ens1.XPS},
			[]any{1, 2, []setting.CPUSet{none}, []setting.CPUSet{setting.CPUs(0, 1), setting.CPUs(32)}}},
		{"PF interrupts", ens1.IRQs, []facts.IRQ{
			{Number: 45, Name: "ens1", On: "device", Affinity: setting.CPUs(0, 1, 2, 3), Effective: none, Hint: none,
				Count: 3},
			{Number: 46, Name: "ens1-TxRx-0", On: "TxRx-0", Affinity: setting.CPUs(0, 1, 2, 3),
				Effective: setting.CPUs(2), Hint: setting.CPUs(1), Count: 4},
		}},
		{"PF address of an interrupt", ens1.Address(ens1.IRQs[1]).String(), "irq-affinity:ens1/TxRx-0/46"},
		{"PF management", ens1.Management, "default route"},
		{"virtio", []any{eth0.Name, eth0.Driver, eth0.Bus, eth0.PCI, eth0.Node, eth0.Speed, eth0.Link == nil,
			eth0.SRIOV == nil, eth0.Management},
			[]any{"eth0", "virtio_net", "virtio", "0000:00:03.0", -1, -1, true, true, ""}},
		{"virtio interrupt", []any{eth0.IRQs[0].Number, eth0.IRQs[0].On}, []any{30, "input.0"}},
		{"VF", h.VFs[0], facts.VF{
			PF: "ens1", PCI: "0000:41:10.0", Group: 17, Driver: "vfio-pci",
			Untold: facts.VFAttributes,
		}},
		{"bridge", h.Bridges[0], facts.Bridge{
			Name: "br0", MAC: "52:54:00:00:00:04", MTU: 1500, Up: true, Ports: []string{"ens1", "vnet0"},
			Snooping: true, CallIPTables: true,
		}},
		{"tap", h.Taps[0], facts.Tap{
			Name: "vnet0", Type: "tap", Owner: 64055, Master: "br0", MultiQueue: true, TxQueues: 2, RxQueues: 1,
			TxQueueLen: 1000, Up: true,
			XPS: []setting.CPUSet{setting.CPUs(0, 1), setting.CPUs(1)}, RPS: []setting.CPUSet{none},
			Stats: map[string]uint64{"rx_packets": 7},
		}},
		{"tunnel", h.Tunnels[0], facts.Tunnel{Name: "vx0", Type: "vxlan", Lower: "ens1", TxQueues: 1, RxQueues: 1,
			Up: true, MTU: 1500}},
		{"softnet", h.Softnet, []facts.Softnet{{Processed: 10, Dropped: 2, Squeezed: 3, RPS: 5, FlowLimit: 6}}},
	} {
		must.Same(t, c.got, c.want, "%s", c.what)
	}
}

func TestEmptyTreeHasNoNetwork(t *testing.T) {
	h := &facts.Host{}
	m := treetest.Recorded(t, nil)
	Inventory(context.Background(), m, h)
	netfilter.Inventory(context.Background(), m, h)
	must.Hold(t, h.NICs != nil && len(h.NICs)+len(h.Bridges)+len(h.Taps)+len(h.VFs)+len(h.Netfilter.Rules) == 0,
		"devices in an empty tree: %+v", h)
	must.Hold(t, len(h.Unseen) != 0, "an empty tree must say that interrupts and softnet counters could not be seen")
}
