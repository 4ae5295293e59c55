package facts

import (
	"fmt"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Size is the size of a synthetic host.
type Size struct{ CPUs, NICs, Queues, Guests int }

// Large is the size for benchmarks: a host with 256 CPUs, 8 NICs of 64 queues and 200 guests.
var Large = Size{CPUs: 256, NICs: 8, Queues: 64, Guests: 200}

// Synthetic returns a host for benchmarks and tests of scale. It is deterministic and plausible: two packages, SMT,
// eight CPUs per L3 cache, every interrupt, transmit queue, thread and definition filled in. CPUs must be a multiple of
// 16.
func Synthetic(size Size) *Host {
	h := &Host{
		Name: "synthetic", Taken: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Root: "/", AsRoot: true,
		Kernel: Kernel{
			Release: "6.12.48-amd64", Version: "#1 SMP PREEMPT_DYNAMIC", Arch: X86,
			CommandLine: "BOOT_IMAGE=/vmlinuz ro quiet",
			Vulnerabilities: map[string]string{"meltdown": "Not affected",
				"spectre_v2": "Mitigation: Enhanced / Automatic IBRS"},
			Clocksource: "tsc",
		},
		KVM: KVM{
			Loaded: true, Vendor: "kvm_amd", Vhost: true, QEMU: "10.0.2", Libvirt: "11.3.0",
			Parameters: map[string]string{"kvm.halt_poll_ns": "200000", "kvm_amd.avic": "N",
				"vhost_net.experimental_zcopytx": "0"},
		},
		Services: []Service{{Name: "irqbalance", Running: true, PID: 812}, {Name: "tuned"}},
		Netfilter: Netfilter{BridgeModule: true, Conntrack: true, Backends: []string{"nft"},
			Rules: []RuleSet{{Tool: "nft", Rules: 40, Lines: []string{}}}},
		Bridges: []Bridge{}, Tunnels: []Tunnel{}, VFs: []VF{}, Unseen: []Unseen{}, Readings: Readings{},
	}
	h.Topology = syntheticTopology(size.CPUs)
	for i := range size.CPUs {
		h.Softnet = append(h.Softnet, Softnet{CPU: i, Processed: uint64(1e9 + i), Squeezed: uint64(i)})
	}
	for i := range size.NICs {
		h.NICs = append(h.NICs, syntheticNIC(i, size))
		h.Bridges = append(h.Bridges, Bridge{Name: fmt.Sprintf("br%d", i), MTU: 1500, Up: true,
			Ports: []string{fmt.Sprintf("eth%d", i)}, Snooping: true})
	}
	for i := range size.Guests {
		g := syntheticGuest(i, size)
		h.Guests = append(h.Guests, g)
		for j, nic := range g.Interfaces {
			h.Taps = append(h.Taps, Tap{
				Name: nic.Tap, Type: "tap", Master: nic.Source, MultiQueue: true, TxQueues: nic.Queues,
				RxQueues: nic.Queues,
				XPS:      make([]setting.CPUSet, nic.Queues), RPS: make([]setting.CPUSet, nic.Queues), TxQueueLen: 1000,
				Up: true, Owner: -1,
				Guest: g.Name, Stats: map[string]uint64{"rx_packets": uint64(i), "tx_packets": uint64(j),
					"tx_dropped": 0},
			})
			bridge := &h.Bridges[i%max(size.NICs, 1)]
			bridge.Ports = append(bridge.Ports, nic.Tap)
		}
	}
	return h
}

func syntheticTopology(cpus int) Topology {
	cores, node := cpus/2, func(cpu int) int { return cpu % (cpus / 2) / (cpus / 4) }
	t := Topology{
		Model: "AMD EPYC 9754 128-Core Processor", Vendor: "AuthenticAMD", SMT: "on",
		Processor: &Processor{Family: 0x19, Model: 0xa0, Flags: []string{"avic", "x2avic"}},
		Hugepages: []Hugepages{{Size: 2 << 20, Total: 8192, Free: 4096}, {Size: 1 << 30, Total: 256, Free: 56}},
	}
	byL3 := map[int]setting.CPUSet{}
	var nodes [2]setting.CPUSet
	for cpu := range cpus {
		core := cpu % cores
		t.CPUs = append(t.CPUs, CPU{
			ID: cpu, Online: true, Package: node(cpu), Die: 0, Core: core, CoreID: core % (cores / 2),
			Siblings: setting.CPUs(core, core+cores), Node: node(cpu), L3: core / 4,
		})
		byL3[core/4] = append(byL3[core/4], cpu)
		nodes[node(cpu)] = append(nodes[node(cpu)], cpu)
		t.Online = append(t.Online, cpu)
	}
	for i := range cores / 4 {
		t.Caches = append(t.Caches, Cache{Level: 3, Type: "Unified", Size: 16 << 20, CPUs: setting.CPUs(byL3[i]...)})
	}
	for i, set := range nodes {
		t.Nodes = append(t.Nodes, Node{
			ID: i, CPUs: setting.CPUs(set...), Memory: 384 << 30, Free: 100 << 30,
			Distances: [][]int{{10, 32}, {32, 10}}[i],
			Hugepages: []Hugepages{{Size: 2 << 20, Total: 4096, Free: 2048}, {Size: 1 << 30, Total: 128, Free: 28}},
		})
	}
	t.Counts = Counts{Packages: 2, NUMANodes: 2, L3Caches: len(t.Caches), Cores: cores, CPUsOnline: cpus}
	return t
}

func syntheticNIC(i int, size Size) NIC {
	n := NIC{
		Name: fmt.Sprintf("eth%d", i), Index: i + 2, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i), Driver: "ice",
		Firmware: "4.40",
		Bus:      "pci", PCI: fmt.Sprintf("0000:%02x:00.0", 0x41+i), Node: i % 2, Up: true, Carrier: "up", MTU: 1500,
		Speed:  25000,
		Master: fmt.Sprintf("br%d", i), TxQueueLen: 1000, RxQueues: size.Queues, TxQueues: size.Queues,
		Channels: &Channels{Combined: size.Queues, MaxCombined: 2 * size.Queues, MaxOther: 1, Other: 1},
		Rings:    &Rings{Rx: 2048, Tx: 512, MaxRx: 8160, MaxTx: 8160},
		Coalesce: map[string]string{"adaptive-rx": "on", "rx-usecs": "50", "tx-usecs": "50"},
		FlowHash: map[string]string{"udp4": "sd", "tcp4": "sdfn"}, Qdisc: "mq",
		Link:  &PCILink{Speed: "16.0 GT/s PCIe", MaxSpeed: "16.0 GT/s PCIe", Width: 8, MaxWidth: 8},
		SRIOV: &SRIOV{Total: 128, AutoProbe: true}, Stats: map[string]uint64{},
	}
	for j := range 60 {
		n.Features = append(n.Features, Feature{Name: fmt.Sprintf("tx-feature-%d", j), On: j%3 == 0, Fixed: j%5 == 0})
	}
	for q := range size.Queues {
		cpu := (i*size.Queues + q) % size.CPUs
		n.IRQs = append(n.IRQs, IRQ{
			Number: 100 + i*size.Queues + q, Name: fmt.Sprintf("ice-eth%d-TxRx-%d", i, q),
			On:       fmt.Sprintf("TxRx-%d", q),
			Affinity: setting.CPUs(cpu), Effective: setting.CPUs(cpu), Hint: setting.CPUs(cpu), Count: uint64(q) * 1e6,
		})
		n.XPS, n.RPS = append(n.XPS, setting.CPUs(cpu)), append(n.RPS, nil)
		n.Stats[fmt.Sprintf("rx_queue_%d_packets", q)] = uint64(q)
	}
	return n
}

