//go:build lab

package lasting

import (
	"strings"
	"testing"

	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// numad is not in the lab; a service of its name that runs something else is stopped and started in the same way.
const numad = `mkdir -p /etc/mpps /run/systemd/system
printf '[Service]\nExecStart=/usr/bin/sleep infinity\n' >/run/systemd/system/numad.service
systemctl daemon-reload
systemctl start numad irqbalance
printf -- '- {id: memory.numad, want: stopped, reason: the test}\n- {id: nic.irqbalance, want: stopped, reason: the test}\n' >/etc/mpps/site.yaml
`

// TestHostRuns: with systemd the lab's host comes up whole, with the daemons that set what mpps sets.
func TestHostRuns(t *testing.T) {
	labtest.Long(t)
	s := scene{labtest.On(t, theHost(t))}
	if got := strings.TrimSpace(s.Must(
		"systemctl is-system-running --wait || systemctl --failed --no-legend")); got != "running" {
		t.Errorf("found %q, want running", got)
	}
	must.Equal(t, strings.TrimSpace(s.Must("for u in libvirtd tuned irqbalance; do systemctl is-active $u; done")),
		"active\nactive\nactive", "libvirtd, tuned, irqbalance")
}

// TestServicesAreStoppedAndStarted has the site file want two daemons stopped, for a target that itself needs nothing.
func TestServicesAreStoppedAndStarted(t *testing.T) {
	labtest.Long(t)
	s := scene{labtest.On(t, theHost(t))}
	s.Must(prepare + numad)
	defer s.Must("rm -f /etc/mpps/site.yaml /run/systemd/system/numad.service; systemctl stop numad irqbalance; " +
		"systemctl daemon-reload")
	before := s.Must("/opt/mpps status")
	// By other programs than mpps: what systemd says, and whether there is a process. systemd calls a service active
	// from the fork on; the process has its name a moment later.
	const ask = "for i in $(seq 600); do case $(systemctl is-active irqbalance)$(ps -C irqbalance -o comm=) in " +
		"activeirqbalance | inactive) break;; esac; sleep 0.1; done; " +
		"echo $(systemctl is-active numad irqbalance) $(ps -C irqbalance -o comm= || echo none); "
	got := s.Must(ask + "/opt/mpps plan --pps 50k --json -o /root/services.json >/dev/null; grep -c '\"address\": " +
		"\"service:' /root/services.json\n" +
		"/opt/mpps apply --yes --confirm 0 /root/services.json 2>&1 >/dev/null | grep -v -e ^warning: -e ^hint: -e '^ '\n" +
		ask + "/opt/mpps rollback >/dev/null\n" + ask + "/opt/mpps status")
	if want := "active active irqbalance\n2\ninactive inactive none\nactive active irqbalance\n" +
		before; strings.TrimSpace(got) != want {
		t.Errorf("services before, in the plan, applied, and rolled back:\n%s\nexpected\n%s", got, want)
	}
}
