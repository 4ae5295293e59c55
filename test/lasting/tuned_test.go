//go:build lab

package lasting

import (
	"strings"
	"testing"
)

// TestTunedProfile: TuneD takes the profile that is made for a goal, sets what it says, and finds it so; what is said of it is what
// TuneD has made of it.
func TestTunedProfile(t *testing.T) {
	s := scene{t, theHost(t)}
	before := s.must(prepare + "cat /etc/tuned/active_profile")
	s.must("cp /etc/default/grub /run/grub.before; /opt/mpps export tuned --latency 20us --cpus 2-3 --name quiet -o /etc/tuned/profiles >/run/exported 2>&1; tuned-adm profile quiet")
	defer s.must("tuned-adm profile " + before + "; rm -rf /etc/tuned/profiles/quiet; cp /run/grub.before /etc/default/grub; update-grub >/dev/null 2>&1; for i in /proc/irq/[0-9]*; do echo 0-3 >$i/smp_affinity_list; done 2>/dev/null; true")
	t.Logf("%s", s.must("cat /etc/tuned/profiles/quiet/tuned.conf"))
	if got := s.must("grep -c tuned-not-seen /run/exported || true; tuned-adm active"); !strings.HasPrefix(got, "0\n") || !strings.HasSuffix(got, "Current active profile: quiet") {
		t.Errorf("found %s", got)
	}
	// By other programs than mpps and TuneD.
	for ask, want := range map[string]string{
		"sysctl -n vm.stat_interval kernel.timer_migration kernel.sched_rt_runtime_us": "10\n0\n-1",
		"cat /sys/devices/virtual/workqueue/cpumask":                                   "3",
		"cat /sys/kernel/mm/transparent_hugepage/enabled":                              "always madvise [never]",
		"cat /proc/irq/default_smp_affinity":                                           "3",
		"grep -o 'isolcpus=[^ \"]*' /etc/tuned/bootcmdline":                            "isolcpus=managed_irq,domain,2-3",
		"grep -o 'nohz_full=[^ \"]*' /etc/tuned/bootcmdline":                           "nohz_full=2-3",
	} {
		if got := s.must(ask); strings.TrimLeft(got, "0,") != want && got != want {
			t.Errorf("%s: found %q, expected %q", ask, got, want)
		}
	}
	// The kernel that runs was booted without the profile's arguments, and the lab has no power states: TuneD's own word on everything else.
	s.must(": >/var/log/tuned/tuned.log; tuned-adm verify --ignore-missing >/run/verified 2>&1 || true")
	if got := s.must("grep ERROR /var/log/tuned/tuned.log | grep -i -v -e cmdline -e kvmclock_periodic_sync -e nx_huge_pages -e script || true"); got != "" {
		t.Errorf("TuneD does not find it as it wrote it:\n%s", got)
	}
	// Nothing that the profile gives is planned again, and nothing is planned against it.
	if got := s.must("/opt/mpps inspect | grep ^TuneD:"); !strings.HasPrefix(got, "TuneD: profile quiet · isolated cores 2-3") {
		t.Errorf("inspect: %s", got)
	}
	if got := s.must("/opt/mpps plan --latency 20us --cpus 2-3 --json >/run/plan.json 2>/dev/null; grep -e '\"address\": \"sysctl:vm.stat_interval' -e '\"address\": \"sysfs:kernel/mm/transparent_hugepage' -e tuned-resets -e tuned-disagrees /run/plan.json || true"); got != "" {
		t.Errorf("planned although TuneD gives it:\n%s\n%s", got, s.must("grep -A3 '\"code\": \"tuned' /run/plan.json"))
	}
	// Another goal is another opinion, and that is said.
	if got := s.must("/opt/mpps plan --latency 20us --cpus 3 --json 2>/dev/null | grep -c '\"code\": \"tuned-resets\"' || true"); got == "0" {
		t.Error("a plan for other CPUs does not say that TuneD isolates others")
	}
}
