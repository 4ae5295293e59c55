package sriov

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// cards is a host with four functions of an X520 and two of an X710. Function 1 is an interface of guest fw1, function
// 2 a plain device of guest db1, both running.
func cards() *facts.Host {
	h := &facts.Host{
		NICs: []facts.NIC{
			{Name: "ens1f0", Driver: "ixgbe", MAC: "a0:00:00:00:00:01", Up: true, Carrier: "up", Speed: 10000,
				SRIOV: &facts.SRIOV{Total: 63, Enabled: 4, AutoProbe: true}},
			{Name: "ens2", Driver: "i40e", MAC: "a0:00:00:00:00:02", Up: true, Carrier: "up", Speed: 10000,
				SRIOV: &facts.SRIOV{Total: 64, Enabled: 2, AutoProbe: true}},
			{Name: "ens1f0v3", Driver: "ixgbevf", MAC: "02:11:11:11:11:11", PhysFn: "ens1f0", Up: false},
		},
		Bridges: []facts.Bridge{{Name: "br0", MAC: "a0:00:00:00:00:03"}},
		VFs: []facts.VF{
			{PF: "ens1f0", Index: 0, PCI: "0000:01:10.0", Group: 30, MAC: facts.NoMAC, SpoofCheck: true,
				LinkState: "auto"},
			{PF: "ens1f0", Index: 1, PCI: "0000:01:10.2", Group: 31, Driver: "vfio-pci", Guest: "fw1",
				MAC: "52:54:00:00:00:01", VLAN: 7, SpoofCheck: true, LinkState: "auto"},
			{PF: "ens1f0", Index: 2, PCI: "0000:01:10.4", Group: 32, Driver: "vfio-pci", Guest: "db1",
				MAC: "52:54:00:00:00:02", SpoofCheck: true, LinkState: "auto"},
			{PF: "ens1f0", Index: 3, PCI: "0000:01:10.6", Group: 33, Driver: "ixgbevf", NIC: "ens1f0v3",
				MAC: "02:11:11:11:11:11", SpoofCheck: true, LinkState: "auto"},
			{PF: "ens2", Index: 0, PCI: "0000:02:02.0", Group: 40, MAC: facts.NoMAC, SpoofCheck: true,
				LinkState: "auto"},
			{PF: "ens2", Index: 1, PCI: "0000:02:02.1", Group: 41, MAC: facts.NoMAC, MaxTxRate: 500, SpoofCheck: true,
				LinkState: "auto"},
		},
		Guests: []facts.Guest{
			{Name: "fw1", UUID: "u1", State: "running", PID: 100, Hostdevs: []string{"0000:01:10.2"},
				Definition: "<domain/>", Interfaces: []facts.Interface{
					{MAC: "52:54:00:00:00:01", Type: "hostdev", Source: "0000:01:10.2", VLAN: 7},
					{MAC: "52:54:00:00:00:09", Type: "bridge", Source: "br0"}}},
			{Name: "db1", UUID: "u2", State: "running", PID: 200, Hostdevs: []string{"0000:01:10.4"},
				Definition: "<domain/>"},
		},
		Readings: facts.Readings{},
	}
	for i := range h.VFs {
		readAll(h, &h.VFs[i])
	}
	return h
}

// readAll adds readings that agree with the facts of a function.
func readAll(h *facts.Host, f *facts.VF) {
	for name, value := range values(f) {
		h.Readings[attribute(f, name)] = setting.Value(value)
	}
}

func TestFind(t *testing.T) {
	h := cards()
	for _, c := range []struct{ words, found, rest, because string }{
		{"ens1f0/3 rate 100", "ens1f0/3", "rate 100", ""},
		{"ens1f0 vf 3 rate 100", "ens1f0/3", "rate 100", ""},
		{"0000:01:10.6", "ens1f0/3", "", ""},
		{"01:10.6 trust on", "ens1f0/3", "trust on", ""},
		{"ens1f0v3", "ens1f0/3", "", ""},
		{"ens2/1", "ens2/1", "", ""},
		{"ens1f0/9", "", "", "has no virtual function 9: it has 4"},
		{"ens1f0 rate 100", "", "", "expected a virtual function of ens1f0"},
		{"ens1f0/x", "", "", "expected the number"},
		{"eth7", "", "", "there is no virtual function eth7"},
		{"0000:01:10.7", "", "", "there is no virtual function"},
		{"", "", "", "no virtual function is named"},
	} {
		f, rest, err := Find(h, strings.Fields(c.words))
		if c.because != "" {
			must.Say(t, err, c.because, "%s", c.words)
			continue
		}
		must.Hold(t, err == nil && nameOf(f) == c.found && strings.Join(rest, " ") == c.rest,
			"%s: %v, %v, %v", c.words, f, rest, err)
	}
}

