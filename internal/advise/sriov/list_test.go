package sriov

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// manyPorts is a host with a number of ixgbe PFs, each with a number of functions.
func manyPorts(pfs, vfs int) *facts.Host {
	h := &facts.Host{Name: "kvm1", NICs: []facts.NIC{{Name: "eno1", PCI: "0000:01:00.0"}}, Guests: []facts.Guest{}}
	for p := range pfs {
		name := fmt.Sprintf("ens%df0", p+1)
		h.NICs = append(h.NICs, facts.NIC{
			Name: name, PCI: fmt.Sprintf("0000:%02x:00.0", 0x41+p), Driver: "ixgbe", Node: p % 2, Up: true,
			Carrier: "up", Speed: 10000, SRIOV: &facts.SRIOV{Total: vfs, Enabled: vfs, AutoProbe: true},
		})
		for i := range vfs {
			h.VFs = append(h.VFs, facts.VF{
				PF: name, Index: i, PCI: fmt.Sprintf("0000:%02x:%02x.%d", 0x41+p, 0x10+i/8, i%8), Group: 100*p + i,
				Driver: "ixgbevf", MAC: facts.NoMAC, SpoofCheck: true, LinkState: "auto",
			})
		}
	}
	return h
}

func TestHoldings(t *testing.T) {
	h := manyPorts(1, 10)
	h.Guests = []facts.Guest{
		{Name: "runs", State: "running", Hostdevs: []string{h.VFs[0].PCI, h.VFs[1].PCI}},
		{Name: "off", State: "shut off", Hostdevs: []string{h.VFs[0].PCI, h.VFs[2].PCI}},
	}
	h.VFs[0].Driver = "vfio-pci"
	h.VFs[4].HostUse = "port of br0"
	h.VFs[5].Driver = "mlx5_vfio_pci"
	h.VFs[8].Driver, h.VFs[8].Holder = "vfio-pci", "dpdk-testpmd (process 4711)"
	h.Pools = []facts.Pool{{Network: "vfs1", Functions: []string{h.VFs[9].PCI, h.VFs[0].PCI}}}
	h.VFs[6].Untold = facts.VFAttributes
	h.VFs[7].Untold = []string{"trust"}
	h.Reservations = []facts.Reservation{
		{PF: "ens1f0", Index: 3, PCI: h.VFs[3].PCI, Guest: "new"}, {PF: "ens1f0", Index: -1, Network: "pool",
			Guest: "third"},
	}
	all := Functions(h)
	for i, want := range []struct {
		guest   string
		holding Holding
		guests  []string
	}{
		// it waits for its next start with it
		{"runs", Running, []string{"runs", "off"}}, {"runs", Defined, []string{"runs"}},
		{"off", Defined, []string{"off"}}, {"new", Reserved, []string{}}, {"", Host, []string{}},
		{"", Bound, []string{}},
		{"", Free, []string{}}, {"", Free, []string{}}, {"", Opened, []string{}}, {"", Pooled, []string{}},
	} {
		if got := all[i]; got.Guest != want.guest || got.Holding != want.holding ||
			!slices.Equal(got.Guests, want.guests) {
			t.Errorf("function %d: %q %s %v, want %+v", i, got.Guest, got.Holding, got.Guests, want)
		}
	}
	must.Hold(t, all[6].SpoofChk == nil && all[6].VLAN == nil && all[7].Trust == nil && all[7].SpoofChk != nil &&
		*all[7].SpoofChk, "what was not told: %+v and %+v", all[6], all[7])
	must.Equal(t, all[0].Queues, 2, "queues of a function of ixgbe")

	l := must.Get(Show(h, Which{}))(t)
	if p := l.PFs[0]; p.Used != 8 || p.Free != 2 || p.VFs != 10 ||
		!slices.Equal(p.Guests, []Share{{"runs", 2}, {"off", 1}, {"new", 1}}) ||
		!slices.Equal(p.Pooled, []Share{{"third", 1}}) {
		t.Errorf("totals: %+v", p)
	}
	for _, c := range []struct {
		which Which
		want  []int
	}{
		{Which{Free: true}, []int{6, 7}}, {Which{Guest: "off"}, []int{0, 2}}, {Which{PF: "0000:41:00.0", Guest: "new"},
			[]int{3}},
		{Which{Guest: "third"}, nil},
	} {
		l, err := Show(h, c.which)
		got := facts.Map(l.VFs, func(f Function) int { return f.Index })
		must.Hold(t, err == nil && slices.Equal(got, c.want) && l.PFs[0].Used == 8,
			"%+v: %v (%v), want %v", c.which, got, err, c.want)
	}
}

func TestListRefuses(t *testing.T) {
	h := manyPorts(1, 1)
	for _, c := range []struct {
		which       Which
		why, advice string
	}{
		{Which{PF: "ens9"}, `no physical function "ens9"`, "ens1f0"},
		{Which{PF: "eno1"}, "eno1 cannot have virtual functions", "sriov check eno1"},
		{Which{Guest: "nobody"}, `no guest "nobody"`, "without --guest"},
	} {
		_, err := Show(h, c.which)
		var refused *Refused
		must.Hold(t, errors.As(err, &refused) && strings.Contains(refused.Why, c.why) &&
			strings.Contains(refused.Advice, c.advice), "%+v: %v", c.which, err)
	}
	must.Pass(Show(&facts.Host{}, Which{}))(t, "a host without NICs")
}

// A thousand functions and two hundred guests take milliseconds; reading them takes longer.
func TestListOfManyIsFast(t *testing.T) {
	h := manyPorts(8, 127)
	for g := range 200 {
		h.Guests = append(h.Guests, facts.Guest{Name: fmt.Sprint("vm", g), State: "running",
			Hostdevs: []string{h.VFs[g].PCI, h.VFs[g+200].PCI}})
		h.VFs[g].Driver = "vfio-pci"
	}
	least := time.Hour // of some runs: the others say what else the machine did
	for range 5 {
		began := time.Now()
		l, err := Show(h, Which{})
		must.Need(t, err == nil && len(l.VFs) == 1016, "%d functions (%v)", len(l.VFs), err)
		least = min(least, time.Since(began))
	}
	must.Hold(t, least <= 100*time.Millisecond, "1016 functions in %v", least)
}

func BenchmarkShow(b *testing.B) {
	h := manyPorts(8, 127)
	for b.Loop() {
		must.Get(Show(h, Which{}))(b)
	}
}
