package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestDomainXML(t *testing.T) {
	for _, c := range []struct {
		golden string
		spec   GuestSpec
	}{
		{"e1000", GuestSpec{Name: "g1",
			NICs: []NIC{{Model: E1000, Bridge: "br0", Addr: "10.50.0.2/24", Tap: "t0", MAC: "52:54:00:aa:00:01"}}}},
		{"virtio", GuestSpec{Name: "g2", NICs: []NIC{{Model: Virtio, Bridge: "br0", MAC: "52:54:00:aa:00:02"}},
			Args: []string{`x="<&>"`}}},
		{"vhost", GuestSpec{Name: "g3",
			NICs: []NIC{{Model: Vhost, Bridge: "br0", Queues: 4, RxQueue: 1024, Addr: "10.50.0.3/24"}}, MemoryMiB: 512,
			VCPUs: 4, Routes: []string{"default=10.50.0.1"}, Forward: true}},
		{"agent", GuestSpec{Name: "g5", Agent: true, NICs: []NIC{{Model: Vhost, Bridge: "br0", Addr: "10.50.0.5/24"}}}},
		{"vf", GuestSpec{Name: "g4", NICs: []NIC{{Model: VF, VF: "0000:41:10.2", Addr: "10.50.0.4/24"}}}},
	} {
		must.Do(t, c.spec.fill())
		got := must.Get(c.spec.domainXML("/boot/vmlinuz-6.12", "/share/.guests/x.initrd", "/run/lab/x.console"))(t)
		file := filepath.Join("testdata/domain", c.golden+".xml")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want := must.Get(os.ReadFile(file))(t)
		must.NoDiff(t, cmp.Diff(string(want), got), "%s", c.golden)
	}
}

func TestGuestSpecRefuses(t *testing.T) {
	ok := NIC{Model: Vhost, Bridge: "br0"}
	for name, s := range map[string]GuestSpec{
		"name":         {Name: "../x", NICs: []NIC{ok}},
		"no NIC":       {Name: "g"},
		"model":        {Name: "g", NICs: []NIC{{Model: "ne2000", Bridge: "br0"}}},
		"no bridge":    {Name: "g", NICs: []NIC{{Model: Vhost}}},
		"e1000 queues": {Name: "g", NICs: []NIC{{Model: E1000, Bridge: "br0", Queues: 2}}},
		"address":      {Name: "g", NICs: []NIC{{Model: Vhost, Bridge: "br0", Addr: "10.0.0.1"}}},
		"MAC":          {Name: "g", NICs: []NIC{{Model: Vhost, Bridge: "br0", MAC: "x"}}},
		"VF":           {Name: "g", NICs: []NIC{{Model: VF, VF: "01:10.0"}}},
	} {
		must.Refuse(t, s.fill(), "%s: was accepted", name)
	}
}

func TestMadeMACsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 40 {
		for n := range 4 {
			m := guestMAC("guest-"+strconv.Itoa(i), n)
			must.Need(t, !seen[m], "%s twice", m)
			seen[m] = true
		}
	}
}
