package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Recovery is the diagnosis of one function and the changes that repair it.
type Recovery struct {
	Function string `json:"function"` // PF/N
	PCI      string `json:"pci"`
	// Verdict is well, mendable, taken (in use: nothing is done) or for-you (the rest needs a person).
	Verdict Verdict `json:"verdict"`
	Steps   []Step  `json:"steps"` // in the order of repair
	// LastResort is what to do if nothing else helps.
	LastResort string `json:"last_resort,omitempty"`

	Changes []plan.Change `json:"-"`
	// Reset reports whether to reset the function before binding it to another driver.
	Reset bool `json:"reset"`

	// The results of the repair; empty: none was made.
	WasReset    string  `json:"was_reset,omitempty"`   // method, or why it was not reset
	Transaction string  `json:"transaction,omitempty"` // of the changes, for a rollback
	After       Verdict `json:"after,omitempty"`       // verdict after the repair
}

// Verdict is the state of a function.
type Verdict string

// The verdicts.
const (
	Well     Verdict = "well"
	Mendable Verdict = "mendable"
	Taken    Verdict = "taken"
	ForYou   Verdict = "for-you"
)

// Step is one check.
type Step struct {
	What  string `json:"what"`
	Found string `json:"found"`
	State string `json:"state"`        // ok, mended (or would be), taken, for-you
	Do    string `json:"do,omitempty"` // what mpps does, or what a person must do
}

// RecoverAddresses returns what must be read before Recover.
func RecoverAddresses(f *facts.VF) []setting.Address {
	return append(Attributes(f), setting.Of(setting.NICState, f.PF), setting.Of(setting.PCIDriver, f.PCI))
}

// Recover checks a function: its PF, who has it, its IOMMU group, driver, interface and MAC address. It plans nothing
// for a function in use: it names a process, it does not end it.
func Recover(h *facts.Host, f *facts.VF) (Recovery, error) {
	r := &recovery{Recovery: Recovery{Function: nameOf(f), PCI: f.PCI, Verdict: Well, Steps: []Step{}}, host: h, f: f}
	if f.PCI == "" {
		return r.Recovery, &Refused{nameOf(f) + " is on no PCI bus", "there is nothing of it to be bound or reset"}
	}
	for _, look := range []func() error{r.checkPort, r.checkHolder, r.checkGroup, r.checkDriver, r.checkMAC} {
		if err := look(); err != nil {
			return r.Recovery, err
		}
		if r.Verdict == Taken {
			return r.Recovery, nil
		}
	}
	if r.Verdict != Well {
		r.LastResort = r.recreateAll()
	}
	return r.Recovery, nil
}

type recovery struct {
	Recovery
	host *facts.Host
	f    *facts.VF
}

func (r *recovery) step(what, found, state, do string) {
	r.Steps = append(r.Steps, Step{what, found, state, do})
	rank := []Verdict{Well, Mendable, ForYou, Taken}
	verdict := map[string]Verdict{"ok": Well, "mended": Mendable, "for-you": ForYou, "taken": Taken}[state]
	if slices.Index(rank, verdict) > slices.Index(rank, r.Verdict) {
		r.Verdict = verdict
	}
}

func (r *recovery) change(id, title string, a setting.Address, value string, risk goal.Risk, because string) error {
	c, err := change(r.host, id, title, a, setting.Exact(value), risk, because)
	if err != nil {
		return err
	}
	c.Forget = a.Kind == setting.NICState // needed now, not a wish of the administrator
	r.Changes = append(r.Changes, c)
	return nil
}

