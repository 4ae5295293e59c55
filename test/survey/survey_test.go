package survey

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// answers are what programs print on a host, by the beginning of the command line.
var answers = map[string]string{
	sysctlCommand: "net.core.dev_weight = 64\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\n",
	grepCommand: "/sys/kernel/mm/transparent_hugepage/enabled:always [madvise] " +
		"never\n/sys/class/net/eth0/queues/tx-0/xps_cpus:0c\n" +
		"/sys/module/kvm/parameters/nx_huge_pages:N\n/sys/kernel/mm/ksm/run:1\n/proc/irq/45/smp_affinity_list:2-3\n/proc/irq/default_smp_affinity:f\n/proc/irq/9/smp_affinity_list:0-1\n",
	bridgeCommand: "5: br0: mtu 1500 \\    bridge forward_delay 0 mcast_snooping 1 nf_call_iptables 1 " +
		"nf_call_ip6tables 0\n",
	linksCommand: "3: eth0: mtu 1500 qdisc mq master br0 mode DEFAULT qlen 1000\\ link/ether " +
		"52:54:00:00:01:00\n5: br0: mtu 1500 qlen 500\\ link\n",
	"ethtool -g": "Ring parameters for eth0:\nPre-set maximums:\nRX:\t4096\nTX:\t4096\nCurrent hardware " +
		"settings:\nRX:\t256\nTX:\t512\n",
	"ethtool -l": "Channel parameters for eth0:\nPre-set maximums:\nCombined:\t8\nCurrent hardware " +
		"settings:\nRX:\tn/a\nCombined:\t4\n",
	"ethtool -c": "Coalesce parameters for eth0:\nAdaptive RX: off  TX: on\nrx-usecs:\t3\n",
	"ethtool -k": "Features for eth0:\nrx-checksumming: on [fixed]\n\ttx-scatter-gather: off\n",
	"ethtool -n": "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\nL4 bytes 0 & " +
		"1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n",
	"p=$(cat": "pid 10's current affinity list: 0-3\npid 12's current affinity list: 1\npid 14's current " +
		"affinity list: 2\npid 15's current affinity list: 3\n     10 qemu-system-x86\n     12 CPU 0/KVM\n     14 " +
		"vhost-10\n     15 vhost-10\n",
	threadCommand: "thread ksoftirqd/1\npid 29's current scheduling policy: SCHED_FIFO\npid 29's current " +
		"scheduling priority: 2\nthread rcuc/1\npid 28's current scheduling policy: SCHED_OTHER\npid 28's current " +
		"scheduling priority: 0\n",
	movableCommand: "0-1\n0-2\n3\n",
	swapCommand:    "/dev/zram0 5\n/dev/sda2 -2\n",
	eventsCommand:  "sched:sched_switch\nirq:irq_handler_entry\n",
	"ip link show": "    vf 0     link/ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff, vlan 100, tx rate 100 (Mbps), " +
		"max_tx_rate 100Mbps, spoof checking on, link-state auto, trust off\n",
	"iptables-leg": "*raw\n:PREROUTING ACCEPT\n-A PREROUTING ! -p 253 -m comment --comment \"mpps nflog-skip\" -j " +
		"ACCEPT\n-A PREROUTING -i vnet7 -j NFLOG\nCOMMIT\n",
	"nft":                           "",
	"tc qdisc show dev vnet0 root":  "qdisc noqueue 8001: root refcnt 2 \n",
	"tc qdisc show dev gre0 root":   "qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024\n",
	"tc qdisc show dev vxlan0 root": "qdisc pfifo_fast 8002: root refcnt 2 bands 3\n",
	"virsh dumpxml": "<domain type='kvm'><cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' " +
		"cpuset='3,2'/><vcpusched vcpus='1-2' scheduler='fifo' priority='1'/><vcpusched vcpus='3' " +
		"scheduler='batch'/></cputune><memoryBacking><hugepages/><locked/></memoryBacking><features><kvm><hint-dedicated state='on'/></kvm><pmu state='off'/><hyperv><vapic state='on'/></hyperv></features><clock><timer name='tsc'/><timer name='kvmclock' present='no'/></clock><devices><interface><mac address='52:54:00:00:00:01'/><model type='e1000'/></interface><interface><mac address='52:54:00:00:00:02'/><model type='virtio'/><driver queues='2'/><coalesce><rx><frames max='32'/></rx></coalesce></interface></devices></domain>\n",
	"grep -E": "set default=\"gnulinux-advanced-1>gnulinux-6.1.0-1-amd64-advanced-1\"\n\tlinux\t/boot/vmlinuz-6.12.107+deb13-amd64 root=UUID=1 ro quiet hugepagesz=1G hugepages=2 console=tty0 console=ttyS0\n" +
		"\tlinux\t/boot/vmlinuz-6.1.0-1-amd64 root=UUID=1 ro single\n",
	"[ ! -e":          "kernel.x = 1\n",
	"grep -H . /proc": "/proc/irq/0/smp_affinity_list:0-3\n",
}