// TestSet checks what is set and what is refused, with the advice.
func TestSet(t *testing.T) {
	for _, c := range []struct {
		words   string
		planned string // attribute=value in order; empty: refused
		because string // why, and what to do; of a plan: a warning
	}{
		{"ens1f0/0 mac 52:54:00:12:34:56 vlan 100 rate 500", "mac=52:54:00:12:34:56 vlan=100 max_tx_rate=500",
			"takes the limit away when its link comes up at another speed"},
		{"ens1f0/0 rate 0500 mac 52-54-00-12-34-56", "mac=52:54:00:12:34:56 max_tx_rate=500", ""},
		{"ens1f0/0 spoofchk off trust on", "trust=on spoofchk=off", "may then change the function's MAC address"},
		{"ens1f0/0 qos 3", "qos=3", ""},
		{"ens1f0/0 state disable", "link_state=disable", ""},
		{"ens1f0/1 mac 52:54:00:00:00:01 vlan 7", "mac=52:54:00:00:00:01 vlan=7", ""}, // as the definition says
		{"ens1f0/1 qos 3", "qos=3", "back to 0 at each start of fw1"},
		{"ens1f0/2 mac 52:54:00:12:34:56", "mac=52:54:00:12:34:56", ""},
		{"ens1f0/3 mac 02:11:11:11:11:11", "mac=02:11:11:11:11:11", ""}, // its own interface has it
		{"ens2/1 rate 500", "max_tx_rate=500", ""},

		{"ens1f0/0 rate 10", "", "11 to 10000"},
		{"ens1f0/0 min-rate 100", "", "ixgbe guarantees no rate|limit the other functions"},
		{"ens1f0/0 state enable", "", "does nothing"},
		{"ens2/0 rate 49", "", "silently makes 50|mpps explain sriov.vf.rate"},
		{"ens2/0 rate 75", "", "steps of 50"},
		{"ens1f0/0 mac 01:00:5e:00:00:01", "", "address of a group"},
		{"ens1f0/0 mac 00:00:00:00:00:00", "", "is no address|sriov reset ens1f0/0"},
		{"ens1f0/0 mac a0:00:00:00:00:02", "", "NIC ens2"},
		{"ens1f0/0 mac a0:00:00:00:00:03", "", "bridge br0"},
		{"ens1f0/0 mac 52:54:00:00:00:02", "", "virtual function ens1f0/2|choose another"},
		{"ens1f0/0 mac 52:54:00:00:00:09", "", "guest fw1"},
		{"ens1f0/1 mac 52:54:00:00:00:99", "", "the definition of guest fw1 says <mac " +
			"address='52:54:00:00:00:01'/>|virsh edit fw1"},
		{"ens1f0/1 vlan 8", "", "<tag id='7'/>|mpps domain tune fw1 --vf-vlan 8"},
		{"ens1f0/0 vlan 4095", "", "0 to 4094"},
		{"ens1f0/0 qos 8", "", "0 to 7"},
		{"ens1f0/0 trust maybe", "", "on or off"},
		{"ens1f0/0 rx-rate 100", "", "cannot be limited|limit the sender"},
		{"ens1f0/0 proto 802.1ad", "", "802.1Q only|ip link set"},
		{"ens1f0/0 colour red", "", "no attribute|expected mac"},
		{"ens1f0/0 rate", "", "no value"},
		{"ens1f0/0 rate 100 max-rate 200", "", "given twice"},
	} {
		h := cards()
		f, words, err := Find(h, strings.Fields(c.words))
		must.Do(t, err)
		var planned []string
		warning := ""
		wantFor := map[string]string{"ens1f0/1": "fw1", "ens1f0/2": "db1"}[nameOf(f)]
		if sets, err := ParseSets(words); err != nil {
			refusedWith(t, c.words, err, c.because)
			continue
		} else if changes, err := PlanSet(h, f, sets); err != nil {
			refusedWith(t, c.words, err, c.because)
			continue
		} else {
			for _, change := range changes {
				planned = append(planned, strings.TrimPrefix(change.Address.Rest(), words0(f))+"="+change.To.Value)
				warning += change.Warning
				must.Equal(t, change.For, wantFor, "%s: set for", c.words)
			}
		}
		if got := strings.Join(planned, " "); got != c.planned || !strings.Contains(warning, c.because) {
			t.Errorf("%s: planned %q (%s), expected %q (%s)", c.words, got, warning, c.planned, c.because)
		}
	}
}

