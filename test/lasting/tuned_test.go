//go:build lab

package lasting

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// answered is what is looked at of answers of plan and export.
type answered struct {
	Result struct {
		Changes []plan.Change
		Held    []export.Held
		ByBase  []export.Held `json:"by_base"`
	}
	Warnings []struct{ Code, Text string }
}

// answer reads an answer in /share.
func (s scene) answer(name string) (a answered) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.Lab.ShareDir(), name))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	must.Do(s, err)
	return a
}

var ofIRQ = regexp.MustCompile(`'SMP affinity of IRQ ([0-9]+)'`)

// moved is the planned change that moves the interrupt of which TuneD complains.
func moved(line string, planned map[setting.Address]string) (setting.Address, bool) {
	if m := ofIRQ.FindStringSubmatch(line); m != nil {
		for at := range planned {
			if at.Kind == setting.IRQAffinity && strings.HasSuffix(at.Path, "/"+m[1]) || at.Kind == setting.IRQCPUs &&
				at.Object() == m[1] {
				return at, true
			}
		}
	}
	return setting.Address{}, false
}

// TestTunedProfile: TuneD takes the profile that is made for a goal, sets what it says, and finds it so; what is said
// of it is what TuneD has made of it.
func TestTunedProfile(t *testing.T) {
	labtest.Long(t)
	s := scene{labtest.On(t, theHost(t))}
	before := s.Must(prepare + "cat /etc/tuned/active_profile")
	s.Must("cp /etc/default/grub /run/grub.before; /opt/mpps export tuned --latency 20us --cpus 2-3 --name quiet -o " +
		"/etc/tuned/profiles >/run/exported 2>&1; tuned-adm profile quiet")
	defer s.Must("tuned-adm profile " + before + "; rm -rf /etc/tuned/profiles/quiet; cp /run/grub.before " +
		"/etc/default/grub; update-grub >/dev/null 2>&1; for i in /proc/irq/[0-9]*; do echo 0-3 " +
		">$i/smp_affinity_list; done 2>/dev/null; true")
	t.Logf("%s", s.Must("cat /etc/tuned/profiles/quiet/tuned.conf"))
	if got := s.Must("grep -c tuned-not-seen /run/exported || true; tuned-adm active"); !strings.HasPrefix(got,
		"0\n") || !strings.HasSuffix(got, "Current active profile: quiet") {
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
		if got := s.Must(ask); strings.TrimLeft(got, "0,") != want && got != want {
			t.Errorf("%s: found %q, expected %q", ask, got, want)
		}
	}
	// The kernel that runs was booted without the profile's arguments, and the lab has no power states: TuneD's own
	// word on everything else. It also complains of parameters of modules that are as expected, of interrupts that the
	// kernel lets nobody move, and, this version, of what ethtool prints of coalescing: docs/tuned.md.
	s.Must(": >/var/log/tuned/tuned.log; tuned-adm verify --ignore-missing >/run/verified 2>&1 || true")
	complaints := s.Must(`for n in /proc/irq/[0-9]*; do
	[ ! -e $n/smp_affinity_list ] || ( cat $n/smp_affinity_list >$n/smp_affinity_list ) 2>/dev/null || echo "IRQ $(basename $n)'"
done >/run/unmovable
grep ERROR /var/log/tuned/tuned.log | grep -i -v -e cmdline -e kvmclock_periodic_sync -e nx_huge_pages -e script -e 'unknown coalesce parameter' -e "= '\([^']*\)', expected '\1'" | grep -v -F -f /run/unmovable || true`)
	// Nothing that the profile gives is planned again, and nothing is planned against it.
	if got := s.Must("/opt/mpps inspect | grep ^TuneD:"); !strings.HasPrefix(got, "TuneD: profile quiet · isolated "+
		"cores 2-3") {
		t.Errorf("inspect: %s", got)
	}
	s.Must("/opt/mpps plan --latency 20us --cpus 2-3 --json >/share/plan.json 2>/dev/null; /opt/mpps export tuned " +
		"--latency 20us --cpus 2-3 --name quiet --json >/share/profile.json 2>/dev/null")
	defer s.Must("rm -f /share/plan.json /share/profile.json")
	planned := map[setting.Address]string{}
	for _, c := range s.answer("plan.json").Result.Changes {
		planned[c.Address] = c.From.String() + " → " + c.To.String()
	}
	for _, h := range append(s.answer("profile.json").Result.Held, s.answer("profile.json").Result.ByBase...) {
		switch change, is := planned[h.Address]; {
		case !is:
		// given at the next boot, or when the module is loaded
		case h.Address.Kind.AtBoot(), h.Address.Kind == setting.ModuleParam:
		case h.Address.Kind == setting.NICCoalesce: // see above
		default:
			t.Errorf("%s is planned (%s) although TuneD gives %s (%s)", h.Address, change, h.Value, h.Option)
		}
	}
	// A driver that sets its NIC up again behind TuneD places the interrupts itself (seen now and then): the plan moves
	// them.
	for line := range strings.Lines(complaints) {
		at, is := moved(line, planned)
		if !is {
			t.Errorf("TuneD does not find it as it wrote it: %s\nnot to be moved: %s", line,
				s.Must("cat /run/unmovable"))
			continue
		}
		t.Logf("planned, because TuneD left it there: %s %s (%s)", at, planned[at], strings.TrimSpace(line))
	}
	must.Hold(t, len(planned) != 0, "nothing is planned: guests and interrupts should be")
	for _, w := range s.answer("plan.json").Warnings {
		must.Hold(t, !strings.HasPrefix(w.Code, "tuned-"), "planned against TuneD: %s: %s", w.Code, w.Text)
	}
	// Another goal is another opinion, and that is said.
	if got := s.Must("/opt/mpps plan --latency 20us --cpus 3 --json 2>/dev/null | grep -c '\"code\": " +
		"\"tuned-resets\"' || true"); got == "0" {
		t.Error("a plan for other CPUs does not say that TuneD isolates others")
	}
}
