//go:build lab

package guests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/lab/labtest"
	"mpps/internal/machine/libvirt"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func insideOf(p *plan.Plan, kind setting.Kind) []plan.Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c plan.Change) bool { return c.Address.Kind != kind })
}

// disorder leaves the guest as no goal wants it: a vCPU without a queue, all interrupts of queues on vCPU 0, a swap
// area, pages merged.
const disorder = `set -e
echo 1 > /sys/class/net/eth0/queues/tx-0/xps_cpus
echo 2 > /sys/class/net/eth0/queues/tx-1/xps_cpus
for i in $(grep -E 'virtio[0-9]+-(in|out)put' /proc/interrupts | cut -d: -f1); do echo 0 > /proc/irq/$i/smp_affinity_list; done
[ -e /sys/block/zram0/disksize ] && echo 16M > /sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
echo 1 > /sys/kernel/mm/ksm/run
`

// listing is everything that the test changes inside the guest, as the guest's own programs show it.
const listing = `cd /sys/class/net/eth0/queues; grep . tx-*/xps_cpus; for i in $(grep -E 'virtio[0-9]+-(in|out)put' /proc/interrupts | cut -d: -f1); do echo irq $i $(cat /proc/irq/$i/smp_affinity_list); done
grep . /proc/sys/kernel/timer_migration /proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/watchdog_cpumask /sys/kernel/mm/ksm/run; cut -f1,4- /proc/swaps; ethtool -l eth0 | tail -1`

// TestInsideAGuest looks into a guest through its agent, sets what is wrong there, puts it back, and meets the guest in
// every state in which it cannot be asked.
func TestInsideAGuest(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.inside(disorder)
	before := s.inside(listing)
	s.LogTime("the guest is in disorder")

	s.looked()
	all := s.planned()
	s.applied(all, before)
	s.channels(all)
	s.pausedThenHung()
	s.noChannel()
	s.vanishes()
	s.off()
}

// looked requires that inspect shows the inside, and compares it with what the guest's programs say.
func (s *scene) looked() {
	s.Helper()
	h := labtest.Answer[facts.Host](s, 0, "inspect")
	if len(h.Guests) != 1 || h.Guests[0].Inside == nil || h.Guests[0].Inside.Host == nil {
		s.Fatalf("the inside is not shown: %+v", h.Guests)
	}
	in := h.Guests[0].Inside.Host
	found := map[string]string{
		"release": in.Kernel.Release, "command line": in.Kernel.CommandLine, "clock": in.Kernel.Clocksource,
		"online": in.Topology.Online.String(), "isolated": in.Topology.Isolated.String(),
		"swap":       fmt.Sprint(len(in.Housekeeping.Swap)),
		"spectre_v2": in.Kernel.Vulnerabilities["spectre_v2"],
	}
	direct := strings.Split(s.inside(
		`uname() { cat /proc/sys/kernel/osrelease; }; uname; cat /proc/cmdline /sys/devices/system/clocksource/clocksource0/current_clocksource /sys/devices/system/cpu/online /sys/devices/system/cpu/isolated; grep -c zram /proc/swaps; cat /sys/devices/system/cpu/vulnerabilities/spectre_v2; cat /sys/class/net/eth0/address; ls -d /sys/class/net/eth0/queues/tx-* | grep -c .`), "\n")
	want := map[string]string{"release": direct[0], "command line": direct[1], "clock": direct[2], "online": direct[3],
		"isolated": direct[4], "swap": direct[5], "spectre_v2": direct[6]}
	must.NoDiff(s, cmp.Diff(want, found), "difference")
	at := slices.IndexFunc(in.NICs, func(n facts.NIC) bool { return n.Name == "eth0" })
	must.Need(s, at >= 0, "NICs of the guest: %+v", in.NICs)
	if n := in.NICs[at]; n.MAC != direct[7] || fmt.Sprint(n.TxQueues) != direct[8] || n.Driver != "virtio_net" ||
		n.Channels == nil || n.Channels.MaxCombined != 2 || len(n.IRQs) < 4 {
		s.Errorf("the guest's NIC: %+v", n)
	}
	s.LogTime("inspected")
}

