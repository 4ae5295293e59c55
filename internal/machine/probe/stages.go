package probe

import (
	"slices"
	"strings"
)

// Stages of CPU time (facts.ProfileEntry), besides those in the tables.
const (
	stageLock  = "lock"
	stageOther = "other" // in the kernel, with no function of the packet path on the stack
	stageIdle  = "idle"  // not listed
)

// modules maps kernel modules to stages. NIC drivers are in drivers.
var modules = map[string]string{
	"bridge": "bridge", "openvswitch": "bridge", "br_netfilter": "netfilter",
	"nf_conntrack": "conntrack", "nf_nat": "conntrack", "nf_conntrack_bridge": "conntrack", "nft_ct": "conntrack",
	"xt_conntrack": "conntrack",
	"vxlan":        "overlay", "geneve": "overlay", "ip_gre": "overlay", "ip6_gre": "overlay", "gre": "overlay",
	"udp_tunnel": "overlay", "ip6_udp_tunnel": "overlay", "ip_tunnel": "overlay",
	"8021q": "overlay", "bonding": "overlay", "macvlan": "overlay",
	"tun": "tun", "tap": "tun", "macvtap": "tun", "vhost": "vhost", "vhost_net": "vhost", "vhost_iotlb": "vhost",
	"virtio_net": "virtio", "virtio_ring": "virtio", "virtio_pci": "virtio", "virtio": "virtio",
	"kvm": "kvm", "kvm_intel": "kvm", "kvm_amd": "kvm", "veth": "driver", "af_packet": "socket",
}

// modulePrefixes maps families of modules to stages.
var modulePrefixes = []struct{ prefix, stage string }{
	{"nf_", "netfilter"}, {"nft_", "netfilter"}, {"xt_", "netfilter"}, {"x_tables", "netfilter"},
	{"ip_tables", "netfilter"}, {"ip6_tables", "netfilter"}, {"iptable_", "netfilter"},
	{"ip6table_", "netfilter"}, {"ebt", "netfilter"}, {"arp_tables", "netfilter"}, {"ip_set", "netfilter"},
	{"sch_", "qdisc"}, {"cls_", "qdisc"}, {"act_", "qdisc"},
	{"mlx4", "driver"}, {"mlx5", "driver"}, {"bnx", "driver"}, {"ixgbe", "driver"}, {"e1000", "driver"},
	{"iavf", "driver"}, {"qed", "driver"}, {"hns3", "driver"},
}

// drivers are NIC drivers.
var drivers = []string{
	"igb", "igbvf", "igc", "i40e", "ice", "fm10k", "ena", "gve", "tg3", "sfc", "cxgb4", "be2net", "enic", "nfp",
	"atlantic", "r8169", "vmxnet3", "hv_netvsc", "mana", "thunderx", "netdevsim", "idpf", "ionic", "liquidio",
	"octeontx2", "nicvf", "xen_netfront", "mvpp2", "mvneta", "stmmac", "virtio_net",
}

