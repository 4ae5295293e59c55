//go:build lab

package lab_test

import (
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// TestRealtimeBooted: the host runs the kernel with PREEMPT_RT, kvm takes it, and a guest with that kernel runs
// cyclictest.
func TestRealtimeBooted(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.Realtime)
	_, release := l.Releases()
	for _, c := range []struct{ script, want string }{
		{"uname -r", release},
		{"cat /sys/kernel/realtime", "1"},
		{"grep -ow PREEMPT_RT /proc/version", "PREEMPT_RT"},
		{"ls -d /sys/module/vhost_net /sys/module/igb /sys/module/kvm_amd | wc -l", "3"},
		{"test -c /dev/kvm && echo ok", "ok"},
		{"dpkg-query -Wf '${Status}' linux-image-" + release, "install ok installed"},
	} {
		must.Equal(t, outputOf(t, l, c.script), c.want, "%s", c.script)
	}
	must.Do(t, l.Bridge(t.Context(), "br0", "10.50.0.1/24"))
	g := must.Get(l.StartGuest(t.Context(), lab.GuestSpec{
		Name: "rt1", Binary: labtest.Init(t), Agent: true, Realtime: true,
		NICs: []lab.NIC{{Model: lab.Vhost, Bridge: "br0", Addr: "10.50.0.2/24"}},
	}))(t)
	out, code := labtest.Inside(t, l, g.Spec.Name, "cat /sys/kernel/realtime /proc/version; cyclictest -m -q -p 80 "+
		"-i 1000 -l 500 -t 1")
	must.Hold(t, code == 0 && strings.HasPrefix(out, "1\n") && strings.Contains(out, release) &&
		strings.Contains(out, "Max:"), "exit %d: %s", code, out)
	t.Log(out)
}

// TestRealtimeInstalled: the usual kernel is booted until the boot menu says otherwise.
func TestRealtimeInstalled(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.RealtimeInstalled, labtest.NoBinary, labtest.Persist, labtest.Fresh)
	usual, realtime := l.Releases()
	if got := outputOf(t, l, "uname -r; ls /boot/vmlinuz-* | wc -l"); got != usual+"\n2" {
		t.Fatalf("found %q", got)
	}
	outputOf(t, l, "sed -i s/^GRUB_DEFAULT=.*/GRUB_DEFAULT=0/ /etc/default/grub; update-grub 2>&1")
	must.Do(t, l.Reboot(t.Context()))
	if got := outputOf(t, l, "uname -r"); got != realtime || l.Release() != realtime {
		t.Errorf("found %q, expected %q", got, realtime)
	}
}