func (r *recovery) checkPort() error {
	const what = "the physical function is up"
	_, nic := port(r.host, r.f)
	switch {
	case nic == nil:
		r.step(what, r.f.PF+" is not to be seen", "for-you", "load its driver")
	case nic.Up:
		r.step(what, nic.Name+" is up", "ok", "")
	case !facts.VFNeedsUp(nic.Driver):
		r.step(what, nic.Name+" is down, which its functions do not need", "ok", "")
	default:
		r.step(what, nic.Name+" is down: its functions have no link, and their drivers get no answer", "mended",
			"it is brought up")
		return r.change("sriov.up", "The physical function is up", setting.Of(setting.NICState, nic.Name), "up",
			goal.Blip, "functions of "+nic.Driver+" have no link while it is down")
	}
	return nil
}

func (r *recovery) checkHolder() error {
	const what = "nobody has it"
	switch g := runsWith(r.host, r.f); {
	case g != nil:
		r.step(what, "guest "+g.Name+" runs with it", "taken",
			"nothing is done to what a guest has; shut it down first")
	case r.f.Elsewhere:
		r.step(what, r.f.Holder+" has its interface", "taken", "'lsns -t net' lists the namespaces; end the "+
			"container, or take the interface out of it, then repeat")
	case r.f.Holder != "":
		r.step(what, r.f.Holder+" has it open, and is no guest that runs", "taken", "end that process yourself (a "+
			"QEMU that is left over: 'kill PID', then 'kill -9 PID'), then repeat")
	case r.f.HostUse != "":
		r.step(what, fmt.Sprintf("the host uses its interface %s (%s)", r.f.NIC, r.f.HostUse), "taken",
			"take the interface out of that first, if the function is to go to a guest")
	default:
		r.step(what, "neither a guest nor a process nor the host", "ok", "")
	}
	return nil
}

func (r *recovery) checkGroup() error {
	const what = "it has an IOMMU group"
	if r.f.Group < 0 {
		r.step(what, "none: vfio gives it to nobody", "for-you", "'mpps sriov check' tells what the firmware and the "+
			"kernel lack (intel_iommu=on)")
		return nil
	}
	r.step(what, fmt.Sprintf("group %d", r.f.Group), "ok", "")
	return nil
}

// checkDriver checks the driver of an unused function. It should be the host's driver, none if the host's drivers do
// not bind to functions, or vfio-pci if a definition expects that (managed='no').
func (r *recovery) checkDriver() error {
	const what = "it has the driver that it should have"
	_, nic := port(r.host, r.f)
	a := setting.Of(setting.PCIDriver, r.f.PCI)
	found := r.host.Readings.At(a)
	if found.State != setting.Known {
		r.step(what, "could not be determined: "+found.Why, "for-you", "")
		return nil
	}
	driver, only := setting.Driver(found.Value)
	want, wantsNone := "", nic != nil && nic.SRIOV != nil && !nic.SRIOV.AutoProbe
	if nic != nil {
		want = facts.VFDriver(nic.Driver)
	}
	mend := func(found, to, do string) error {
		r.Reset = true
		r.step(what, found, "mended", do)
		return r.change("sriov.driver", "Driver of a virtual function", a, to, goal.Blip, found)
	}
	switch unmanaged := r.unmanagedBy(); {
	case unmanaged != "" && facts.PassesThrough(driver):
		r.step(what, fmt.Sprintf("%s, where the definition of guest %s wants it (managed='no')", driver, unmanaged),
			"ok", "")
	case unmanaged != "":
		r.step(what, fmt.Sprintf("%s, and guest %s expects vfio-pci (managed='no')", cmp.Or(driver, "none"), unmanaged),
			"for-you", "virsh nodedev-detach pci_"+strings.NewReplacer(":", "_", ".", "_").Replace(r.f.PCI))
	case facts.PassesThrough(driver) && wantsNone:
		return mend(fmt.Sprintf("left with %s, and nobody has it", driver), "none", "it is taken from "+driver+
			"; drivers of the host do not look for functions of "+nic.Name)
	case facts.PassesThrough(driver) && want != "":
		return mend(fmt.Sprintf("left with %s, and nobody has it", driver), want, "it is reset and given back to "+want)
	case facts.PassesThrough(driver):
		r.step(what, fmt.Sprintf("left with %s, and nobody has it", driver), "for-you", "bind it to its driver on "+
			"the host, or leave it: a guest takes it from there too")
	case driver == "" && wantsNone && only == "":
		r.step(what, "none, because drivers of the host do not look for functions of "+nic.Name, "ok", "")
	case driver == "" && wantsNone:
		return mend("none, and only "+only+" may take it (driver_override)", "none", "driver_override is cleared")
	case driver == "" && want != "":
		found := words.Either(only != "", "none, because only "+only+" may take it (driver_override)",
			"none: its driver did not take it (\"Cannot allocate memory\", or the module is not loaded)")
		return mend(found, want, "driver_override is cleared, the function reset, and "+want+" tried again")
	case driver == "":
		of := "its card"
		if nic != nil {
			of = nic.Driver
		}
		r.step(what, "none", "for-you", "load the module of its driver; which one that is is not known of "+of)
	case only != "":
		return mend(fmt.Sprintf("%s, but only %s may take it (driver_override)", driver, only), driver,
			"driver_override is cleared")
	case r.f.NIC == "":
		r.step(what, driver+", but it has no interface", "mended", "the function is reset and "+driver+" tried again")
		r.Reset = true
	default:
		r.step(what, fmt.Sprintf("%s, interface %s", driver, r.f.NIC), "ok", "")
	}
	return nil
}

