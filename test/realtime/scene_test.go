//go:build lab

package realtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/test/survey"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

const guestName = "rt1"

// scene is the host with its guest.
type scene struct {
	*labtest.Scene
	guest *lab.Guest
}

// openScene boots the host with its usual kernel, the other in its boot menu, and starts a guest with the other.
func openScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.RealtimeInstalled, labtest.Persist, labtest.Fresh))}
	furnish := func(ctx context.Context) error {
		_, err := s.Lab.Must(ctx, "mkdir -p /etc/mpps")
		if err == nil {
			err = s.Lab.Bridge(ctx, "br0", "10.50.0.1/24")
		}
		return err
	}
	must.Do(t, furnish(t.Context()))
	s.guest = must.Get(s.Lab.StartGuestFresh(t.Context(), lab.GuestSpec{
		Name: guestName, Binary: labtest.Init(t), Agent: true, Realtime: true, VCPUs: 2,
		NICs: []lab.NIC{{Model: lab.Vhost, Bridge: "br0", Addr: "10.50.0.2/24"}},
	}, furnish))(t)
	s.LogTime("the guest runs with its realtime kernel")
	return s
}

// mpps runs the program on the host, requires an exit code and returns what it printed on both streams.
func (s *scene) mpps(code int, argv ...string) string {
	s.Helper()
	r := s.MPPS(code, argv...)
	s.LogTime("mpps " + strings.Join(argv, " "))
	return r.Stdout + r.Stderr
}

// put writes a file of the host.
func (s *scene) put(name, text string) {
	s.Helper()
	local := filepath.Join(s.Lab.ShareDir(), filepath.Base(name))
	must.Do(s, os.WriteFile(local, []byte(text), 0o600))
	s.Must("cp /share/" + filepath.Base(name) + " " + name)
}

// reboot has the host reboot by itself, as its own boot menu says, and does what systemd and the service of mpps would:
// values of files, those that the service puts back, libvirt.
func (s *scene) reboot() {
	s.Helper()
	must.Do(s, s.Lab.Reboot(s.Context()))
	s.LogTime("rebooted into " + s.Lab.Release())
	s.Must("sysctl -q --system >/dev/null")
	must.Do(s, s.Lab.Bridge(s.Context(), "br0", "10.50.0.1/24"))
	must.Do(s, s.Lab.EnsureLibvirt(s.Context()))
	s.LogTime("libvirt answers")
	s.mpps(0, "restore", "-q")
}

// first is what must be the same again at the end, as the host itself has it.
func (s *scene) first() string {
	s.Helper()
	return s.Must(`cd /; for f in $(find boot/grub etc/default etc/sysctl.d etc/modprobe.d var/lib/mpps/boot -type f 2>/dev/null | sort); do echo "$(stat -c %a:%U "$f") $(md5sum "$f")"; done
cat /proc/cmdline; uname -r; cat /sys/devices/system/cpu/isolated; virsh dumpxml --inactive ` + guestName + `
for c in 0 1 2 3; do chrt -p $(pgrep -x ksoftirqd/$c) | sed 's/pid [0-9]*//'; done; cat /proc/irq/default_smp_affinity; sysctl -n kernel.watchdog_cpumask vm.stat_interval kernel.sched_rt_runtime_us`)
}

// cyclictest runs it in the guest for some seconds. Its figures are an emulator's: they are logged, and say only that
// it ran.
func (s *scene) cyclictest(when string) {
	s.Helper()
	out, code := labtest.Inside(s, s.Lab, guestName, "cat /sys/kernel/realtime; cyclictest -m -q -p 80 -i 2000 -l "+
		"1000 -t 1 -a 1")
	must.Hold(s, code == 0 && strings.HasPrefix(out, "1\n") && strings.Contains(out, "Max:"),
		"cyclictest %s: exit %d: %s", when, code, out)
	s.LogTime("cyclictest " + when + ", emulated: " + out[strings.LastIndexByte(out, '\n')+1:])
}

// seen requires that other programs find what a plan wanted, and tells of which families there were values.
func (s *scene) seen(changes []plan.Change) map[setting.Kind]int {
	s.Helper()
	families := map[setting.Kind]int{}
	var addresses []setting.Address
	for _, c := range changes {
		if _, err := survey.Take(func(string) (string, error) { return "", nil },
			[]setting.Address{c.Address}); err != nil && strings.Contains(err.Error(), "no other program") {
			s.other(c, families)
			continue
		}
		addresses = append(addresses, c.Address)
	}
	found, err := survey.Take(func(script string) (string, error) { return s.Lab.Must(s.Context(), script) }, addresses)
	must.Do(s, err)
	for _, c := range changes {
		r, err := found.At(c.Address)
		if err != nil {
			continue // of other
		}
		families[c.Address.Kind]++
		must.Hold(s, c.Want.Met(r),
			"%s %s: wanted %s, another program finds %s (%s)", c.ID, c.Address, c.Want, r, r.Why)
	}
	return families
}

// other looks at what survey does not know: files and directories, units, and the inside of the guest.
func (s *scene) other(c plan.Change, families map[setting.Kind]int) {
	s.Helper()
	families[c.Address.Kind]++
	switch c.Address.Kind {
	case setting.Directory:
		s.Must("test -d /" + c.Address.Path)
	case setting.Inside:
		inner := must.Get(c.Address.Inner())(s)
		file := map[setting.Kind]string{setting.Sysctl: "/proc/sys/" + strings.ReplaceAll(inner.Path, ".", "/"),
			setting.Sysfs: "/sys/" + inner.Path}[inner.Kind]
		if file == "" {
			s.Logf("inside the guest, seen by mpps alone: %s %s", c.ID, inner)
			return
		}
		out, code := labtest.Inside(s, s.Lab, guestName, "cat "+file)
		if value := setting.Value(strings.Join(strings.Fields(out), " ")); code != 0 || !c.Want.Met(value) {
			s.Errorf("%s inside the guest: wanted %s, %s has %q", c.ID, c.Want, file, out)
		}
	default:
		s.Errorf("%s: no other program looks at a value of kind %s", c.ID, c.Address.Kind)
	}
}

// status reads how the host stands.
func (s *scene) status() apply.Status {
	s.Helper()
	st := labtest.Answer[apply.Status](s, 0, "status")
	s.Logf("status: %s: %s; %v", st.State, st.Why, st.Counts)
	return st
}
