package host

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/facts"
	"mpps/internal/machine/link"
	"mpps/internal/machine/netfilter"
	"mpps/internal/setting"
)

// kvmHost is a small host: a PF with one VF and a virtio NIC as ports of a bridge, a tap beside them.
func kvmHost() map[string]string {
	const pf, vf, virtio = "sys/devices/pci0000:40/0000:41:00.0/", "sys/devices/pci0000:40/0000:41:10.0/", "sys/devices/pci0000:00/0000:00:03.0/"
	files := map[string]string{
		"sys/bus/pci/drivers/igb/": "", "sys/bus/pci/drivers/vfio-pci/": "", "sys/bus/virtio/drivers/virtio_net/": "",
		"sys/class/net/bonding_masters": "", "sys/kernel/iommu_groups/17/": "",

		pf + "driver": "-> ../../../bus/pci/drivers/igb", pf + "subsystem": "-> ../../../bus/pci", pf + "numa_node": "1\n",
		pf + "current_link_speed": "5.0 GT/s PCIe\n", pf + "max_link_speed": "8.0 GT/s PCIe\n", pf + "current_link_width": "4\n",
		pf + "max_link_width": "8\n", pf + "sriov_totalvfs": "7\n", pf + "sriov_numvfs": "1\n", pf + "sriov_drivers_autoprobe": "1\n",
		pf + "virtfn0": "-> ../0000:41:10.0", pf + "msi_irqs/45": "msix\n", pf + "msi_irqs/46": "msix\n",
		vf + "driver": "-> ../../../bus/pci/drivers/vfio-pci", vf + "iommu_group": "-> ../../../kernel/iommu_groups/17",
		vf + "physfn":        "-> ../0000:41:00.0",
		virtio + "subsystem": "-> ../../../bus/pci", virtio + "numa_node": "-1\n", virtio + "uevent": "DRIVER=virtio-pci\nPCI_SLOT_NAME=0000:00:03.0\n",
		virtio + "current_link_speed": "Unknown\n", virtio + "max_link_speed": "Unknown\n", virtio + "msi_irqs/30": "msix\n",
		virtio + "virtio2/subsystem": "-> ../../../../bus/virtio", virtio + "virtio2/driver": "-> ../../../../bus/virtio/drivers/virtio_net",
		"proc/interrupts": "           CPU0       CPU1\n" +
			" 30:          1          2  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n" +
			" 45:          3          0  IR-PCI-MSIX-0000:41:00.0   0-edge      ens1\n" +
			" 46:          0          4  IR-PCI-MSIX-0000:41:00.0   1-edge      ens1-TxRx-0\n",
		"proc/irq/46/smp_affinity_list": "0-3\n", "proc/irq/46/effective_affinity_list": "2\n", "proc/irq/46/affinity_hint": "00000000,00000002\n",
		"proc/irq/46/ens1-TxRx-0/": "", "proc/irq/45/ens1/": "", "proc/irq/45/smp_affinity_list": "0-3\n",
		"proc/net/route":        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\nbr0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n",
		"proc/net/softnet_stat": "0000000a 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 00000005 00000006\n",
	}
	device := func(dir, name, index string, more map[string]string) {
		files["sys/class/net/"+name] = "-> ../../" + strings.TrimPrefix(dir, "sys/") + "net/" + name
		at := dir + "net/" + name + "/"
		files[at+"ifindex"], files[at+"iflink"], files[at+"flags"], files[at+"mtu"] = index+"\n", index+"\n", "0x1003\n", "1500\n"
		files[at+"address"], files[at+"carrier"], files[at+"tx_queue_len"] = "52:54:00:00:00:0"+index+"\n", "1\n", "1000\n"
		files[at+"uevent"], files[at+"statistics/rx_packets"] = "INTERFACE="+name+"\n", "7\n"
		files[at+"queues/rx-0/rps_cpus"], files[at+"queues/tx-0/xps_cpus"] = "0\n", "3\n"
		for file, text := range more {
			files[at+file] = text
		}
	}
	device(pf, "ens1", "2", map[string]string{
		"device": "-> ../../../0000:41:00.0", "speed": "1000\n", "master": "-> ../../../../virtual/net/br0",
		"queues/tx-1/xps_cpus": "00000001,00000000\n",
	})
	device(virtio+"virtio2/", "eth0", "3", map[string]string{"device": "-> ../../../virtio2", "speed": "-1\n"})
	device("sys/devices/virtual/", "br0", "4", map[string]string{
		"uevent": "DEVTYPE=bridge\nINTERFACE=br0\n", "bridge/nf_call_iptables": "1\n", "bridge/stp_state": "0\n",
		"bridge/multicast_snooping": "1\n", "brif/vnet0/": "", "brif/ens1/": "",
	})
	device("sys/devices/virtual/", "vnet0", "5", map[string]string{
		"tun_flags": "0x5102\n", "owner": "64055\n", "master": "-> ../br0", "queues/tx-1/xps_cpus": "2\n",
	})
	device("sys/devices/virtual/", "vx0", "6", map[string]string{"uevent": "DEVTYPE=vxlan\n", "iflink": "2\n"})
	return files
}