// unmanagedBy returns the guest whose definition expects the function to be bound to vfio-pci; empty: none.
func (r *recovery) unmanagedBy() string {
	for _, g := range r.host.Guests {
		if g.Definition == "" || !slices.Contains(g.Hostdevs, r.f.PCI) {
			continue
		}
		doc, err := domain.Parse([]byte(g.Definition))
		if err != nil {
			continue
		}
		if value, there, err := doc.Get("hostdev/" + r.f.PCI); err == nil && there && value == "unmanaged" {
			return g.Name
		}
		if i := interfaceOf(&g, r.f); i != nil {
			if value, there, err := doc.Get("interface/" + i.MAC + "/managed"); err == nil && there && value == "no" {
				return g.Name
			}
		}
	}
	return ""
}

func (r *recovery) checkMAC() error {
	const what = "it has an address"
	given := reservationOf(r.host, r.f)
	switch {
	case !facts.NoAddress(r.f.MAC):
		r.step(what, r.f.MAC, "ok", "")
	case given == nil || given.Form == facts.ByNetwork:
		r.step(what, "none was set: its driver, here or in a guest, chooses one, another at each start", "ok",
			"'mpps sriov set "+nameOf(r.f)+" mac ADDRESS' gives it one that stays")
	case given.Form == facts.ByInterface:
		r.step(what, "none: libvirt sets "+given.MAC+" at the start of guest "+given.Guest, "ok", "")
	default:
		r.step(what, "none, and it was given to guest "+given.Guest+" with "+given.MAC, "mended", "it gets "+given.MAC)
		return r.change(knobs["mac"].id, knobs["mac"].title, attribute(r.f, "mac"), given.MAC, knobs["mac"].risk,
			"guest "+given.Guest+" was given it")
	}
	return nil
}

// recreateAll returns the last resort: to create all functions of the PF again, for which none may be in use.
func (r *recovery) recreateAll() string {
	var taken []string
	all := functions(r.host, ofPF(r.f.PF))
	for _, f := range all {
		if who := inUse(r.host, f); who != "" {
			taken = append(taken, nameOf(f)+": "+who)
		}
	}
	when := words.Either(len(taken) > 0,
		fmt.Sprintf("once nobody has one of them (now %s)", strings.Join(taken[:min(4, len(taken))], "; ")),
		"which nobody has")
	return fmt.Sprintf("if that does not help, all functions of %[1]s are to be recreated, %[2]s: mpps sriov destroy "+
		"%[1]s && mpps sriov create %[1]s -n %[3]d", r.f.PF, when, len(all))
}
