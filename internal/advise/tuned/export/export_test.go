package export

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// finding is a finding that is off, or OK if nothing is wanted or it has the wanted value.
func finding(at, found string, want ...string) audit.Finding {
	a, err := setting.ParseAddress(at)
	if err != nil {
		panic(err)
	}
	f := audit.Finding{ID: "test." + string(a.Kind), Address: a, State: audit.OK, Reading: setting.Value(found),
		Why: "the test wants it", Risk: goal.None}
	if found == "" {
		f.Reading = setting.Missing("not there")
	}
	if len(want) > 0 {
		w := setting.Any(want[0], want[1:]...)
		f.Want = &w
		if !w.Met(f.Reading) {
			f.State = audit.Off
		}
	}
	return f
}

func request(g goal.Goal, all ...audit.Finding) Request {
	cpus := setting.CPUs(0, 1, 2, 3)
	return Request{
		Name: "quiet", Flags: "--latency 20us --cpus 2-3", Version: "1",
		Host:   &facts.Host{Name: "h", Topology: facts.Topology{Online: cpus}},
		Report: audit.Report{Goal: g, Findings: all}, Machine: tuned.Machine{Online: cpus, Present: cpus},
	}
}

var realtimeGoal = goal.Goal{Latency: 20 * time.Microsecond, CPUs: setting.CPUs(2, 3)}

func realtimeFindings() []audit.Finding {
	risky := finding("kernel-arg:mitigations", "", "off")
	risky.Risk = goal.Security
	check := finding("fact:vm1/siblings", "x", "y")
	gone := finding("kernel-arg:nosoftlockup", "present", "x")
	gone.Want = &setting.Want{Op: setting.Gone}
	return []audit.Finding{
		finding("kernel-arg:isolcpus", "", "managed_irq,domain,2-3"), finding("kernel-arg:nohz_full", "2-3"),
		finding("kernel-arg:tsc", "", "nowatchdog"),
		finding("kernel-arg:idle", "", "poll"), finding("kernel-arg:hugepagesz+hugepages", "",
			"hugepagesz=1G hugepages=4"), gone, risky, check,
		finding("sysctl:vm.stat_interval", "1", "10", "20"), finding("sysctl:kernel.timer_migration", "0"),
		finding("sysctl:vm.swappiness", "60", "1"), finding("sysctl:net/ipv4/conf/eth0.1/rp_filter", "1", "0"),
		finding("sysfs-cpus:devices/virtual/workqueue/cpumask", "0-3", "0-1"),
		finding("sysfs-cpus:class/net/eth0/queues/rx-0/rps_cpus", "", "0-1"), finding("ksm:run", "1", "0", "2"),
		finding("ksm:merge_across_nodes", "1", "0"),
		finding("sysfs:kernel/mm/transparent_hugepage/enabled", "always", "madvise", "never"),
		finding("sysfs:kernel/tracing/tracing_on", "1", "0"),
		finding("thread-sched:ksoftirqd/2", "SCHED_OTHER", "SCHED_FIFO 2"),
		finding("thread-sched:rcuc/2", "SCHED_OTHER", "SCHED_FIFO 3"),
		finding("thread-sched:rcuc/3", "SCHED_OTHER", "SCHED_FIFO 3"), finding("thread-sched:ktimers/3", "SCHED_OTHER",
			"SCHED_FIFO 5"),
		finding("thread-sched:ktimers/2", "SCHED_OTHER", "SCHED_FIFO 5"), finding("irq-cpus:9/acpi", "0-3", "0-1"),
		finding("irq-affinity:eth0/TxRx-0/45", "0-3", "0"),
		finding("module-param:kvm_intel/ple_gap", "128", "0"), finding("service:ksmtuned", "running", "stopped"),
		finding("service:numad", "stopped", "stopped"),
		finding("nic-coalesce:eth0/rx-usecs", "50", "0"), finding("nic-coalesce:eth0/adaptive-rx", "on", "off"),
		finding("nic-channels:eth0/combined", "4", "2"),
		finding("domain:rt1/vcpupin/0", "", "2"), finding("swap:dev/sda2", "on", "off"),
	}
}

