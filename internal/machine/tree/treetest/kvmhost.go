package treetest

import "strings"

// KVMHost returns the files of a small host: a PF with one VF, a virtio NIC, a bridge with the PF and a tap as ports,
// and a vxlan device on the PF.
func KVMHost() map[string]string {
	const pf, vf, virtio = "sys/devices/pci0000:40/0000:41:00.0/", "sys/devices/pci0000:40/0000:41:10.0/",
		"sys/devices/pci0000:00/0000:00:03.0/"
	files := map[string]string{
		"sys/bus/pci/drivers/igb/": "", "sys/bus/pci/drivers/vfio-pci/": "", "sys/bus/virtio/drivers/virtio_net/": "",
		"sys/class/net/bonding_masters": "", "sys/kernel/iommu_groups/17/": "",

		pf + "driver": "-> ../../../bus/pci/drivers/igb", pf + "subsystem": "-> ../../../bus/pci", pf +
			"numa_node": "1\n",
		pf + "current_link_speed": "5.0 GT/s PCIe\n", pf + "max_link_speed": "8.0 GT/s PCIe\n", pf +
			"current_link_width": "4\n",
		pf + "max_link_width": "8\n", pf + "sriov_totalvfs": "7\n", pf + "sriov_numvfs": "1\n", pf +
			"sriov_drivers_autoprobe": "1\n",
		pf + "virtfn0": "-> ../0000:41:10.0", pf + "msi_irqs/45": "msix\n", pf + "msi_irqs/46": "msix\n",
		vf + "driver": "-> ../../../bus/pci/drivers/vfio-pci", vf + "iommu_group": "-> ../../../kernel/iommu_groups/17",
		vf + "physfn":        "-> ../0000:41:00.0",
		virtio + "subsystem": "-> ../../../bus/pci", virtio + "numa_node": "-1\n", virtio +
			"uevent": "DRIVER=virtio-pci\nPCI_SLOT_NAME=0000:00:03.0\n",
		virtio + "current_link_speed": "Unknown\n", virtio + "max_link_speed": "Unknown\n", virtio +
			"msi_irqs/30": "msix\n",
		virtio + "virtio2/subsystem": "-> ../../../../bus/virtio", virtio +
			"virtio2/driver": "-> ../../../../bus/virtio/drivers/virtio_net",
		"proc/interrupts": "           CPU0       CPU1\n" +
			" 30:          1          2  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n" +
			" 45:          3          0  IR-PCI-MSIX-0000:41:00.0   0-edge      ens1\n" +
			" 46:          0          4  IR-PCI-MSIX-0000:41:00.0   1-edge      ens1-TxRx-0\n",
		"proc/irq/46/smp_affinity_list": "0-3\n", "proc/irq/46/effective_affinity_list": "2\n",
		"proc/irq/46/affinity_hint": "00000000,00000002\n",
		"proc/irq/46/ens1-TxRx-0/":  "", "proc/irq/45/ens1/": "", "proc/irq/45/smp_affinity_list": "0-3\n",
		"proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\nbr0 " +
			"00000000 010200C0 0003 0 0 0 00000000 0 0 0\n",
		"proc/net/softnet_stat": "0000000a 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 " +
			"00000005 00000006\n",
	}
	device := func(dir, name, index string, more map[string]string) {
		files["sys/class/net/"+name] = "-> ../../" + strings.TrimPrefix(dir, "sys/") + "net/" + name
		at := dir + "net/" + name + "/"
		files[at+"ifindex"], files[at+"iflink"], files[at+"flags"], files[at+"mtu"] = index+"\n", index+"\n",
			"0x1003\n", "1500\n"
		files[at+"address"], files[at+"carrier"], files[at+"tx_queue_len"] = "52:54:00:00:00:0"+index+"\n", "1\n",
			"1000\n"
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