func words0(f *facts.VF) string { return strings.SplitN(nameOf(f), "/", 2)[1] + "/" }

func refusedWith(t *testing.T, what string, err error, because string) {
	t.Helper()
	why, advice, _ := strings.Cut(because, "|")
	var refused *Refused
	must.Hold(t, errors.As(err, &refused) && why != "" && strings.Contains(refused.Why, why) &&
		strings.Contains(refused.Advice, advice), "%s: refused with %v (%v), expected %s", what, err, refused, because)
}

// TestRatesInOrder: while two rates change, the guaranteed one never exceeds the limit.
func TestRatesInOrder(t *testing.T) {
	for _, c := range []struct {
		min, max int // before
		words    string
		order    string
	}{
		{0, 0, "min-rate 100 rate 200", "max_tx_rate min_tx_rate"},
		{100, 200, "rate 50 min-rate 20", "min_tx_rate max_tx_rate"},
		{100, 200, "rate 500 min-rate 300", "max_tx_rate min_tx_rate"},
		{100, 200, "rate 0 min-rate 300", "max_tx_rate min_tx_rate"},
	} {
		h := &facts.Host{Readings: facts.Readings{},
			NICs: []facts.NIC{{Name: "ens3", Driver: "ice", Up: true, Carrier: "up", Speed: 25000}}}
		f := &facts.VF{PF: "ens3", MinTxRate: c.min, MaxTxRate: c.max, MAC: facts.NoMAC}
		readAll(h, f)
		sets := must.Get(ParseSets(strings.Fields(c.words)))(t)
		changes, err := PlanSet(h, f, sets)
		if err != nil {
			t.Errorf("%d to %d, %s: %v", c.min, c.max, c.words, err)
			continue
		}
		var order []string
		for _, change := range changes {
			order = append(order, strings.TrimPrefix(change.Address.Rest(), "0/"))
		}
		must.Hold(t, strings.Join(order, " ") == c.order, "%d to %d, %s: %v", c.min, c.max, c.words, order)
	}
}

// TestSetFromPool: attributes that libvirt sets on each function from a pool cannot be set on the current one.
func TestSetFromPool(t *testing.T) {
	h := cards()
	f := &h.VFs[2]
	h.Guests[1].Interfaces = []facts.Interface{{MAC: f.MAC, Type: "network", Source: "pool"}}
	for _, s := range []Set{{"mac", "52:54:00:12:34:56"}, {"vlan", "5"}} {
		_, err := PlanSet(h, f, []Set{s})
		refusedWith(t, s.Attribute, err, "guest db1 has it from a pool|virsh edit db1")
	}
	changes, err := PlanSet(h, f, []Set{{"max_tx_rate", "100"}})
	must.Hold(t, err == nil && strings.Contains(changes[0].Warning, "another function") && changes[0].For == "db1",
		"%+v, %v", changes, err)
}

// TestSetWhileDown: on a PF that is down some attributes are refused with advice, others set with a warning.
func TestSetWhileDown(t *testing.T) {
	h := cards()
	h.NICs[0].Up, h.NICs[0].Carrier, h.NICs[0].Speed = false, "down", -1
	f := &h.VFs[0]
	_, err := PlanSet(h, f, []Set{{"max_tx_rate", "100"}})
	refusedWith(t, "rate", err, "found it down|plug the cable in")
	changes, err := PlanSet(h, f, []Set{{"vlan", "5"}})
	must.Hold(t, err == nil && strings.Contains(changes[0].Warning, "ens1f0 is down"), "%+v, %v", changes, err)
	if changes, err = PlanSet(h, f, []Set{{"max_tx_rate", "0"}}); err != nil { // as it is
		t.Errorf("%+v, %v", changes, err)
	}
}