// planned makes the plans of two goals and returns one with what both set inside.
func (s *scene) planned() *plan.Plan {
	s.Helper()
	fast := s.plan("--pps", "1M")
	quick := s.plan("--latency", "20us")
	var ids []string
	for _, c := range slices.Concat(insideOf(fast, setting.Inside), insideOf(quick, setting.Inside)) {
		if !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
		must.Equal(s, c.Lasts, setting.UntilGuestBoot, "%s lasts", c.Address)
	}
	slices.Sort(ids)
	must.NoDiff(s, cmp.Diff([]string{"guest.irqbalance", "guest.ksm", "guest.swap", "guest.throttling",
		"guest.timer_migration", "guest.watchdog", "guest.xps"}, ids), "planned inside the guest")
	s.write("inside.json", fast, insideOf(quick, setting.Inside)...)
	s.LogTime(fmt.Sprintf("planned %d changes inside", len(fast.Changes)))
	return fast
}

// applied applies the plan, looks at the guest by its own programs, and rolls back.
func (s *scene) applied(p *plan.Plan, before string) {
	s.Helper()
	// --foreign: the file has the changes of two goals
	s.MPPS(2, "apply", "--yes", "--foreign", "--detailed-exit-code", "--confirm", "0", "/share/inside.json")
	s.LogTime("applied")
	after := s.inside(listing)
	for _, want := range []string{
		"tx-0/xps_cpus:3", "tx-1/xps_cpus:4", "timer_migration:0", "sched_rt_runtime_us:-1", "watchdog_cpumask:0-1",
		"ksm/run:2",
	} {
		must.Hold(s, strings.Contains(after, want), "the guest does not say %s:\n%s", want, after)
	}
	must.Hold(s, !strings.Contains(after, "zram"), "the swap area is still on:\n%s", after)
	var cpus []string
	for line := range strings.Lines(after) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "irq" && !slices.Contains(cpus, f[2]) {
			cpus = append(cpus, f[2])
		}
	}
	must.Hold(s, len(cpus) == 2, "interrupts of two queues are on vCPUs %v", cpus)
	s.MPPS(0, "verify")
	s.LogTime("verified")
	s.MPPS(0, "rollback")
	must.NoDiff(s, cmp.Diff(before, s.inside(listing)), "after the rollback the guest is not as before")
	s.LogTime("rolled back")
}

// channels takes a queue away, and has it set and put back.
func (s *scene) channels(p *plan.Plan) {
	s.Helper()
	s.inside("ethtool -L eth0 combined 1")
	p.Changes = []plan.Change{{
		ID: "guest.channels", Address: setting.InGuest(guestName, setting.Of(setting.NICChannels, "eth0", "combined")),
		From: setting.Value("1"), To: setting.Value("2"),
		Want: setting.Exact("2"), Risk: goal.Blip, Lasts: setting.UntilGuestBoot, Because: "by hand",
		Severity: knob.High, Title: "by hand", Stage: datapath.Guest,
	}}
	s.write("channels.json", p)
	s.MPPS(0, "apply", "--yes", "--foreign", "--confirm", "0", "/share/channels.json")
	if got := s.inside("ethtool -l eth0 | tail -1"); !strings.HasSuffix(got, "2") {
		s.Errorf("the guest uses %q", got)
	}
	s.MPPS(0, "rollback")
	if got := s.inside("ethtool -l eth0 | tail -1; ethtool -L eth0 combined 2"); !strings.HasSuffix(got, "1") {
		s.Errorf("after the rollback the guest uses %q", got)
	}
	s.LogTime("channels set and put back")
}

// refused requires that audit says why the guest's inside is unknown, and that a plan for it changes nothing. It
// returns how long the two commands took.
func (s *scene) refused(why string) (audited, applied time.Duration) {
	s.Helper()
	began := time.Now()
	r := labtest.Answer[audit.Report](s, 0, "audit", "--pps", "1M", "--guest", guestName)
	audited = time.Since(began)
	at := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.ID == "guest.channels" })
	if at < 0 || r.Findings[at].State != audit.Unknown || !strings.Contains(r.Findings[at].Why, why) {
		s.Errorf("expected guest.channels unknown because %q, found %+v", why, r.Findings[max(at, 0)])
	}
	began = time.Now()
	text := s.MPPS(1, "apply", "--yes", "--foreign", "--confirm", "0", "/share/inside.json").Stderr
	applied = time.Since(began)
	if !strings.Contains(text, "stale") && !strings.Contains(text, why) {
		s.Errorf("apply says:\n%s", text)
	}
	if text := s.MPPS(0, "status").Stdout; !strings.HasPrefix(text, "clean") {
		s.Errorf("the host is not clean:\n%s", text)
	}
	s.Logf("%5.1f s for an audit of a guest that %s, %.1f s for an apply there", audited.Seconds(), why,
		applied.Seconds())
	return audited, applied
}