func syntheticGuest(i int, size Size) Guest {
	const vcpus = 4
	g := Guest{
		Name: fmt.Sprintf("vm%03d", i), UUID: fmt.Sprintf("00000000-0000-4000-8000-%012x", i), Managed: true,
		Owner: &Owner{Platform: Libvirt},
		State: "running",
		PID:   10000 + 100*i, VCPUs: vcpus, MaxVCPUs: vcpus, Memory: 8 << 30, Hugepages: i%2 == 0,
		CPUMode: "host-passthrough",
		Machine: "pc-q35-10.0", Hostdevs: []string{}, Pending: []string{}, Agent: true,
	}
	add := func(comm, role string, index int, affinity setting.CPUSet) *Thread {
		g.Threads = append(g.Threads, Thread{
			TID: g.PID + len(g.Threads), Comm: comm, Role: role, Index: index, Queue: -1, Affinity: affinity,
			CPU: i % size.CPUs, Policy: "SCHED_OTHER",
		})
		return &g.Threads[len(g.Threads)-1]
	}
	all := make(setting.CPUSet, size.CPUs)
	for cpu := range all {
		all[cpu] = cpu
	}
	add("qemu-system-x86", "emulator", 0, all)
	for v := range vcpus {
		g.Pins = append(g.Pins, setting.CPUs((i*vcpus+v)%size.CPUs))
		add(fmt.Sprintf("CPU %d/KVM", v), "vcpu", v, g.Pins[v])
	}
	for j := range 2 {
		nic := Interface{
			MAC: fmt.Sprintf("52:54:00:%02x:%02x:%02x", j, i>>8, i&255), Type: "bridge",
			Source: fmt.Sprintf("br%d", i%max(size.NICs, 1)),
			Tap:    fmt.Sprintf("vnet%d", 2*i+j), Model: "virtio", Backend: "vhost", Queues: vcpus, RxQueueSize: 256,
		}
		g.Interfaces = append(g.Interfaces, nic)
		for q := range vcpus {
			t := add(fmt.Sprintf("vhost-%d", g.PID), "vhost", j*vcpus+q, all)
			t.NIC, t.Queue, t.Sure = nic.MAC, q, ByOrder
		}
	}
	g.Definition = syntheticDefinition(g)
	return g
}

