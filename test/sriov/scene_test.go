//go:build lab

package sriov

import (
	"fmt"
	"os"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// scene is the host while a test uses it. The tests of this package share it: each begins without functions and guests,
// and leaves none.
type scene struct {
	*labtest.Scene
	pf string // the NIC with functions that the tests are about, on PCI bus 1 or 2; its address is lab.MACigb1
}

// bare is what each test begins and ends with: no guests, no functions, and no traces of mpps.
const bare = `for g in $(virsh -q list --all --name 2>/dev/null); do virsh -q destroy $g; virsh -q undefine $g; done 2>/dev/null
for n in /sys/class/net/*/device/sriov_numvfs; do [ $(<$n) = 0 ] || echo 0 > $n; done
systemctl -q disable --now mpps-restore mpps-vfs 2>/dev/null; rm -f /etc/systemd/system/mpps-*.service /etc/modprobe.d/*mpps* /etc/systemd/network/*mpps*
systemctl daemon-reload
rm -rf /var/lib/mpps /run/mpps
true
`

func openScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Systemd, labtest.Persist))}
	s.Must("systemctl is-system-running --wait >/dev/null; modprobe -a igb vfio-pci " + "kvm_amd vhost_net")
	s.Must(bare)
	t.Cleanup(func() { s.Must(bare) })
	s.pf = s.Must("d=$(dirname $(grep -l " + lab.MACigb1 + " /sys/class/net/*/address)); echo ${d##*/}")
	s.Must("ip link set " + s.pf + " up")
	s.linked()
	return s
}

// linked waits until the NIC has a link, which it loses when functions are made. igb limits rates only with one.
func (s *scene) linked() {
	s.Helper()
	s.Must("for i in $(seq 600); do [ \"$(</sys/class/net/" + s.pf + "/carrier)\" = 1 ] && exit; sleep 0.1; done; exit 1")
}

// makes makes functions of the NIC by hand.
func (s *scene) makes(functions int) {
	s.Helper()
	s.Must(fmt.Sprintf("echo %d > /sys/class/net/%s/device/sriov_numvfs; udevadm settle", functions, s.pf))
	s.linked()
}

// guest starts a guest.
func (s *scene) guest(spec lab.GuestSpec) *lab.Guest {
	s.Helper()
	spec.Binary = labtest.Init(s)
	g := must.Get(s.Lab.StartGuest(s.Context(), spec))(s)
	return g
}

// inside runs a shell's text in a guest with an agent and returns what it printed on both streams, and its exit code.
func (s *scene) inside(guest, script string) (string, int) {
	s.Helper()
	return labtest.Inside(s, s.Lab, guest, script)
}