func make1(t *testing.T, r Request) *Profile {
	t.Helper()
	p := must.Get(Make(r))(t)
	again, err := Make(r)
	must.Hold(t, err == nil && reflect.DeepEqual(p, again), "the same request made two profiles: %v", err)
	return p
}

// read resolves the profile as TuneD would, on top of what its own profiles have in common.
func read(r Request, p *Profile) *facts.Tuned {
	return tuned.Resolve(func(name string) (string, bool) {
		for _, f := range p.Files {
			if name == tuned.Folders[0]+"/"+p.Name+"/"+f.Name {
				return f.Text, true
			}
		}
		return builtinProfile(name)
	}, r.Machine, p.Name)
}

func addresses(all []Held) (texts []string) {
	for _, h := range all {
		texts = append(texts, h.Address.String()+"="+h.Value)
	}
	return texts
}

// TestRealtime: the profile repeats nothing of the included one, replaces its other values once, and lists what TuneD
// cannot set. TuneD then sets every value that is listed as held.
func TestRealtime(t *testing.T) {
	r := request(realtimeGoal, realtimeFindings()...)
	p := make1(t, r)
	must.Hold(t, p.Base == realtimeBase && p.Assumed && len(p.Files) == 2 &&
		strings.Contains(p.Files[1].Text, "isolated_cores=2-3\nisolate_managed_irq=Y\nnetdev_queue_count=2\n"),
		"base %s, files %+v", p.Base, p.Files)
	byBase := []string{
		"kernel-arg:isolcpus=managed_irq,domain,2-3", "kernel-arg:nohz_full=2-3", "sysctl:vm.stat_interval=10",
		"sysctl:kernel.timer_migration=0", "sysfs-cpus:devices/virtual/workqueue/cpumask=0-1", "ksm:run=2",
		"sysfs:kernel/mm/transparent_hugepage/enabled=never", "thread-sched:ksoftirqd/2=SCHED_FIFO 2",
		"thread-sched:rcuc/2=SCHED_FIFO 4", "thread-sched:rcuc/3=SCHED_FIFO 4", "irq-cpus:9/acpi=0-1",
	}
	if got := addresses(p.ByBase); !slices.Equal(got, byBase) {
		t.Errorf("held by the included profile:\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(byBase, "\n"))
	}
	var left []string
	for _, l := range p.NotHeld {
		left = append(left, l.Address.String())
		must.Hold(t, l.Why != "" && strings.HasPrefix(l.Command, "mpps apply --latency 20us"), "%+v", l)
	}
	if want := []string{"kernel-arg:mitigations", "irq-affinity:eth0/TxRx-0/45", "domain:rt1/vcpupin/0",
		"swap:dev/sda2"}; !slices.Equal(left, want) {
		t.Errorf("not held: %v, expected %v", left, want)
	}
	must.Hold(t, slices.Equal(p.Twice, []string{"nohz_full"}), "twice: %v", p.Twice)
	got := read(r, p)
	must.Empty(t, got.Missing, "missing")
	for _, h := range slices.Concat(p.Held, p.ByBase) {
		set, does := tuned.Lookup(got, h.Address)
		switch {
		case h.Address.Kind == setting.IRQCPUs:
		case h.Value == "absent" && does, h.Value != "absent" && set.Value != h.Value:
			t.Errorf("%s: TuneD gives %q (%+v), expected %q", h.Address, set.Value, set, h.Value)
		}
	}
	must.Hold(t, strings.Count(got.Arguments, "tsc=") == 1 &&
		strings.HasSuffix(got.Arguments, "tsc=nowatchdog idle=poll "+"hugepagesz=1G hugepages=4"),
		"arguments %q", got.Arguments)
	text := p.Files[0].Text
	must.Contain(t, text, "[sysctl]\n", "net.ipv4.conf.eth0/1.rp_filter=0\n",
		"/sys/class/net/eth0/queues/rx-0/rps_cpus=${f:cpulist2hex:0-1}\n", "group.ktimers=0:f:5:*:^\\[ktimers\n",
		"^qemu-system;^vhost-\n", "[net_eth0]\ntype=net\ndevices=eth0\npriority=-1\n",
		"coalesce=rx-usecs 0 adaptive-rx off\n", "service.ksmtuned=stop,disable\n",
		"include=realtime-virtual-host\n", "/sys/module/kvm_intel/parameters/ple_gap=0\n",
		"#   test.swap  swap:dev/sda2 = off\n#     no plugin of TuneD switches swap off\n#     mpps apply --latency "+
			"20us --cpus 2-3\n")
	must.Lack(t, text[strings.Index(text, "[main]"):],
		"stat_interval=", "isolcpus=", "numad", "mitigations=", "ksm/run")
}

// TestOtherBases: a goal without a latency extends other profiles and needs no variables; a realtime goal without CPUs
// is refused.
func TestOtherBases(t *testing.T) {
	for want, g := range map[string]goal.Goal{hostBase: goal.Unlimited(), bulkBase: {Bulk: 25e9}} {
		p := make1(t, request(g, finding("sysctl:net.core.dev_weight", "64", "128"),
			finding("sysfs:devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave", "performance")))
		must.Hold(t, p.Base == want && len(p.Files) == 1 && len(p.Held) == 1 && len(p.ByBase) == 1 &&
			!strings.Contains(p.Files[0].Text, "[variables]"), "%s: %+v", want, p)
	}
	must.Is(t, must.Err(Make(request(realtimeGoal))), ErrNoCPUs, "without CPUs")
	for _, name := range []string{"", "a b", "../x", "-a", "realtime-virtual-host", strings.Repeat("a", 65)} {
		r := request(goal.Unlimited())
		r.Name = name
		must.Fail(Make(r))(t, "profile %q was made", name)
	}
}

// TestReadFromTuneD: the host's own profiles are used if they can be read, and what they lack is added.
func TestReadFromTuneD(t *testing.T) {
	r := request(realtimeGoal, finding("kernel-arg:isolcpus", "", "managed_irq,domain,2-3"),
		finding("sysctl:vm.stat_interval", "1", "10"))
	r.Files = func(name string) (string, bool) {
		text, is := map[string]string{"usr/lib/tuned/profiles/realtime-virtual-host/tuned.conf": "[variables]\ninclude=/etc/tuned/x.conf\n[bootloader]\ncmdline=isolcpus=managed_irq,domain,${isolated_cores}\n"}[name]
		return text, is
	}
	p := make1(t, r)
	must.Hold(t, !p.Assumed && len(p.ByBase) == 1 && len(p.Held) == 1 &&
		strings.Contains(p.Files[0].Text, "vm.stat_interval=10\n"), "%+v", p)
}

// TestNothingExpands: what a host calls its devices, or holds as a value, is neither a function of TuneD, which may be
// a command, nor another line of its profile.
func TestNothingExpands(t *testing.T) {
	all := realtimeFindings()
	for _, hostile := range []string{"${f:exec:reboot}", "1\n[script]\nscript=/tmp/x", "1\r[script]"} {
		all = append(all, finding("sysctl:vm.dirty_ratio", hostile),
			audit.Finding{ID: "test.name", Address: setting.Of(setting.NICCoalesce, "e"+hostile, "rx-usecs"),
				State: audit.Off, Reading: setting.Value("50"), Want: &setting.Want{Op: "exactly", Value: "0"},
				Why: hostile, Risk: goal.None})
	}
	r := request(realtimeGoal, all...)
	r.Host.Name, r.Flags = "h\n[script]", "--guest x\n[script]"
	p := must.Get(Make(r))(t)
	for _, f := range p.Files {
		for line := range strings.Lines(f.Text) {
			if !strings.HasPrefix(line, "#") && (strings.Contains(line, "f:exec") || strings.HasPrefix(line, "[script]")) {
				t.Errorf("%s: %s", f.Name, line)
			}
		}
		must.Hold(t, !strings.Contains(f.Text, "\r"), "%s: a line ends in the middle", f.Name)
	}
	must.Hold(t, len(p.NotHeld) >= 3, "%d findings are named as not held", len(p.NotHeld))
}