func syntheticDefinition(g Guest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<domain type='kvm'>\n  <name>%s</name>\n  <uuid>%s</uuid>\n  <memory unit='KiB'>%d</memory>\n  "+
		"<vcpu placement='static'>%d</vcpu>\n  <cputune>\n", g.Name, g.UUID, g.Memory>>10, g.VCPUs)
	for v, pin := range g.Pins {
		fmt.Fprintf(&b, "    <vcpupin vcpu='%d' cpuset='%s'/>\n", v, pin)
	}
	fmt.Fprintf(&b, "  </cputune>\n  <os>\n    <type arch='x86_64' machine='%s'>hvm</type>\n  </os>\n  <cpu "+
		"mode='%s'/>\n  <devices>\n    <emulator>/usr/bin/qemu-system-x86_64</emulator>\n", g.Machine, g.CPUMode)
	for slot, nic := range g.Interfaces {
		fmt.Fprintf(&b, "    <interface type='%s'>\n      <mac address='%s'/>\n      <source bridge='%s'/>\n      "+
			"<model type='%s'/>\n      <driver name='%s' queues='%d' rx_queue_size='%d'/>\n      <address type='pci' "+
			"domain='0x0000' bus='0x%02x' slot='0x00' function='0x0'/>\n    </interface>\n",
			nic.Type, nic.MAC, nic.Source, nic.Model, nic.Backend, nic.Queues, nic.RxQueueSize, slot+1)
	}
	for port := range 14 {
		fmt.Fprintf(&b, "    <controller type='pci' index='%d' model='pcie-root-port'>\n      <model "+
			"name='pcie-root-port'/>\n      <target chassis='%d' port='0x%x'/>\n      <address type='pci' "+
			"domain='0x0000' bus='0x00' slot='0x02' function='0x%d'/>\n    </controller>\n", port+1, port+1, port+16,
			port%8)
	}
	b.WriteString("    <channel type='unix'>\n      <target type='virtio' name='org.qemu.guest_agent.0'/>\n    " +
		"</channel>\n  </devices>\n</domain>\n")
	return b.String()
}
