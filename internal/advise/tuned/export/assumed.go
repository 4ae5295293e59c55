package export

// builtinProfile stands in for TuneD's own profiles if their files cannot be read. It has what they have in common in
// versions 2.20 to 2.25 (the tests check that it sets no more), so a profile based on it is right with each of them.
func builtinProfile(name string) (string, bool) {
	text, ok := map[string]string{
		"usr/lib/tuned/" + realtimeBase + "/tuned.conf": `[variables]
include=/etc/tuned/realtime-virtual-host-variables.conf
non_isolated=${f:cpulist_invert:${isolated_cores}}
non_isolated_mask=${f:cpulist2hex_invert:${isolated_cores}}
[vm]
transparent_hugepages=never
[cpu]
governor=performance
[sysctl]
kernel.numa_balancing=0
kernel.nmi_watchdog=0
kernel.hung_task_timeout_secs=600
kernel.timer_migration=0
kernel.sched_rt_runtime_us=-1
vm.stat_interval=10
vm.swappiness=10
net.core.busy_poll=50
net.core.busy_read=50
net.ipv4.tcp_fastopen=3
[sysfs]
/sys/devices/virtual/workqueue/cpumask=${non_isolated_mask}
/sys/devices/virtual/workqueue/*/cpumask=${non_isolated_mask}
/sys/kernel/mm/ksm/run=2
[bootloader]
cmdline_known=skew_tick=1 tsc=reliable isolcpus=managed_irq,domain,${isolated_cores} intel_pstate=disable nosoftlockup nohz=on nohz_full=${isolated_cores} rcu_nocbs=${isolated_cores} irqaffinity=${non_isolated}
[scheduler]
isolated_cores=${isolated_cores}
group.ksoftirqd=0:f:2:*:^\[ksoftirqd
group.rcuc=0:f:4:*:^\[rcuc
group.rcub=0:f:4:*:^\[rcub
ps_blacklist=^\[ksoftirqd;^\[ktimers;^\[rcuc;^\[rcub;^\[ktimersoftd;pmd;PMD;^DPDK;qemu-kvm
`,
		"usr/lib/tuned/" + bulkBase + "/tuned.conf": throughput,
		"usr/lib/tuned/" + hostBase + "/tuned.conf": throughput,
	}[name]
	return text, ok
}

const throughput = "[cpu]\ngovernor=performance\n[sysctl]\nvm.swappiness=10\nnet.core.somaxconn=>2048\n"
