package lookup

import (
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/must"
)

// TestSearch types in what people have read somewhere, right or wrong.
func TestSearch(t *testing.T) {
	for text, want := range map[string]string{
		"sched_rt_period_us=-1": "rt.period", "sched_rt_period_us=-5": "rt.period",
		"SCHED_RT_PERIOD_US": "rt.period", "tx_queue_size=1024": "domain.tx_queue_size",
		"experimental_zcopytx": "vhost.zero_copy", "experimental_zcopytx=1": "vhost.zero_copy",
		"sdnf": "nic.flow_hash.udp4", "max_vfs=8": "sriov.numvfs",
		"mce=off": "boot.mce", "IRQBALANCE_BANNED_CPULIST": "nic.irqbalance",
		"ring.rx": "nic.ring.rx", "merge_across_node": "rt.ksm",
		"experimental_zcopyxt": "vhost.zero_copy", "swapoff memory": "rt.swap",
		"vm.swappiness=0": "advice.swappiness", "ple_window": "kvm.ple_gap",
		"rcutree.kthread_prio=3": "rt.rcuc", "Fair server disabled in CPU": "rt.fair_server",
		"rmmod of netfilter modules": "netfilter.bypass", "IFLA_VF_LINK_STATE_AUTO": "sriov.vf.link_state",
		"virsh migrate --offline": "sriov.migrate", "memAccess='shared'": "domain.vnuma",
		"netdev_max_backlog": "softirq.backlog", "net.core.netdev_budget": "softirq.budget",
		"kvm_intel.ple_gap=0": "kvm.ple_gap", "numad off": "memory.numad",
		"intel_pstate=disable": "boot.pstate", "amd_iommu=on": "boot.iommu",
		"pcie_asmp=off": "boot.aspm", "pcie_aspn=off": "boot.aspm",
		"IRQBALANCE_BANNED_CPULIST=": "nic.irqbalance",

		"sysctl -w net.core.dev_weight=6000":     "softirq.weight",
		"echo 0 > /proc/sys/kernel/nmi_watchdog": "rt.watchdog",
		"modprobe kvm_intel 'ple_gap=0'":         "kvm.ple_gap",
		"ip link set p1 vf 0 max_tx_rate 1000":   "sriov.vf.rate",
	} {
		hits := Search(text)
		if len(hits) == 0 || hits[0].ID != want && !(len(hits) > 1 && hits[1].ID == want) {
			t.Errorf("%q finds %+v, expected %s first", text, hits, want)
			continue
		}
		for _, h := range hits {
			must.Hold(t, h.Title != "" && h.Text != "" && h.Field != "", "%q: %+v", text, h)
		}
	}
	for _, text := range []string{"", "  ", "completely-other-word", strings.Repeat("x", 1<<20), "zzzz qqqq",
		"crashkernel=auto", "hw:boot_menu=true", "ethtool -T eth0", "ethtool -K eth0 rx-fcs on", "qm set 100 --ostype l26",
		"trait:HW_NIC_SRIOV=required", "how do I cook rice", "git rebase --interactive", "SELECT * FROM users",
		"python pip install requests", "Monday morning meeting", "lorem ipsum dolor sit amet", "今天天气怎么样"} {
		must.Empty(t, Search(text), "%.20q finds", text)
	}
}

func TestSuggest(t *testing.T) {
	for text, want := range map[string]string{"sched_rt_period_us": "rt.period", "sdnf": "nic.flow_hash.udp4",
		"experimental_zcopytx": "vhost.zero_copy", "intel_pstate=disable": "boot.pstate", "nic.rnig": "nic.ring.rx",
		"net.core.netdev_max_backlog": "softirq.backlog", "noibrs": "boot.mitigations",
		"somaxconn": "advice.somaxconn", "advice.somaxcon": "advice.somaxconn", "jumbo": "advice.mtu"} {
		if near := Suggest(text); len(near) == 0 || near[0] != want {
			t.Errorf("Suggest(%q) = %v; expected %s", text, near, want)
		}
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct{ text, part, want string }{
		{"One. Two has net.core.x in it. Three.", "net.core.x", "Two has net.core.x in it."},
		{"One. Two", "one", "One."}, {"Only", "nothing", "Only"},
	} {
		must.Equal(t, sentence(c.text, c.part), c.want, "sentence(%q, %q)", c.text, c.part)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("pcie_asmp")
	f.Add("a=b c")
	f.Fuzz(func(t *testing.T, text string) {
		for _, h := range Search(text) {
			if knob.Find(h.ID) == nil && EntryOf(h.ID) == nil {
				t.Errorf("%q finds %q, which there is not", text, h.ID)
			}
		}
	})
}