// functions maps prefixes of built-in functions to stages. The first match counts, so longer prefixes come first.
var functions = []struct{ prefix, stage string }{
	// idle: arch/x86/kernel/process.c, drivers/cpuidle, drivers/idle
	{"default_idle", stageIdle}, {"mwait_idle", stageIdle}, {"intel_idle", stageIdle}, {"acpi_idle", stageIdle},
	{"acpi_safe_halt", stageIdle}, {"acpi_processor_ffh_cstate", stageIdle}, {"poll_idle", stageIdle},
	{"cpuidle_enter", stageIdle}, {"pv_native_safe_halt", stageIdle}, {"native_safe_halt", stageIdle},
	{"pvm_safe_halt", stageIdle}, {"haltpoll", stageIdle}, {"cpu_idle_poll", stageIdle}, {"arch_cpu_idle", stageIdle},
	{"do_idle", stageIdle}, {"cpu_startup_entry", stageIdle}, {"native_play_dead", stageIdle},
	{"mwait_play_dead", stageIdle},
	// locks: only functions that wait. Taking a free lock is cheap, and a sample in the unlock function that enables
	// interrupts was delayed from an earlier one.
	{"native_queued_spin_lock_slowpath", stageLock}, {"__pv_queued_spin_lock_slowpath", stageLock},
	{"resilient_queued_spin_lock_slowpath", stageLock}, {"queued_spin_lock_slowpath", stageLock},
	{"virt_spin_lock", stageLock}, {"queued_read_lock_slowpath", stageLock}, {"queued_write_lock_slowpath", stageLock},
	{"osq_lock", stageLock}, {"mutex_spin_on_owner", stageLock}, {"rwsem_spin_on_owner", stageLock},
	// copies
	{"copy_user_generic", "copy"}, {"copy_user_enhanced", "copy"}, {"rep_movs_alternative", "copy"},
	{"_copy_to_iter", "copy"}, {"_copy_from_iter", "copy"}, {"copy_page_to_iter", "copy"},
	{"copy_page_from_iter", "copy"},
	{"csum_and_copy", "copy"}, {"__copy_user", "copy"}, {"_copy_to_user", "copy"}, {"_copy_from_user", "copy"},
	{"memcpy", "copy"}, {"__memcpy", "copy"},
	// bridge and its filter
	{"br_nf_", "netfilter"}, {"br_netfilter", "netfilter"}, {"br_", "bridge"}, {"__br_", "bridge"}, {"ovs_", "bridge"},
	// netfilter
	{"nf_conntrack", "conntrack"}, {"__nf_conntrack", "conntrack"}, {"nf_ct_", "conntrack"}, {"__nf_ct_", "conntrack"},
	{"resolve_normal_ct", "conntrack"}, {"nf_confirm", "conntrack"}, {"nf_nat_", "conntrack"},
	{"__nf_nat", "conntrack"}, {"init_conntrack", "conntrack"},
	{"hash_conntrack", "conntrack"}, {"ipv4_conntrack", "conntrack"}, {"nft_ct_", "conntrack"},
	{"nft_", "netfilter"}, {"__nft_", "netfilter"}, {"nf_", "netfilter"}, {"ipt_", "netfilter"}, {"ip6t_", "netfilter"},
	{"ebt_", "netfilter"}, {"ebtable", "netfilter"}, {"xt_", "netfilter"}, {"iptable", "netfilter"},
	{"arpt_", "netfilter"},
	// overlays
	{"vxlan_", "overlay"}, {"geneve_", "overlay"}, {"gre_", "overlay"}, {"__gre_", "overlay"}, {"ipgre_", "overlay"},
	{"ip_tunnel_", "overlay"}, {"iptunnel_", "overlay"}, {"udp_tunnel", "overlay"}, {"vlan_", "overlay"},
	{"bond_", "overlay"},
	{"macvlan_", "overlay"},
	// queue disciplines and classifiers
	{"sch_direct_xmit", "qdisc"}, {"__qdisc_run", "qdisc"}, {"qdisc_", "qdisc"}, {"dev_requeue_skb", "qdisc"},
	{"pfifo_fast_", "qdisc"}, {"tbf_", "qdisc"}, {"htb_", "qdisc"}, {"fq_", "qdisc"}, {"codel_", "qdisc"},
	{"netem_", "qdisc"}, {"sfq_", "qdisc"},
	{"prio_enqueue", "qdisc"}, {"prio_dequeue", "qdisc"}, {"ingress_", "qdisc"}, {"clsact_", "qdisc"},
	{"tcf_", "qdisc"}, {"u32_classify", "qdisc"}, {"fl_classify", "qdisc"}, {"sch_handle_", "qdisc"},
	// taps and vhost
	{"tun_", "tun"}, {"tap_", "tun"}, {"macvtap_", "tun"}, {"vhost_", "vhost"}, {"__vhost", "vhost"},
	{"handle_rx", "vhost"}, {"handle_tx", "vhost"}, {"translate_desc", "vhost"},
	{"virtnet_", "virtio"}, {"virtqueue_", "virtio"}, {"vring_", "virtio"}, {"detach_buf", "virtio"},
	{"receive_buf", "virtio"}, {"receive_mergeable", "virtio"}, {"vm_interrupt", "virtio"}, {"vp_", "virtio"},
	{"free_old_xmit", "virtio"},
	{"kvm_", "kvm"}, {"__kvm_", "kvm"}, {"vmx_", "kvm"}, {"__vmx_", "kvm"}, {"svm_", "kvm"}, {"__svm_", "kvm"},
	{"vcpu_", "kvm"}, {"ioeventfd", "kvm"}, {"irqfd", "kvm"},
	// drivers
	{"veth_", "driver"}, {"ixgbe", "driver"}, {"igb_", "driver"}, {"igc_", "driver"}, {"i40e_", "driver"},
	{"ice_", "driver"}, {"iavf_", "driver"}, {"mlx5e_", "driver"}, {"mlx5_", "driver"}, {"mlx4_", "driver"},
	{"ena_", "driver"}, {"bnxt_", "driver"}, {"e1000", "driver"},
	{"gve_", "driver"}, {"tg3_", "driver"}, {"nsim_", "driver"},
	// sockets
	{"udp_", "socket"}, {"__udp", "socket"}, {"udpv6_", "socket"}, {"packet_", "socket"}, {"tpacket_", "socket"},
	{"sock_", "socket"}, {"__sock_", "socket"}, {"sk_", "socket"}, {"tcp_", "socket"}, {"__tcp", "socket"},
	{"skb_copy_datagram", "socket"}, {"inet_sendmsg", "socket"},
	{"inet_recvmsg", "socket"}, {"__sys_send", "socket"}, {"__sys_recv", "socket"}, {"xsk_", "socket"},
	// eBPF programs and generators
	{"bpf_prog_", "bpf"}, {"bpf_dispatcher", "bpf"}, {"bpf_trampoline", "bpf"}, {"pktgen_", "generator"},
	{"bpf_test_run", "generator"}, {"xdp_test_run", "generator"}, {"xdp_do_redirect", "bpf"},
	// what all packets pass, unless a function above calls it
	{"napi_", "stack"}, {"__napi_", "stack"}, {"net_rx_action", "stack"}, {"net_tx_action", "stack"},
	{"__netif_receive", "stack"}, {"netif_receive", "stack"}, {"process_backlog", "stack"},
	{"enqueue_to_backlog", "stack"}, {"get_rps_cpu", "stack"},
	{"__dev_queue_xmit", "stack"}, {"dev_hard_start_xmit", "stack"}, {"__dev_forward_skb", "stack"},
	{"dev_gro_receive", "stack"}, {"gro_", "stack"}, {"ip_", "stack"}, {"ip6_", "stack"}, {"ipv6_", "stack"},
	{"fib_", "stack"}, {"neigh_", "stack"}, {"__ip_", "stack"},
}

// index maps the first two letters of a prefix to indices in functions: a kernel has a hundred thousand functions.
var index = func() map[string][]int {
	all := map[string][]int{}
	for i, f := range functions {
		all[f.prefix[:2]] = append(all[f.prefix[:2]], i)
	}
	return all
}()

// stageOf returns the stage of a function; empty if its name does not show it: then its caller's stage counts.
func stageOf(name, module string) string {
	if module != "" && module != "bpf" {
		if stage, known := modules[module]; known {
			return stage
		}
		for _, m := range modulePrefixes {
			if strings.HasPrefix(module, m.prefix) {
				return m.stage
			}
		}
		if slices.Contains(drivers, module) {
			return "driver"
		}
		return ""
	}
	if len(name) < 2 {
		return ""
	}
	for _, i := range index[name[:2]] {
		if strings.HasPrefix(name, functions[i].prefix) {
			return functions[i].stage
		}
	}
	return ""
}

// lockWrapper reports whether a function takes locks for its caller.
func lockWrapper(name string) bool {
	return slices.ContainsFunc([]string{
		"_raw_", "__raw_", "queued_", "do_raw_", "mutex_lock", "__mutex_lock", "down_", "rwsem_", "__lock_", "lock_",
		"pv_", "__pv_",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
