//go:build lab

package sriov

import (
	"regexp"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// apply makes changes by their own plan and returns the transaction.
func (s *scene) apply(code int, changes ...plan.Change) (tx, said string) {
	s.Helper()
	h := labtest.Answer[facts.Host](s, 0, "inspect")
	for i := range changes {
		c := &changes[i]
		c.ID, c.Title, c.Stage, c.Risk, c.Because = "sriov.test", "Test", datapath.SRIOV, goal.None, "a test wants it"
		c.Severity, c.Lasts = knob.Info, setting.Kinds[c.Address.Kind].Lasts
		c.To = c.Want.Target()
	}
	var text strings.Builder
	must.Do(s, plan.Encode(&text, plan.OfChanges(&h, goal.Goal{}, changes)))
	s.Put("plan.json", text.String())
	if code != 0 {
		r := s.MPPS(code, "apply", "--yes", "--foreign", "/share/plan.json")
		return "", r.Stdout + r.Stderr
	}
	return labtest.Answer[struct {
		TX string `json:"tx"`
	}](s, code, "apply", "--yes", "--foreign", "/share/plan.json").TX, ""
}

// to is a change of a value.
func to(a setting.Address, from, want string) plan.Change {
	c := plan.Change{Address: a, From: setting.Value(from), Want: setting.Exact(want)}
	if from == "" {
		c.From = setting.Missing("")
	}
	if want == "" {
		c.Want = setting.NotThere()
	}
	return c
}

// TestDevices gives functions to a guest and takes them back, in its definition, while it runs and out of a network of
// libvirt, and puts each back.
func TestDevices(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	s.Must("echo 3 > /sys/class/net/" + s.pf + "/device/sriov_numvfs; udevadm settle; ip link add dbr0 type bridge " +
		"2>/dev/null; ip addr replace 10.60.0.1/24 dev dbr0; ip link set dbr0 up")
	t.Cleanup(func() {
		s.Must("for n in $(virsh -q net-list --all --name); do virsh -q net-destroy $n; virsh -q net-undefine $n; " +
			"done 2>/dev/null; ip link del dbr0; true")
	})
	const guest, vfMAC = "plugged", "52:54:00:0e:00:01"
	s.guest(lab.GuestSpec{Name: guest,
		NICs:    []lab.NIC{{Model: lab.Virtio, Bridge: "dbr0", MAC: "52:54:00:0e:00:02", Addr: "10.60.0.2/24"}},
		Modules: []string{"igbvf"}})
	vf := func(i string) string {
		return s.Must("basename $(readlink /sys/class/net/" + s.pf + "/device/virtfn" + i + ")")
	}
	driver := func(pci string) string {
		return s.Must("basename $(readlink /sys/bus/pci/devices/" + pci + "/driver) 2>/dev/null || true")
	}
	definition := func() string { return s.Must("virsh dumpxml --inactive " + guest) }
	user := func(pci string) string {
		for _, f := range labtest.Answer[facts.Host](s, 0, "inspect").VFs {
			if f.PCI == pci {
				return f.Guest
			}
		}
		t.Fatalf("%s is not listed", pci)
		return ""
	}

	t.Run("definition", func(t *testing.T) {
		s := s.in(t)
		before := definition()
		nic := domain.HostdevInterface{PCI: vf("0"), Managed: true, VLAN: 5}
		at := setting.Of(setting.Domain, guest, "interface/"+vfMAC)
		tx, _ := s.apply(0, to(at, "", nic.Value()))
		with := definition()
		must.Hold(t, strings.Contains(with, vfMAC) &&
			strings.Count(with, "<address type='pci'") > strings.Count(before, "<address type='pci'"),
			"the definition is now\n%s", with)
		if status := strings.Join(strings.Fields(s.MPPS(0, "status").Stdout), " "); !strings.Contains(status,
			"takes effect when it is shut down and started") {
			t.Errorf("status: %s", status)
		}
		s.MPPS(0, "verify")
		out, _ := s.apply(0, to(at, nic.Value(), ""))
		must.Hold(t, definition() != with, "nothing was taken out")
		s.MPPS(0, "rollback", out)
		must.Equal(t, definition(), with, "brought back")
		s.MPPS(0, "rollback", tx)
		must.Equal(t, definition(), before, "after the rollback")
	})

	t.Run("pair", func(t *testing.T) {
		s := s.in(t)
		// libvirt adds a port where it has no free one, and keeps it.
		ports := regexp.MustCompile(`(?s)    <controller type='pci' index='\d+' model='pcie-root-port'>.*?</controller>\n`)
		definition := func() string { return ports.ReplaceAllString(definition(), "") }
		before := definition()
		half := func(name string) setting.Address {
			return setting.Of(setting.Domain, guest, "interface/"+vfMAC+"@"+name)
		}
		tx, _ := s.apply(0,
			to(half("persistent"), "", "bridge=dbr0 model=virtio teaming=persistent alias=ua-standby"),
			to(half("transient"), "", "hostdev pci="+vf("2")+" managed=yes teaming=transient:ua-standby"))
		if with := definition(); strings.Count(with, vfMAC) != 2 || !strings.Contains(with, "persistent='ua-standby'") {
			t.Errorf("the definition is now\n%s", with)
		}
		s.MPPS(0, "rollback", tx)
		must.Equal(t, definition(), before, "after the rollback")
	})

	t.Run("running", func(t *testing.T) {
		s := s.in(t)
		pci := vf("1")
		was := driver(pci)
		nic := domain.HostdevInterface{PCI: pci, Managed: true, VLAN: 7}
		at := setting.Of(setting.DomainDevice, guest, "interface/"+vfMAC)
		tx, _ := s.apply(0, to(at, "", nic.Value()))
		if got := driver(pci); got != "vfio-pci" || user(pci) != guest {
			t.Errorf("the function has driver %s, guest %q", got, user(pci))
		}
		s.MPPS(0, "verify")
		s.Must("virsh -q suspend " + guest)
		_, said := s.apply(1, to(at, nic.Value(), ""))
		must.Contain(t, said, "the guest is paused")
		s.Must("virsh -q resume " + guest)
		// libvirt counts on
		running := func() string { return s.Must("virsh dumpxml " + guest + " | grep -v '<alias '") }
		live := running()
		out, _ := s.apply(0, to(at, nic.Value(), ""))
		if got := driver(pci); got != was || user(pci) != "" {
			t.Errorf("taken out the function has driver %s, before %s; guest %q", got, was, user(pci))
		}
		s.MPPS(0, "rollback", out)
		if again := running(); again != live {
			t.Errorf("plugged in again it runs with\n%s\nand did with\n%s", again, live)
		}
		s.MPPS(0, "rollback", tx)
		must.Hold(t, driver(pci) == was && !strings.Contains(s.Must("virsh dumpxml "+guest), vfMAC),
			"the rollback left it plugged in")
	})

	t.Run("pool", func(t *testing.T) {
		s := s.in(t)
		pool := domain.NetworkPool{Name: "test-pool", PF: s.pf, Managed: true}
		of := func(what string) setting.Address { return setting.Of(setting.VirtNetwork, pool.Name, what) }
		made, _ := s.apply(0, to(of("definition"), "", pool.Value()), to(of("active"), "no", "yes"),
			to(of("autostart"), "no", "yes"))
		must.Contain(t, s.Must("virsh -q net-list --autostart"), "test-pool")
		s.MPPS(0, "verify")
		nic := domain.NetworkInterface{Network: pool.Name}
		at := setting.Of(setting.DomainDevice, guest, "interface/"+vfMAC)
		plugged, _ := s.apply(0, to(at, "", nic.Value()))
		h := labtest.Answer[facts.Host](s, 0, "inspect")
		var taken []string
		for _, f := range h.VFs {
			if f.Guest == guest {
				taken = append(taken, f.PCI)
			}
		}
		must.Hold(t, len(taken) == 1 && h.Pool(pool.Name) != nil && h.Pool(pool.Name).Active,
			"functions %v are the guest's; pools %+v", taken, h.Pools)
		if _, said := s.apply(1, to(of("active"), "yes", "no")); !strings.Contains(said, "used by running guests: "+
			guest) {
			t.Errorf("stopping a network that is used: %s", said)
		}
		s.MPPS(0, "rollback", plugged)
		s.MPPS(0, "rollback", made)
		must.Lack(t, s.Must("virsh -q net-list --all --name"), pool.Name)
	})
}

// in is the scene for a part of the test.
func (s *scene) in(t *testing.T) *scene {
	c := *s
	c.Scene = s.In(t)
	return &c
}
