//go:build lab

package lasting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/guestinit"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/machine"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestMain(m *testing.M) {
	if guestinit.IsInit() {
		guestinit.Run(func(ctx context.Context) error { <-ctx.Done(); return nil })
	}
	if to := os.Getenv("MPPS_REACH"); to != "" { // in the namespace that the lab host's NICs lead to
		if !answers(to) {
			os.Exit(1)
		}
		return
	}
	// in the lab: a plan of one value that the catalogue does not hold
	if one := os.Getenv("MPPS_PLAN_ONE"); one != "" {
		if err := planOne(one, os.Getenv("MPPS_PLAN_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(labtest.Main(m))
}

// answers says that something at an address answers a connection, be it with a refusal.
func answers(to string) bool {
	c, err := net.DialTimeout("tcp", to, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED)
}

// planOne writes a plan that gives one value, ADDRESS=VALUE, with risk connectivity.
func planOne(one, file string) error {
	where, value, _ := strings.Cut(one, "=")
	a, err := setting.ParseAddress(where)
	if err != nil {
		return err
	}
	m, err := machine.Open("/")
	if err != nil {
		return err
	}
	defer m.Close()
	ctx := context.Background()
	h := m.Inventory(ctx)
	machine.Read(ctx, m.Mechanisms(), h, []setting.Address{a})
	p, err := plan.Make(h, goal.Unlimited(), []*knob.Knob{{
		ID: "test.cut", Title: "the way in", Stage: datapath.NIC, Risk: goal.Connectivity, Tiers: goal.Tiers(),
		Where: func(*facts.Host) []setting.Address { return []setting.Address{a} },
		Want: func(*knob.View, setting.Address) knob.Advice {
			return knob.Wants(setting.Exact(value), "the test wants it")
		},
	}}, nil)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := plan.Encode(&text, p); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// prepare brings the host to where the catalogue has something to say: booted to the end, NICs up.
const prepare = `set -e
systemctl is-system-running --wait >/dev/null || true
mkdir -p /opt
[ -x /opt/mpps ] || cp /share/mpps /opt/mpps
for d in /sys/class/net/*/device; do ip link set $(basename $(dirname $d)) up; done
sleep 1
`

type scene struct{ *labtest.Scene }

func (s scene) seconds(script string) float64 {
	s.Helper()
	n := must.Get(strconv.ParseFloat(s.Must(script), 64))(s)
	return n
}

// stands waits until every applied value stands: at once as a rule, later on a busy machine.
func (s scene) stands(when string) {
	const limit = time.Minute
	s.Helper()
	began := time.Now()
	for {
		r := must.Get(s.Lab.Shell(s.Context(), "/opt/mpps verify"))(s)
		if r.Code == 0 {
			s.Logf("everything stands %.1f s after %s", time.Since(began).Seconds(), when)
			return
		}
		if time.Since(began) > limit {
			s.Fatalf("%s: not everything stands after %v:\n%s%s", when, limit, r.Stdout,
				s.Must("journalctl -u mpps-restore --no-pager | tail -30"))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// sysctlsStand compares what the apply left for systemd-sysctl with the running kernel.
func (s scene) sysctlsStand(when string) {
	s.Helper()
	got := s.Must(`grep -h '^[^#]*=' /etc/sysctl.d/*mpps.conf | while IFS='= ' read -r name value; do
now=$(sysctl -n $name | tr '\t' ' '); echo $name $value $now; [ "$now" = "$value" ] || echo "$name is not $value"; done`)
	must.Hold(s, got != "" && !strings.Contains(got, " is not "), "kernel parameters after %s:\n%s", when, got)
}

// igbQueue finds the first igb NIC and the mask of its first transmit queue, which its driver resets.
const igbQueue = `I=$(basename $(ls -d /sys/bus/pci/drivers/igb/*/net/* | head -1)); F=/sys/class/net/$I/queues/tx-0/xps_cpus; `

// theHost is one for all tests of this package: a host with systemd takes long to boot. Each leaves it as it was, but
// for an argument that the kernel of the first test's last boot has. The disk is for that test, which resets it.
func theHost(t *testing.T) *lab.Lab {
	t.Helper()
	return labtest.Host(t, labtest.Systemd, labtest.Disk)
}

func TestValuesOutlastWhatResetsThem(t *testing.T) {
	labtest.Long(t)
	l := theHost(t)
	s := scene{labtest.On(t, l)}
	// No guest runs here whose memory balancing could move: the site asks for the kernel parameter.
	s.Must(prepare + `mkdir -p /etc/mpps
echo '- {id: memory.numa_balancing, address: "sysctl:kernel.numa_balancing", want: 0, reason: the test}' >/etc/mpps/site.yaml
/opt/mpps snapshot -q -o /share/before.json; /opt/mpps apply --yes --pps 1.8M --confirm 0 >/share/apply.txt`)
	defer s.Must("rm /etc/mpps/site.yaml")
	s.stands("the apply")
	must.Equal(t, s.Must("systemctl is-active mpps-restore"), "active", "the service")
	s.sysctlsStand("the apply")

	// A hard stop: sysctl.d and the service bring everything back at the next boot.
	must.Do(t, l.Reset(t.Context()))
	s.Must(prepare)
	s.stands("a loss of power and the boot")
	must.Equal(t, s.Must("systemctl is-active mpps-restore irqbalance || true"), "active\ninactive",
		"after the boot: service and irqbalance")
	s.sysctlsStand("the boot")

	// The driver is reloaded: from the moment at which the device has its name.
	took := s.seconds(igbQueue + `
want=$(cat $F); modprobe -r igb; modprobe igb & while [ ! -e $F ]; do :; done; s=$EPOCHREALTIME
while read -r now <$F 2>/dev/null || true; [ "$now" != "$want" ]; do :; done; e=$EPOCHREALTIME; wait; awk "BEGIN{print $e-$s}"`)
	t.Logf("put back %.2f s after the driver recreated its device", took)
	// 1 to 2 s, on a busy machine several times that. Without the event it would count as changed by hand.
	if took > 30 {
		t.Errorf("put back in %.2f s, expected under 30 s", took)
	}
	s.Must(prepare)
	s.stands("a driver's reload")

	// Somebody changes a value by hand: it is reported and left alone, also at an ifup; asked for it, it is put back.
	// It is seen when everything is looked at: every 10 s, here less often, because looking costs more under emulation.
	hand := s.Must(igbQueue + `sleep 9; echo 8 >$F; for i in $(seq 90); do journalctl -u mpps-restore --no-pager | grep -q 'changed by hand.*tx-0/xps_cpus' && break; sleep 1; done
echo $i; cat $F; ip link set $I down; ip link set $I up; sleep 2; cat $F`)
	if values := strings.Fields(hand); len(values) != 3 || values[1] != "8" || values[2] != "8" {
		t.Errorf("changed to 8 by hand: seconds until it was reported, mask then and after an ifup: %q", values)
	} else {
		t.Logf("a change by hand was reported after %s s", values[0])
	}
	if r, err := l.Shell(t.Context(),
		"journalctl -u mpps-restore --no-pager | grep 'changed by hand'; /opt/mpps restore"); err != nil ||
		r.Code != 4 || !strings.Contains(r.Stdout, "left alone") {
		t.Errorf("exit %d, %v: expected 4 and the value named:\n%s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	s.Must("/opt/mpps restore --insist")
	s.stands("restore --insist")

	// A rollback removes it all. What stands then is what a boot gives: the NICs are set up as before.
	s.Must("/opt/mpps rollback >/share/rollback.txt")
	if left := s.Must("ls -A /etc/sysctl.d /etc/modprobe.d /var/lib/mpps; find /etc/systemd -name '*mpps*'"); strings.Contains(left, "mpps.conf") || strings.Contains(left, "desired") || strings.Contains(left, "restore") {
		t.Errorf("left behind: %s", left)
	}
	must.Equal(t, s.Must("systemctl show -P LoadState mpps-restore"), "not-found", "the service")
	if out := s.Must("/opt/mpps snapshot -q -o /share/after.json; /opt/mpps snapshot diff /share/before.json " +
		"/share/after.json | grep -v -i irq || true"); strings.Contains(out, "readings[") {
		t.Errorf("values differ from before the apply:\n%s", out)
	}
}

// TestPathIsCut takes the operator's NIC down by a change that nobody can confirm any more.
func TestPathIsCut(t *testing.T) {
	labtest.Long(t)
	l := theHost(t)
	s := scene{labtest.On(t, l)}
	program := must.Get(os.Executable())(t)
	must.Do(t, l.Put("lasting.test", program))
	// The other NICs are in the same network and would answer for this one's address.
	s.Must(prepare + `for d in /sys/bus/pci/drivers/igb/*/net/*; do ip link set $(basename $d) down; done
I=$(basename $(ls -d /sys/bus/virtio/drivers/virtio_net/*/net/*)); ip addr replace 10.99.0.2/24 dev $I; ip route replace default via 10.99.0.1
F=/sys/class/net/$I/flags; echo $I >/root/nic; MPPS_PLAN_FILE=/root/cut.json MPPS_PLAN_ONE=sysfs:class/net/$I/flags=$(printf '0x%x' $(($(cat $F) & ~1))) /share/lasting.test`)
	reached := func() bool {
		cmd := exec.CommandContext(t.Context(), "nsenter", "--net="+l.Netns(), program)
		cmd.Env = append(os.Environ(), "MPPS_REACH=10.99.0.2:9")
		return cmd.Run() == nil
	}
	for began := time.Now(); !reached(); {
		if time.Since(began) > time.Minute {
			t.Fatalf("the host cannot be reached before anything is cut: %s",
				s.Must("ip -br addr; ip route; ip neigh; cat /proc/net/dev"))
		}
	}
	before := s.Must("/opt/mpps status") // a test that comes first may have left an argument to the running kernel
	// The shell that applies dies with its connection.
	out := s.Must(`setsid bash -c '/opt/mpps apply --foreign --yes /root/cut.json --confirm 30s >/root/out 2>&1; kill -9 $$' || true; cat /root/out; systemctl list-timers --all --no-legend 'mpps-confirm-*'`)
	must.Hold(t, strings.Contains(out, "your way in: ") && strings.Contains(out, "mpps-confirm-"),
		"expected the way in to be named, and a timer:\n%s", out)
	cut := time.Now()
	if reached() {
		t.Fatalf("the host is reached, nothing was cut: %s", s.Must("ip -br addr; /opt/mpps history"))
	}
	for !reached() {
		if time.Since(cut) > 3*time.Minute {
			t.Fatalf("not undone: %s", s.Must("/opt/mpps history; systemctl status 'mpps-confirm-*' --no-pager"))
		}
	}
	t.Logf("reached again %.1f s after the path was cut", time.Since(cut).Seconds())
	for range 600 { // the rollback, and the service that makes it, end a moment after the value is back
		if s.Must("/opt/mpps status") == before &&
			s.Must("systemctl list-units --all --no-legend 'mpps-confirm-*'") == "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := s.Must("/opt/mpps status; /opt/mpps history; systemctl list-units --all --no-legend 'mpps-confirm-*'"); !strings.Contains(got, "not confirmed within 30s") || !strings.HasPrefix(got, before+"\n") || strings.Contains(got, "mpps-confirm") {
		t.Errorf("afterwards: %s", got)
	}
	// Confirmed: it stays, and the timer is gone.
	got := s.Must(`MPPS_PLAN_FILE=/root/keep.json MPPS_PLAN_ONE=sysfs:class/net/$(cat /root/nic)/tx_queue_len=777 /share/lasting.test
/opt/mpps apply --foreign --yes /root/keep.json --confirm 60s >/dev/null; systemctl list-timers --all --no-legend 'mpps-confirm-*' | wc -l; /opt/mpps confirm >/dev/null; systemctl list-timers --all --no-legend 'mpps-confirm-*' | wc -l; cat /sys/class/net/$(cat /root/nic)/tx_queue_len; /opt/mpps rollback >/dev/null; cat /sys/class/net/$(cat /root/nic)/tx_queue_len`)
	must.Equal(t, got, "1\n0\n777\n1000", "timers before and after mpps confirm, value, value after rollback")
}

// TestGuestStart binds a guest's vCPU as often as it is started, though no event of libvirt's is asked for.
func TestGuestStart(t *testing.T) {
	labtest.Long(t)
	l := theHost(t)
	s := scene{labtest.On(t, l)}
	s.Must(prepare + `mkdir -p /var/lib/mpps
cat >/var/lib/mpps/desired.json <<'END'
{"schema": "mpps.desired/1", "about": "a test", "values": [
 {"id": "test.vcpu", "address": "thread-affinity:vm1/vcpu/0", "want": {"op": "exactly", "value": "2"}, "to": {"state": "known", "value": "2"}}]}
END
systemd-run -q --unit=restore-test /opt/mpps restore --watch`)
	defer s.Must("systemctl stop restore-test; rm /var/lib/mpps/desired.json")
	program := must.Get(os.Executable())(t)
	done := make(chan float64, 1)
	go func() {
		// From the moment at which the thread is there.
		out, err := l.Must(t.Context(),
			`for i in $(seq 2000); do T=$(grep -lx 'CPU 0/KVM' /proc/[0-9]*/task/*/comm 2>/dev/null | head -1); [ -z "$T" ] || break; sleep 0.05; done
s=$EPOCHREALTIME; D=$(dirname $T); while ! grep -q '^Cpus_allowed_list:.2$' $D/status; do sleep 0.02; done; e=$EPOCHREALTIME; awk "BEGIN{print $e-$s}"`)
		n, parsed := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil || parsed != nil {
			n = -1
		}
		done <- n
	}()
	must.Do(t, l.Bridge(t.Context(), "br9", "10.50.0.1/24"))
	guest := lab.GuestSpec{Name: "vm1", Binary: program, VCPUs: 1,
		NICs: []lab.NIC{{Model: lab.Virtio, Bridge: "br9", Addr: "10.50.0.2/24"}}}
	must.Get(l.StartGuest(t.Context(), guest))(t)
	select {
	case took := <-done: // −1: no such thread
		t.Logf("bound %.2f s after the vCPU's thread began", took)
		if took < 0 || took > 10 { // the pause between two looks without an event
			t.Errorf("bound in %.2f s, expected under 10 s", took)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("not bound: %s", s.Must("journalctl -u restore-test --no-pager | tail -20; ls /run/libvirt/qemu"))
	}
}
