package sriov

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// inside is the inside of a guest that has its function with two queues.
func inside(driver, mac string, cpus ...int) *facts.Host {
	h := &facts.Host{Virtual: "kvm", AsRoot: true, Services: []facts.Service{{Name: "irqbalance"}}}
	h.Topology.Online = setting.CPUs(0, 1, 2, 3)
	n := facts.NIC{Name: "eth1", Driver: driver, MAC: mac, Up: true}
	for i, cpu := range cpus {
		n.IRQs = append(n.IRQs, facts.IRQ{Number: 50 + i, On: "TxRx-" + string(rune('0'+i)),
			Effective: setting.CPUs(cpu)})
	}
	h.NICs = []facts.NIC{{Name: "eth0", Driver: "virtio_net", MAC: "52:54:00:00:00:01"}, n}
	return h
}

// TestGuestSide checks a function inside the guest: two vCPUs, one vCPU, another driver, another MAC address,
// missing.
func TestGuestSide(t *testing.T) {
	const mac = "52:54:00:00:00:02"
	for name, c := range map[string]struct {
		inside *facts.Host
		state  string
		says   string
	}{
		"spread":          {inside("ixgbevf", mac, 0, 1), "ok", "2 queues on 2 CPUs"},
		"on one":          {inside("ixgbevf", mac, 0, 0), "off", "smp_affinity_list"},
		"one queue":       {inside("ixgbevf", mac, 0), "ok", "it has one queue"},
		"another address": {inside("ixgbevf", "52:54:00:ee:00:01", 0, 1), "ok", "the host gave it " + mac},
		"another driver":  {inside("igbvf", mac, 0, 1), "ok", "its driver is igbvf, expected ixgbevf"},
		"no driver":       {&facts.Host{Virtual: "kvm"}, "off", "modprobe ixgbevf"},
		"not seen":        {nil, "unknown", "mpps audit"},
	} {
		h, _ := hosts()
		h.Guests[0].Inside = &facts.Inside{Release: "6.12.48", Host: c.inside}
		side := must.Get(Guest(h, "vm1"))(t)
		must.Need(t, len(side.Functions) == 1, "%s: %+v", name, side)
		f := side.Functions[0]
		if text := f.Because + " " + strings.Join(f.Advice, " "); f.State != c.state ||
			!strings.Contains(text, c.says) || f.Offers != 2 || f.Wants != "ixgbevf" {
			t.Errorf("%s: %+v", name, f)
		}
		if side.Seen != (c.inside != nil) || !side.Seen && side.Why == "" {
			t.Errorf("%s: %+v", name, side)
		}
	}
	h, _ := hosts()
	h.NICs[0].Driver = "i40e"
	h.Guests[0].Inside = &facts.Inside{Host: inside("i40evf", "", 0, 1)}
	old := must.Get(Guest(h, "vm1"))(t).Functions[0]
	must.Hold(t, old.Driver == "i40evf" && !strings.Contains(strings.Join(old.Advice, " "), "expected"), "%+v", old)
	h.Guests[0].Hostdevs = nil
	var refused *Refused
	for _, name := range []string{"vm1", "vm2"} {
		if _, err := Guest(h, name); !errors.As(err, &refused) || refused.Advice == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
