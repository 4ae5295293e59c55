//go:build lab

package lasting

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// told waits until the watch has told something that a pattern of grep finds.
func (s scene) told(what, pattern string) {
	s.Helper()
	out := s.Must(fmt.Sprintf(`for i in $(seq 240); do grep -m1 -e '%s' /run/events && break; sleep 0.5; done`, pattern))
	if out == "" {
		s.Fatalf("%s: no event %s within two minutes:\n%s", what, pattern,
			s.Must("tail -40 /run/events; cat /run/said; grep -v '^#' /run/mpps.prom; systemctl status watched "+
				"--no-pager | tail -20"))
	}
	s.Logf("%s: %s", what, out)
}

// TestWatchTells: what is brought onto a CPU that should be quiet, and what an update does to the next boot, is told as
// it comes and as it goes, as events and as metrics; the watch ends when it is asked to and leaves nothing behind.
func TestWatchTells(t *testing.T) {
	labtest.Long(t)
	s := scene{labtest.On(t, theHost(t))}
	s.Must(prepare + `for i in /proc/irq/[0-9]*; do echo 0-2 >$i/smp_affinity_list; done 2>/dev/null || true; rm -f /run/events
systemd-run -q --unit=watched -p StandardOutput=append:/run/events -p StandardError=append:/run/said /opt/mpps verify --watch --every 2s --cost 20 --cpus 3 --json --metrics /run/mpps.prom`)
	defer s.Must("systemctl stop watched busy 2>/dev/null; rm -f /etc/default/grub.d/96-test.cfg /run/events " +
		"/run/said; update-grub >/dev/null 2>&1; true")
	s.Must("for i in $(seq 240); do [ -s /run/mpps.prom ] && break; sleep 0.5; done; grep -q '^mpps_realtime_cpus 1$' " +
		"/run/mpps.prom")

	s.Must(`systemd-run -q --unit=busy taskset -c 3 dd if=/dev/zero of=/dev/null`)
	s.told("a thread was pinned in", `"begins","code":"threads.user_ran","object":"thread dd `)
	// The file is written after the events of the same look.
	if got := s.Must(`for i in $(seq 240); do grep -q '^mpps_realtime_findings{code="threads.user_ran",severity="high"} [1-9]' /run/mpps.prom && break; sleep 0.5; done
grep -c '^mpps_realtime_findings{code="threads.user_ran",severity="high"} [1-9]' /run/mpps.prom; grep '^mpps_realtime_ok' /run/mpps.prom`); got != "1\nmpps_realtime_ok 0" {
		t.Errorf("metrics: %q", got)
	}
	s.Must("systemctl stop busy")
	s.told("it went", `"ends","code":"threads.user_ran","object":"thread dd `)

	irq := s.Must(`grep -E 'eth|enp|ens|virtio.*-input|virtio.*-config' /proc/interrupts | tr -d ' ' | cut -d: -f1 | while read n; do echo 3 2>/dev/null >/proc/irq/$n/smp_affinity_list && echo $n && break; done`)
	s.told("interrupt "+irq+" was moved in", `"begins","code":"irq.aimed","object":"irq `+irq+` `)
	s.Must("echo 0 >/proc/irq/" + irq + "/smp_affinity_list")
	s.told("it was moved out", `"ends","code":"irq.aimed","object":"irq `+irq+` `)

	s.Must(`echo 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=2"' >/etc/default/grub.d/96-test.cfg; update-grub >/dev/null 2>&1`)
	s.told("the next boot's arguments were changed", `"changed","code":"boot.arguments".*"to":"isolcpus=2"`)
	s.told("the next boot isolates others", `"begins","code":"lists.next_boot","object":"isolcpus"`)
	s.Must(`rm /etc/default/grub.d/96-test.cfg; update-grub >/dev/null 2>&1`)
	s.told("they were changed back", `"ends","code":"lists.next_boot","object":"isolcpus"`)

	cost := s.seconds("awk '$1==\"mpps_watch_cpu_seconds_total\"{c=$2} $1==\"mpps_watch_looks_total\"{n=$2} " +
		"END{print c/n}' /run/mpps.prom")
	t.Logf("%.3f s of CPU time a look, emulated", cost)
	if got := s.Must("systemctl stop watched; systemctl show -P Result watched; ls /run/mpps.prom 2>&1 | tail -1; " +
		"/opt/mpps status; cat /run/said"); !strings.HasPrefix(got, "success\nls: cannot access") ||
		strings.Contains(got, "error") {
		t.Errorf("at the end: %s", got)
	}
}

// TestWatchService: the service is planned where it is asked for, runs, and goes with a rollback.
func TestWatchService(t *testing.T) {
	labtest.Long(t)
	s := scene{labtest.On(t, theHost(t))}
	s.Must(prepare + "/opt/mpps apply --yes --pps 50k --watch --confirm 0 >/dev/null 2>&1")
	if got := s.Must("for i in $(seq 480); do [ -s /run/mpps-watch/mpps.prom ] && break; sleep 0.5; done; systemctl " +
		"is-active mpps-watch; systemctl is-enabled mpps-watch; grep ^mpps_watch_source_success " +
		"/run/mpps-watch/mpps.prom"); !strings.HasPrefix(got,
		"active\nenabled\nmpps_watch_source_success{source=\"values\"} 1\n") {
		t.Errorf("found %s\n%s", got, s.Must("journalctl -u mpps-watch --no-pager | tail -20"))
	}
	// Nothing is set aside here, so that this is no realtime host; the values that the transaction has applied were
	// waited for.
	if got := s.Must("grep -c -e '^mpps_realtime_ok 0$' -e '^mpps_realtime_cpus 0$' -e '^mpps_applied_values [1-9]' " +
		"/run/mpps-watch/mpps.prom"); got != "3" {
		t.Errorf("metrics: %s", s.Must("cat /run/mpps-watch/mpps.prom"))
	}
	must.Equal(t, s.Must("/opt/mpps rollback >/dev/null; systemctl show -P LoadState mpps-watch; ls /run/mpps-watch "+
		"/etc/systemd/system/mpps-watch.service 2>&1 | grep -c 'No such'"), "not-found\n2", "after the rollback")
}
