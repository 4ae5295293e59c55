//go:build lab

package guests

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// The guest's boot entry, as kernel-install makes them. Its disk is memory, and its definition boots it: the test
// carries the files over a restart and boots what the entry says, as a boot loader does.
const (
	entry     = "/boot/loader/entries/lab-6.12.conf"
	entryText = "title lab\nversion 6.12\nlinux /lab/6.12/linux\noptions root=/dev/vda1 ro isolcpus=2"
)

// TestArgumentsOfAGuest plans and sets the kernel arguments of a realtime guest through its agent, restarts the guest,
// puts them back, and restarts it again.
func TestArgumentsOfAGuest(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.inside("mkdir -p /boot/loader/entries; printf '" + entryText + "' > " + entry + "; chmod 600 " + entry)
	began := s.inside("busybox stat -c '%a %s' " + entry + "; find /boot /etc /var | grep -v /run")

	p := s.plan("--latency", "20us", "--cpus", "1-3")
	p.Changes = insideOf(p, setting.GuestArg)
	planned := map[string]string{}
	for _, c := range p.Changes {
		planned[c.Address.Rest()] = c.To.Value
	}
	if d := cmp.Diff(map[string]string{"nohz_full": "2", "rcu_nocbs": "2", "idle": "poll"}, planned); d != "" {
		s.Fatalf("planned of the guest's arguments: %s", d)
	}
	p.Seal()
	var text bytes.Buffer
	must.Do(s, plan.Encode(&text, p))
	s.Put("arguments.json", text.String())
	s.LogTime("planned")

	s.MPPS(2, "apply", "--yes", "--detailed-exit-code", "--confirm", "0", "/share/arguments.json")
	s.LogTime("applied")
	options := s.inside("grep ^options " + entry)
	for _, want := range []string{"isolcpus=2", "nohz_full=2", "rcu_nocbs=2", "idle=poll"} {
		must.Hold(s, slices.Contains(strings.Fields(options), want), "the entry does not say %s: %s", want, options)
	}
	s.waits(3, "not rebooted yet")

	s.reboot(options)
	s.waits(0, "rebooted")
	s.MPPS(0, "verify")
	if line := s.inside("cat /proc/cmdline"); !strings.Contains(line, " nohz_full=2") {
		s.Errorf("the guest was booted with %s", line)
	}

	s.MPPS(0, "rollback")
	s.LogTime("rolled back")
	must.NoDiff(s, cmp.Diff(began, s.inside("busybox stat -c '%a %s' "+entry+"; find /boot /etc /var | grep -v /run")),
		"after the rollback the guest is not as before")
	must.Equal(s, s.inside("cat "+entry), entryText, "the entry")
	s.waits(3, "put back, and not rebooted")
	s.reboot("options isolcpus=2")
	s.waits(0, "put back and rebooted")
}

// waits requires that so many values wait for the guest's reboot.
func (s *scene) waits(want int, when string) {
	s.Helper()
	status := labtest.Answer[apply.Status](s, 0, "status")
	found := 0
	for _, r := range status.Rows {
		if r.State == apply.WaitsFor && r.Address.Kind == setting.GuestArg {
			found++
		}
	}
	must.Hold(s, found == want, "%s: %d values wait, expected %d: %+v", when, found, want, status.Rows)
	s.LogTime("status, " + when)
}

// reboot carries the guest's boot files over a restart with the arguments of an entry's options.
func (s *scene) reboot(options string) {
	s.Helper()
	files := s.inside("tar -cf - boot var/lib | busybox base64")
	must.Do(s, s.guest.Stop(s.Context()))
	args := slices.DeleteFunc(strings.Fields(options), func(word string) bool {
		return !strings.Contains(word, "=") || strings.HasPrefix(word, "root=")
	})
	s.startGuest(args...)
	s.inside("echo '" + files + "' | busybox base64 -d | tar -xf - -C /")
}