// take is a survey of addresses, and of more than is asked about them.
func take(t *testing.T, addresses ...setting.Address) *Survey {
	t.Helper()
	s := must.Get(Take(func(script string) (string, error) {
		var out strings.Builder
		for _, part := range strings.Split(script, "echo '"+mark)[1:] {
			number, rest, _ := strings.Cut(part, "'\n{ ")
			fmt.Fprintf(&out, "%s%s\n", mark, number)
			for begin, text := range answers {
				if strings.HasPrefix(rest, begin) {
					out.WriteString(text)
				}
			}
		}
		return out.String(), nil
	}, addresses, "grep -H . /proc/irq/*/smp_affinity_list"))(t)
	return s
}

func TestAt(t *testing.T) {
	const nic = "domain:vm/interface/52:54:00:00:00:02/"
	cases := []struct{ address, want string }{
		{"sysctl:net.core.dev_weight", "64"},
		{"sysctl:net.ipv4.tcp_rmem", "4096 131072 6291456"},
		{"sysctl:net.core.none", "absent"},
		{"sysfs:kernel/mm/transparent_hugepage/enabled", "madvise"},
		{"sysfs:class/net/br0/bridge/nf_call_iptables", "1"},
		{"sysfs:class/net/br0/bridge/multicast_snooping", "1"},
		{"sysfs:class/net/eth0/tx_queue_len", "1000"},
		{"sysfs:class/net/br0/tx_queue_len", "500"},
		{"sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus", "2-3"},
		{"module-param:kvm/nx_huge_pages", "N"},
		{"ksm:run", "1"},
		{"irq-affinity:eth0/rx-0/45", "2-3"},
		{"irq-cpus:default", "0-3"},
		{"irq-cpus:9/acpi", "0-1"},
		{"nic-ring:eth0/tx", "512"},
		{"nic-channels:eth0/combined", "4"},
		{"nic-coalesce:eth0/adaptive-tx", "on"},
		{"nic-coalesce:eth0/rx-usecs", "3"},
		{"nic-feature:eth0/rx-checksum", "on"},
		{"nic-feature:eth0/tx-scatter-gather", "off"},
		{"nic-flowhash:eth0/udp4", "sdfn"},
		{"root-qdisc:vnet0", "noqueue"},
		{"root-qdisc:gre0", "default fq_codel"},
		{"root-qdisc:vxlan0", "pfifo_fast 8002:"},
		{"thread-affinity:vm/emulator", "0-3"},
		{"thread-affinity:vm/vcpu/0", "1"},
		{"thread-affinity:vm/vhost/52:54:00:00:00:02/1", "3"},
		{"thread-affinity:vm/vhost/52:54:00:00:00:02/2", "absent"},
		{"thread-sched:ksoftirqd/1", "SCHED_FIFO 2"},
		{"thread-sched:rcuc/1", "SCHED_OTHER"},
		{"thread-sched:rcuc/11", "absent"},
		{"thread-cpus:kernel", "0-3"},
		{"swap:dev/zram0", "on 5"},
		{"swap:dev/sda2", "on"},
		{"swap:dev/sda3", "off"},
		{"trace-events:set_event", "irq:irq_handler_entry sched:sched_switch"},
		{"vf-attr:eth0/0/mac", "00:00:00:00:00:00"},
		{"vf-attr:eth0/0/vlan", "100"},
		{"vf-attr:eth0/0/qos", "0"},
		{"vf-attr:eth0/0/max_tx_rate", "100"},
		{"vf-attr:eth0/0/spoofchk", "on"},
		{"vf-attr:eth0/0/trust", "off"},
		{"vf-attr:eth0/0/link_state", "auto"},
		{"vf-attr:eth0/1/trust", "absent"},
		{"netfilter-rule:nflog-skip/iptables-legacy", "present"},
		{"rule-set:nft", "absent"},
		{"domain:vm/vcpupin/1", "2-3"},
		{"domain:vm/emulatorpin", "absent"},
		{"domain:vm/memoryBacking/hugepages", "default"},
		{"domain:vm/memoryBacking/locked", "yes"},
		{"domain:vm/memoryBacking/nosharepages", "absent"},
		{"domain:vm/vcpusched/1-2", "fifo:1"},
		{"domain:vm/vcpusched/3", "batch"},
		{"domain:vm/vcpusched/1", "absent"},
		{"domain:vm/features/pmu.state", "off"},
		{"domain:vm/features/kvm/hint-dedicated.state", "on"},
		{"domain:vm/features/hyperv/vapic.state", "on"},
		{"domain:vm/clock/timer/kvmclock.present", "no"},
		{nic + "model", "virtio"},
		{nic + "driver.queues", "2"},
		{nic + "driver.name", "absent"},
		{nic + "coalesce.rx.frames.max", "32"},
		{"kernel-arg:quiet", "present"},
		{"kernel-arg:console", "tty0 ttyS0"},
		{"kernel-arg:hugepagesz+hugepages", "hugepagesz=1G hugepages=2"},
		{"kernel-arg:single", "absent"},
		{"boot-kernel:default", "6.1.0-1-amd64"},
		{"file:etc/sysctl.d/90-mpps.conf", "kernel.x = 1\n"},
	}
	var addresses []setting.Address
	for _, c := range cases {
		a := must.Get(setting.ParseAddress(c.address))(t)
		addresses = append(addresses, a)
	}
	s := take(t, addresses...)
	for i, c := range cases {
		if r, err := s.At(addresses[i]); err != nil || r.String() != c.want {
			t.Errorf("%s: %s (%v), want %s", c.address, r, err, c.want)
		}
	}
	must.Fail(s.At(setting.Of(setting.NICRing, "eth1", "rx")))(t, "a value that nobody was asked for is no error")
	must.Fail(Take(nil, []setting.Address{setting.Of(setting.Service, "irqbalance")}))(t,
		"a kind of which no other program is known is no error")
}