// pausedThenHung has a guest paused, which nobody asks, and then one whose agent hangs: mpps waits for the first reply
// and for no other, so both commands take that much longer. The agent comes back when the host pulls the guest's plug.
func (s *scene) pausedThenHung() {
	s.Helper()
	s.Must("virsh -q suspend " + guestName)
	quickAudit, quickApply := s.refused("paused")
	s.Must("virsh -q resume " + guestName)
	s.LogTime("paused and resumed")

	answers := s.hangs()
	audited, applied := s.refused("does not answer")
	const wait = libvirt.AgentTimeout * time.Second
	// Both would wait nine times and more for all replies. A busy machine may be slower by now than for the paused
	// guest.
	if limit := 4 * (quickAudit + wait); audited > limit {
		s.Errorf("the audit took %v, expected at most %v", audited, limit)
	}
	if limit := 4 * (quickApply + wait); applied > limit {
		s.Errorf("the apply took %v, expected at most %v", applied, limit)
	}
	answers()
	s.LogTime("hung and came back")
}

// noChannel starts the same guest without a channel; it need not come up for that.
func (s *scene) noChannel() {
	s.Helper()
	s.Must(`virsh dumpxml --inactive ` + guestName +
		` | sed -e '/<channel/,/<\/channel>/d' -e 's/<name>.*/<name>vm2<\/name>/' -e '/<uuid>/d' -e '/<mac /d' -e '/<target dev/d' > /share/vm2.xml; virsh -q define /share/vm2.xml; virsh -q start vm2`)
	r := labtest.Answer[audit.Report](s, 0, "audit", "--pps", "1M", "--guest", "vm2")
	at := slices.IndexFunc(r.Findings, func(f audit.Finding) bool {
		return f.ID == "guest.channels" && f.Address.Object() == "vm2"
	})
	if at < 0 || r.Findings[at].State != audit.Unknown || !strings.Contains(r.Findings[at].Why, "no channel") {
		s.Errorf("of a guest without a channel: %+v", r.Findings[max(at, 0)])
	}
	s.Must("virsh -q destroy vm2; virsh -q undefine vm2")
	s.LogTime("a guest without a channel")
}

// vanishes kills the guest while its values are written.
func (s *scene) vanishes() {
	s.Helper()
	// The loop starts no process: on a busy machine apply would be over before its second round.
	s.Must(`cd /var/lib/mpps/journal; last=$(ls *.jsonl | tail -1); guest=$(cat /run/libvirt/qemu/` + guestName +
		`.pid); rm -f /run/apply.code
	( mpps apply --yes --foreign --confirm 0 /share/inside.json > /run/apply.log 2>&1; echo $? > /run/apply.code ) &
	while [ ! -s /run/apply.code ]; do
		for f in *.jsonl; do
			[[ $f > $last ]] || continue
			read -r -d '' text <$f
			[[ $text != *'"event":"intent"'* ]] || break 2
		done
	done
	kill -KILL $guest
	for i in $(seq 600); do [ ! -s /run/apply.code ] || break; sleep 0.1; done`)
	log := s.Must("cat /run/apply.code /run/apply.log")
	must.Hold(s, strings.HasPrefix(log, "1\n") && strings.Contains(log, "does not run"),
		"the guest vanished, and apply said:\n%s", log)
	if text := s.MPPS(0, "status").Stdout; !strings.HasPrefix(text, "clean") {
		s.Errorf("the host is not clean:\n%s", text)
	}
	s.LogTime("vanished")
}

func (s *scene) off() {
	s.Helper()
	r := labtest.Answer[audit.Report](s, 0, "audit", "--pps", "1M", "--guest", guestName)
	for _, f := range r.Findings {
		if f.ID == "guest.xps" && f.Address.Object() == guestName &&
			(f.State != audit.Unknown || !strings.Contains(f.Why, "start it")) {
			s.Errorf("of a guest that is off: %+v", f)
		}
	}
	s.LogTime("off")
}
