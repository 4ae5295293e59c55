package tuned

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// chain is a host with three profiles that include each other and do what TuneD's own do: variables in a separate file,
// values computed from them, sections for other machines, options dropped and replaced.
var chain = map[string]string{
	"etc/tuned/active_profile": "quiet\n",
	"etc/tuned/bootcmdline": "# made by a daemon\nTUNED_BOOT_CMDLINE=\"isolcpus=2,3 " +
		"quiet_boot\"\nTUNED_BOOT_INITRD_ADD=\"\"\n",
	"etc/tuned/quiet.conf": "# which cores\nisolated_cores=2-3\n; other\nmanaged=Y # as the kernel can\n",
	"usr/lib/tuned/base/tuned.conf": `[main]
summary=the lowest
[cpu]
governor=performance
force_latency=1
[sysctl]
vm.swappiness=10
net.core.somaxconn=>2048
kernel.gone="1"
[sysctl.elsewhere]
type=sysctl
uname_regex=aarch64
vm.swappiness=99
[bootloader]
cmdline_base=one two=2
[lan]
type=net
devices=eth*,!eth1
ring=rx 512 tx 256
coalesce=rx-usecs 10
[off]
type=sysfs
enabled=false
/sys/kernel/mm/ksm/run=1
`,
	"usr/lib/tuned/profiles/middle/tuned.conf": `[main]
include=base ; -not-there
[variables]
include = /etc/tuned/none.conf
isolated_cores = ${isolated_cores}
not_isolated_mask = ${f:cpulist2hex_invert:${isolated_cores}}
flags=${f:regex_search_ternary:${managed}:\b[y,Y,1]\b:managed_irq,domain,:}
shelled=${f:exec:nproc}
[sysfs]
/sys/devices/virtual/workqueue/cpumask = ${not_isolated_mask}
/sys/kernel/mm/ksm/run = 2
/sys/module/*/parameters/x = ${shelled}
[bootloader]
cmdline_middle=+isolcpus=${flags}${isolated_cores} nosoftlockup
cmdline_less=-two=2
[scheduler]
isolated_cores=${isolated_cores}
group.softirq=0:f:2:*:^\[ksoftirqd
[vm]
transparent_hugepages=never
[modules]
kvm=+r halt_poll_ns=0
[service]
service.ksmtuned=stop,disable
`,
	"etc/tuned/profiles/quiet/tuned.conf": `[main]
include=middle
[variables]
include=/etc/tuned/quiet.conf
[sysctl]
drop=kernel.gone
vm.swappiness=5
[script]
script=${i:PROFILE_DIR}/script.sh
`,
}

func resolved(t *testing.T, files map[string]string) *facts.Tuned {
	t.Helper()
	m := Machine{
		Online: setting.CPUs(0, 1, 2, 3), Present: setting.CPUs(0, 1, 2, 3),
		Package: map[int]int{0: 0, 1: 0, 2: 1, 3: 1}, Uname: "Linux 6.12.0 #1 SMP x86_64", CPUInfo: "vendor_id : X",
	}
	return Read(func(name string) (string, bool) { text, there := files[name]; return text, there }, m, true)
}

func TestChain(t *testing.T) {
	p := resolved(t, chain)
	if want := []string{"/usr/lib/tuned/base/tuned.conf", "/usr/lib/tuned/profiles/middle/tuned.conf",
		"/etc/tuned/profiles/quiet/tuned.conf"}; !slices.Equal(p.Chain, want) {
		t.Errorf("chain %v, expected %v", p.Chain, want)
	}
	must.Hold(t, slices.Equal(p.Missing, nil) && slices.Equal(p.VariableFiles, []string{"/etc/tuned/quiet.conf"}),
		"missing %v, files of variables %v", p.Missing, p.VariableFiles)
	must.Hold(t, p.Variables["isolated_cores"] == "2-3" && p.Variables["not_isolated_mask"] == "3" &&
		p.Variables["shelled"] == "", "variables %v", p.Variables)
	if want := "one isolcpus=managed_irq,domain,2-3 nosoftlockup"; p.Arguments != want ||
		p.BootArguments != "isolcpus=2,3 quiet_boot" {
		t.Errorf("arguments %q and %q, expected %q", p.Arguments, p.BootArguments, want)
	}
	if !p.Reapplies || slices.ContainsFunc(p.Options,
		func(o facts.OwnedValue) bool { return strings.HasSuffix(o.Key, "ksm/run") && o.Value == "1" }) {
		t.Errorf("reapplies %v, options %+v", p.Reapplies, p.Options)
	}
	if again := resolved(t, chain); !reflect.DeepEqual(p, again) {
		t.Error("the same files gave another profile")
	}
}

