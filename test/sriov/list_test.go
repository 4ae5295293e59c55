//go:build lab

package sriov

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/sriov"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// points are those of a check with an ID.
func points(c sriov.Check, id, object string) []sriov.Point {
	return slices.DeleteFunc(slices.Clone(c.Points), func(p sriov.Point) bool {
		return p.ID != id || p.Object != object
	})
}

// TestListAndCheck lists the functions of a real card as they are set and as guests have them, and finds what is odd.
func TestListAndCheck(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	before := labtest.Answer[sriov.Check](s, 0, "sriov", "check", s.pf)
	for _, id := range []string{"firmware.vt_d", "iommu", "vfio"} {
		if got := points(before, id, ""); len(got) != 1 || got[0].State != sriov.OK {
			t.Errorf("%s: %+v, expected ok on the lab's host", id, got)
		}
	}
	for _, id := range []string{"offered", "driver", "room", "link"} {
		if got := points(before, id, s.pf); len(got) != 1 || got[0].State != sriov.OK {
			t.Errorf("%s of %s: %+v, expected ok", id, s.pf, got)
		}
	}
	s.makes(4)
	s.Must("ip link set " + s.pf + " vf 1 mac 52:54:00:00:0e:01 vlan 100 qos 3 spoofchk off; ip link set " + s.pf +
		" vf 1 trust on max_tx_rate 200")
	pci := strings.Fields(s.Must("for i in 0 1 2 3; do basename $(readlink /sys/class/net/" + s.pf +
		"/device/virtfn$i); done"))
	define := func(name, address string) {
		parts := strings.FieldsFunc(address, func(r rune) bool { return r == ':' || r == '.' })
		s.Put(name+".xml", fmt.Sprintf(
			`<domain type='kvm'><name>%s</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type machine='q35'>hvm</type></os><devices>
<interface type='hostdev' managed='yes'><mac address='52:54:00:00:0f:01'/><source><address type='pci' domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/></source></interface>
</devices></domain>`, name, parts[0], parts[1], parts[2], parts[3]))
		s.Must("virsh -q define /share/" + name + ".xml")
	}
	define("ell1", pci[1])
	l := labtest.Answer[sriov.List](s, 0, "sriov", "list", s.pf)
	must.Need(t, len(l.VFs) == 4 && len(l.PFs) == 1 && l.PFs[0].Used == 1 && l.PFs[0].Free == 3, "list: %+v", l)
	f := l.VFs[1]
	group := s.Must("basename $(readlink /sys/bus/pci/devices/" + pci[1] + "/iommu_group)")
	if f.PCI != pci[1] || fmt.Sprint(f.Group) != group || f.Driver != "igbvf" || f.Guest != "ell1" ||
		f.Holding != sriov.Defined ||
		f.MAC != "52:54:00:00:0e:01" || *f.VLAN != 100 || *f.QoS != 3 || *f.MaxTxRate != 200 || *f.SpoofChk ||
		!*f.Trust || f.LinkState != "" && f.LinkState != "auto" {
		t.Errorf("function 1: %+v", f)
	}
	must.Hold(t, f.Traffic == nil, "igb counts no traffic of functions, found %+v", f.Traffic)
	if free := labtest.Answer[sriov.List](s, 0, "sriov", "list", "--free"); len(free.VFs) != 3 {
		t.Errorf("free ones: %+v", free.VFs)
	}
	s.MPPS(1, "sriov", "list", "no-such-nic")

	// Two definitions of one function; a gift of mpps that no definition names; one for a guest that is gone.
	define("ell2", pci[1])
	for i, r := range []facts.Reservation{
		{PF: s.pf, Index: 2, PCI: pci[2], Guest: "ell1", Form: facts.ByInterface, MAC: "52:54:00:00:0f:02"},
		{PF: s.pf, Index: 3, PCI: pci[3], Guest: "gone", Form: facts.ByInterface, MAC: "52:54:00:00:0f:03"},
	} {
		if r.Guest == "ell1" {
			r.UUID = s.Must("virsh domuuid ell1")
		}
		s.Put(fmt.Sprint("reservation", i), facts.ReservationText([]facts.Reservation{r}))
		s.Must(fmt.Sprintf("mkdir -p /var/lib/mpps/vfs; cp /share/reservation%d /var/lib/mpps/vfs/%s.json", i, r.PCI))
	}
	s.Must("ip link add elbr0 type bridge; ip link set $(ls /sys/bus/pci/devices/" + pci[0] + "/net) master elbr0")
	t.Cleanup(func() { s.Must("ip link del elbr0") })
	l = labtest.Answer[sriov.List](s, 0, "sriov", "list", s.pf)
	for i, want := range []struct {
		holding sriov.Holding
		guest   string
		named   int
	}{{sriov.Host, "", 0}, {sriov.Defined, "ell1", 2}, {sriov.Reserved, "ell1", 0}, {sriov.Reserved, "gone", 0}} {
		if f := l.VFs[i]; f.Holding != want.holding || f.Guest != want.guest || len(f.Guests) != want.named {
			t.Errorf("function %d: %s %q, named by %v; want %+v", i, f.Holding, f.Guest, f.Guests, want)
		}
	}
	after := labtest.Answer[sriov.Check](s, 4, "sriov", "check", "--fail-on", "high")
	var told []string
	for _, p := range append(points(after, "reservations", ""), points(after, "sriov.usage", s.pf)...) {
		if p.State == sriov.NotOK {
			told = append(told, p.Found+" "+p.Why+" "+p.Do)
		}
	}
	all := strings.Join(told, "\n")
	must.Contain(t, all, "does not name it", "gone, which does not exist", "ell1 and ell2", "mpps sriov release")
	// Without root it works and says what it did not see; of a snapshot it says the same.
	out := s.Must("cp /share/mpps /run/mpps-nobody; chmod 755 /run/mpps-nobody; setpriv --reuid 65534 --regid 65534 " +
		"--clear-groups /run/mpps-nobody sriov check " + s.pf)
	must.Hold(t, strings.Contains(out, "run without root") && strings.Contains(out, "could not be determined"),
		"without root:\n%s", out)
	s.Must("mpps snapshot -o /run/ell.json")
	if again := labtest.Answer[sriov.List](s, 0, "sriov", "list", s.pf, "--snapshot",
		"/run/ell.json"); fmt.Sprint(again.PFs) != fmt.Sprint(l.PFs) {
		t.Errorf("of a snapshot: %+v, want %+v", again.PFs, l.PFs)
	}
	s.MPPS(4, "sriov", "check", "--snapshot", "/run/ell.json", "--fail-on", "high")
}