func TestNetworkOfRecordedHost(t *testing.T) {
	m := recorded(t, kvmHost())
	h := &facts.Host{}
	link.Inventory(context.Background(), m.Tree, h)
	if len(h.NICs) != 2 || len(h.Bridges) != 1 || len(h.Taps) != 1 || len(h.Tunnels) != 1 || len(h.VFs) != 1 || len(h.Unseen) != 0 {
		t.Fatalf("%d NICs, %d bridges, %d taps, %d tunnels, %d VFs, unseen %v; want 2, 1, 1, 1, 1, none",
			len(h.NICs), len(h.Bridges), len(h.Taps), len(h.Tunnels), len(h.VFs), h.Unseen)
	}
	none := setting.CPUSet{}
	ens1, eth0 := h.NICs[0], h.NICs[1]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"PF", []any{ens1.Name, ens1.Driver, ens1.Bus, ens1.PCI, ens1.Node, ens1.Up, ens1.Carrier, ens1.Speed, ens1.Master},
			[]any{"ens1", "igb", "pci", "0000:41:00.0", 1, true, "up", 1000, "br0"}},
		{"PF link", *ens1.Link, facts.PCILink{Speed: "5.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 4, MaxWidth: 8}},
		{"PF SR-IOV", *ens1.SRIOV, facts.SRIOV{Total: 7, Enabled: 1, AutoProbe: true}},
		{"PF queues", []any{ens1.RxQueues, ens1.TxQueues, ens1.RPS, ens1.XPS},
			[]any{1, 2, []setting.CPUSet{none}, []setting.CPUSet{setting.CPUs(0, 1), setting.CPUs(32)}}},
		{"PF interrupts", ens1.IRQs, []facts.IRQ{
			{Number: 45, Name: "ens1", On: "device", Affinity: setting.CPUs(0, 1, 2, 3), Effective: none, Hint: none, Count: 3},
			{Number: 46, Name: "ens1-TxRx-0", On: "TxRx-0", Affinity: setting.CPUs(0, 1, 2, 3), Effective: setting.CPUs(2), Hint: setting.CPUs(1), Count: 4},
		}},
		{"PF address of an interrupt", ens1.Address(ens1.IRQs[1]).String(), "irq-affinity:ens1/TxRx-0/46"},
		{"PF management", ens1.Management, "default route"},
		{"virtio", []any{eth0.Name, eth0.Driver, eth0.Bus, eth0.PCI, eth0.Node, eth0.Speed, eth0.Link == nil, eth0.SRIOV == nil, eth0.Management},
			[]any{"eth0", "virtio_net", "virtio", "0000:00:03.0", -1, -1, true, true, ""}},
		{"virtio interrupt", []any{eth0.IRQs[0].Number, eth0.IRQs[0].On}, []any{30, "input.0"}},
		{"VF", h.VFs[0], facts.VF{
			PF: "ens1", PCI: "0000:41:10.0", Group: 17, Driver: "vfio-pci",
			Untold: facts.VFAttributes,
		}},
		{"bridge", h.Bridges[0], facts.Bridge{
			Name: "br0", MAC: "52:54:00:00:00:04", MTU: 1500, Up: true, Ports: []string{"ens1", "vnet0"}, Snooping: true, CallIPTables: true,
		}},
		{"tap", h.Taps[0], facts.Tap{
			Name: "vnet0", Type: "tap", Owner: 64055, Master: "br0", MultiQueue: true, TxQueues: 2, RxQueues: 1, TxQueueLen: 1000, Up: true,
			XPS: []setting.CPUSet{setting.CPUs(0, 1), setting.CPUs(1)}, RPS: []setting.CPUSet{none}, Stats: map[string]uint64{"rx_packets": 7},
		}},
		{"tunnel", h.Tunnels[0], facts.Tunnel{Name: "vx0", Type: "vxlan", Lower: "ens1", TxQueues: 1, RxQueues: 1, Up: true}},
		{"softnet", h.Softnet, []facts.Softnet{{Processed: 10, Dropped: 2, Squeezed: 3, RPS: 5, FlowLimit: 6}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.what, c.got, c.want)
		}
	}
}

func TestEmptyTreeHasNoNetwork(t *testing.T) {
	h := &facts.Host{}
	m := recorded(t, nil)
	link.Inventory(context.Background(), m.Tree, h)
	netfilter.Inventory(context.Background(), m.Tree, h)
	if h.NICs == nil || len(h.NICs)+len(h.Bridges)+len(h.Taps)+len(h.VFs)+len(h.Netfilter.Rules) != 0 {
		t.Errorf("devices in an empty tree: %+v", h)
	}
	if len(h.Unseen) == 0 {
		t.Error("an empty tree must say that interrupts and softnet counters could not be seen")
	}
}