func TestOf(t *testing.T) {
	p := resolved(t, chain)
	for at, want := range map[string]string{
		"sysctl:vm.swappiness": "5", "sysctl:net.core.somaxconn": "", "sysctl:kernel.gone": "-",
		"sysctl:kernel.numa_balancing": "-",
		"kernel-arg:isolcpus":          "managed_irq,domain,2-3", "kernel-arg:nosoftlockup": "present",
		"kernel-arg:two": "-", "kernel-arg:quiet_boot": "present",
		"nic-ring:eth0/rx": "512", "nic-ring:eth1/rx": "-", "nic-ring:ens3/rx": "-", "nic-coalesce:eth0/rx-usecs": "10",
		"nic-coalesce:eth0/tx-usecs":                   "",
		"sysfs-cpus:devices/virtual/workqueue/cpumask": "0-1", "ksm:run": "2", "sysfs:module/kvm/parameters/x": "",
		"sysfs:module/kvm/parameters/y":                "-",
		"sysfs:kernel/mm/transparent_hugepage/enabled": "never", "sysfs:kernel/mm/transparent_hugepage/defrag": "",
		"sysfs:devices/system/cpu/cpufreq/policy0/scaling_governor": "performance",
		"sysfs:devices/system/cpu/cpu2/cpuidle/state1/disable":      "-",
		"thread-sched:ksoftirqd/3":                                  "SCHED_FIFO 2", "thread-sched:rcuc/3": "-",
		"module-param:kvm/halt_poll_ns": "0", "module-param:kvm/other": "",
		"service:ksmtuned": "stopped", "service:irqbalance": "-", "irq-affinity:eth0/TxRx-0/45": "",
		"domain:vm1/vcpupin/0": "-",
	} {
		a := must.Get(setting.ParseAddress(at))(t)
		set, does := Lookup(p, a)
		got := set.Value
		if !does {
			got = "-"
		}
		must.Hold(t, got == want, "%s: found %q (%+v), expected %q", at, got, set, want)
	}
	if set, _ := Lookup(p, setting.Of(setting.KernelArg, "isolcpus")); set.Option != "bootloader.cmdline_middle" ||
		set.File != "/usr/lib/tuned/profiles/middle/tuned.conf" || !set.AtBoot {
		t.Errorf("isolcpus: %+v", set)
	}
	if _, does := Lookup(nil, setting.Of(setting.KSM, "run")); does {
		t.Error("no profile sets something")
	}
}

// TestOdd: missing profiles are reported; profiles that include themselves and undefined variables do no harm.
func TestOdd(t *testing.T) {
	p := resolved(t, map[string]string{
		"etc/tuned/active_profile":  "a b\n",
		"etc/tuned/tuned-main.conf": "reapply_sysctl = 0\nprofile_dirs=/opt/one,/opt/two\n",
		"opt/one/a/tuned.conf":      "[main]\ninclude=a\n[sysctl]\nx.y=1\n",
		"opt/two/a/tuned.conf": "[main]\ninclude=a\n[sysctl]\nx.y=${nowhere}\nx.z=${f:strip: 3 " +
			"}\n[broken\nline without\n",
		"opt/two/unfinished/tuned.conf": "",
	})
	must.Hold(t, slices.Equal(p.Missing, []string{"b"}) && !p.Reapplies && len(p.Chain) == 2,
		"missing %v, reapplies %v, chain %v", p.Missing, p.Reapplies, p.Chain)
	if set, does := Lookup(p, setting.Of(setting.Sysctl, "x.y")); !does || set.Value != "" {
		t.Errorf("what is not known is told as %+v", set)
	}
	if set, _ := Lookup(p, setting.Of(setting.Sysctl, "x.z")); set.Value != "3" {
		t.Errorf("%+v", set)
	}
	if p := Read(func(string) (string, bool) { return "", false }, Machine{}, false); p != nil {
		t.Errorf("%+v", p)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("[main]\ninclude=a,b\n[variables]\nx=${f:cpulist_invert:${f:cpulist_unpack:1-3}}\n[sysctl]\na=${x}\n")
	f.Add("[variables]\nx=\\${x}\ny=${f:${x}:}\n[bootloader]\ncmdline=-\\+a ${y\n")
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{"etc/tuned/active_profile": "a", "etc/tuned/a/tuned.conf": text,
			"usr/lib/tuned/b/tuned.conf": text}
		p := resolved(t, files)
		must.Hold(t, reflect.DeepEqual(p, resolved(t, files)), "two answers")
		for _, a := range []string{"sysctl:a", "kernel-arg:isolcpus", "ksm:run", "thread-sched:ksoftirqd/0"} {
			address := must.Get(setting.ParseAddress(a))(t)
			Lookup(p, address)
		}
	})
}