// simulated makes cards of netdevsim with so many functions each, takes them away after the test, and names their
// interfaces.
func (s *scene) simulated(cards, functions int) []string {
	s.Helper()
	labtest.Netdevsim(s, s.Lab)
	s.Cleanup(func() {
		s.Must("for d in /sys/bus/netdevsim/devices/*; do echo ${d##*netdevsim} > /sys/bus/netdevsim/del_device; " +
			"done; rmmod netdevsim")
	})
	s.Must(fmt.Sprintf(`for i in $(seq %d); do
	echo "$i 1 4" > /sys/bus/netdevsim/new_device
	echo %d > /sys/kernel/debug/netdevsim/netdevsim$i/max_vfs
	echo %d > /sys/bus/netdevsim/devices/netdevsim$i/sriov_numvfs
done; udevadm settle`, cards, functions, functions))
	return strings.Fields(s.Must("ls -d /sys/bus/netdevsim/devices/*/net/* | xargs -n1 basename | sort -V"))
}

// TestManyFunctions lists 8 cards of 127 functions each by the kernel itself, in the time that a user has.
func TestManyFunctions(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	cards := s.simulated(8, 127)
	must.Need(t, len(cards) == 8, "interfaces of simulated cards: %v", cards)
	s.Must("ip link set " + cards[7] + " vf 126 mac 52:54:00:00:0e:7e vlan 7 qos 3 spoofchk on trust on state " +
		"enable; ip link set " + cards[7] + " vf 126 max_tx_rate 500 min_tx_rate 100")
	var best, start time.Duration
	for range 5 {
		began := time.Now()
		l := labtest.Answer[sriov.List](s, 0, "sriov", "list")
		listed := time.Now()
		s.MPPS(0, "--version")
		if took := listed.Sub(began); best == 0 || took < best {
			best, start = took, time.Since(listed)
		}
		must.Need(t, len(l.VFs) == 1016, "%d functions, want 1016", len(l.VFs))
		f := l.VFs[1015]
		if f.PF != cards[7] || f.MAC != "52:54:00:00:0e:7e" || *f.VLAN != 7 || *f.QoS != 3 || *f.MaxTxRate != 500 ||
			*f.MinTxRate != 100 || !*f.SpoofChk ||
			!*f.Trust || f.LinkState != "enable" || f.Holding != sriov.Free || f.Traffic != nil {
			t.Fatalf("the last function: %+v", f)
		}
	}
	t.Logf("1016 functions listed in %v at best of 5, the way into the emulated host and the JSON of them included; a "+
		"start of mpps after it %v", best, start)
	if best > 5*time.Second && best > 4*start { // emulated: tens of times slower than the CPU below
		t.Errorf("1016 functions took %v, a start %v", best, start)
	}
	must.Contain(t, s.MPPS(0, "sriov", "list").Stdout, "1016 VFs of")
}
