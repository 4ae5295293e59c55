package report

import (
	"fmt"

	"mpps/internal/sriov"
)

// GuestSide draws what a guest makes of its virtual functions.
func GuestSide(t *Text, g *sriov.GuestSide) {
	t.Wrapped(t.In(Bold, g.Guest)+"  ", join(g.State, count(g.VCPUs, "vCPU"), g.System, "irqbalance "+g.IRQBalance))
	if !g.Seen {
		t.Wrapped(t.In(Yellow, "not seen inside: "), g.Why)
	}
	for _, f := range g.Functions {
		t.Blank()
		t.Wrapped("  ", fmt.Sprintf("%s VF %d, %s, %s", f.PF, f.Index, f.PCI, f.MAC))
		offers := "not known for its port's driver"
		if f.Offers > 0 {
			offers = count(f.Offers, "queue pair") + " offered by its port's driver"
		}
		t.Wrapped("    queues      ", offers)
		inside := "driver " + orNone(f.Driver)
		if f.Name != "" {
			inside = join(f.Name, inside, f.MACInside)
		}
		if f.Wants != "" && f.Driver != f.Wants {
			inside = join(inside, "needs "+f.Wants+" (Linux)")
		}
		t.Wrapped("    inside      ", inside)
		for _, i := range f.Interrupts {
			on := "vCPU"
			if len(i.VCPUs) != 1 {
				on = "vCPUs"
			}
			t.Wrapped("    interrupt   ", fmt.Sprintf("%s on %s %s", i.Name, on, orNone(i.VCPUs.String())))
		}
		style := map[string]Style{"ok": Green, "off": RedBold, "unknown": Yellow}[f.State]
		t.Wrapped("    "+t.In(style, f.State)+"  ", f.Because)
		for _, advice := range f.Advice {
			t.Wrapped("    hint: ", advice)
		}
	}
	for _, n := range g.Notes {
		t.Blank()
		t.Wrapped("note: ", n)
	}
}