func TestFirstEntryIsDefault(t *testing.T) {
	if got, _ := defaultKernel("  set default=\"${next_entry}\"\nset default=\"0\"\n\tlinux " +
		"/boot/vmlinuz-6.12.107+deb13-amd64 ro\n"); got != "6.12.107+deb13-amd64" {
		t.Errorf("found %q", got)
	}
}

// TestThreadsWithoutWorkers: a worker of QEMU that comes or goes between two surveys is no difference.
func TestThreadsWithoutWorkers(t *testing.T) {
	list := func(threads string) string {
		command := exec.Command("bash", "-c", `cat() { echo 12; }
ps() { for t in `+threads+`; do echo " ${t%:*} ${t#*:}"; done; }
taskset() { for t in `+threads+`; do echo "pid ${t%:*}'s current affinity list: 0-3"; done; }
`+Threads("vm"))
		return string(must.Get(command.Output())(t))
	}
	with, without := list("12:qemu 13:CPU\\ 0/KVM 14:worker"), list("12:qemu 13:CPU\\ 0/KVM")
	must.Equal(t, with, without, "with a worker")
	cpus, found := thread(with, "vcpu/0")
	must.Hold(t, found && cpus == "0-3", "vCPU 0 is on %q in\n%s", cpus, with)
}

func TestDifferences(t *testing.T) {
	a := setting.Of(setting.Sysctl, "net.core.dev_weight")
	before, same := take(t, a), take(t, a)
	must.Empty(t, same.Differences(before), "differences of equal surveys")
	same.text["sysctl net.core.dev_weight"] = "net.core.dev_weight = 65\n"
	if found := same.Differences(before); len(found) != 1 ||
		!strings.Contains(found[0], "line 1 was\n\tnet.core.dev_weight = 64") {
		t.Errorf("found %q", found)
	}
	if found := take(t).Differences(before); len(found) != 1 {
		t.Errorf("a command that nobody asked: %q", found)
	}
}
