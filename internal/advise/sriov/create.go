package sriov

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Persist is what creates the functions again at boot.
type Persist string

// The ways.
const (
	ByUnit  Persist = "unit" // mpps-vfs.service, from the list of desired values
	ByLink  Persist = "link" // udev, from a .link file (systemd.link(5))
	ByNoOne Persist = "none"
)

// Note is a warning about planned changes.
type Note struct{ Code, Text, Hint string }

// CreateRequest is the input of Create.
type CreateRequest struct {
	PF           string
	Count        int
	NoHostDriver bool // no host driver binds to the functions (sriov_drivers_autoprobe 0)
	Blacklist    bool // the host does not autoload the functions' driver
	LeaveDown    bool // do not bring the PF up
	Force        bool // remove reserved functions too
	Persist      Persist
	Link         LinkFile // of the PF; needed for ByLink
}

// BlacklistFile is the file that blacklists a driver of VFs.
func BlacklistFile(module string) setting.Address {
	return setting.Of(setting.File, "etc/modprobe.d", "90-mpps-vf-"+module+".conf")
}

// CreateReads returns what must be read before Create and Destroy.
func CreateReads(h *facts.Host, pf string) []setting.Address {
	all := []setting.Address{
		setting.AutoProbe(pf), setting.Of(setting.NICState, pf), setting.Of(setting.VFCount, pf),
		setting.Of(setting.Directory, "etc/modprobe.d"), setting.Of(setting.Directory, path.Dir(linkFile(pf).Path)),
		linkFile(pf),
	}
	if n := nicOf(h, pf); n != nil {
		if module := facts.VFModule(n.Driver); module != "" {
			all = append(all, BlacklistFile(module))
		}
	}
	for _, r := range slices.Concat(h.Reservations, h.Leaving) {
		if r.PF == pf {
			all = append(all, r.Address())
		}
	}
	return all
}

// Create plans the number of VFs of a PF, after the settings that must hold before they are created. If the PF has
// another number of VFs now, all are removed and created again.
func Create(h *facts.Host, ask CreateRequest) ([]plan.Change, []Note, error) {
	n, err := physical(h, ask.PF)
	if err != nil {
		return nil, nil, err
	}
	most, says := facts.MaxVFs(n.Driver, n.SRIOV.Total, 0)
	if ask.Count == 0 {
		return nil, nil, &Refused{Why: n.Name + ": expected 1 virtual function or more, found 0",
			Advice: "'mpps sriov destroy " + n.Name + "' takes them away"}
	}
	if ask.Count < 1 || ask.Count > most {
		return nil, nil, refuse("'mpps sriov check' tells what the card, its firmware and the host allow", "%s: "+
			"expected 1 to %d virtual functions (%s), found %d", n.Name, most, says, ask.Count)
	}
	notes, err := checkUse(h, n, ask.Count, ask.Force)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{changes: changes{h: h}, nic: n}
	if ask.Blacklist {
		if err := b.blacklist(); err != nil {
			return nil, nil, err
		}
	}
	kept := ""
	switch {
	case ask.Persist == ByLink && ask.NoHostDriver:
		return nil, nil, &Refused{Why: "udev makes the functions of a .link file before anything keeps drivers of " +
			"the host from them", Advice: "use --persist unit, or --blacklist in place of --no-host-driver"}
	case ask.Persist == ByLink:
		if kept, err = b.link(ask.Link, ask.Count); err != nil {
			return nil, nil, err
		}
	default:
		b.noLink()
	}
	forget := ask.Persist == ByNoOne
	if ask.NoHostDriver {
		if h.Readings.At(setting.AutoProbe(n.Name)).State == setting.Absent { // drivers/pci/pci-sysfs.c, Linux 4.12
			return nil, nil, &Refused{Why: "this kernel has no sriov_drivers_autoprobe (Linux 4.12 has)",
				Advice: "use --blacklist"}
		}
		b.add(plan.Change{Forget: forget}, "sriov.autoprobe", "Drivers of the host do not look for virtual functions",
			setting.AutoProbe(n.Name), setting.Exact("0"), goal.None, "the functions are for guests")
		if n.SRIOV.Enabled == ask.Count && n.SRIOV.AutoProbe {
			notes = append(notes, Note{"host-driver", fmt.Sprintf("functions that %s has now keep the driver that "+
				"they have", n.Name), "destroy and create them to have them without"})
		}
	}
	// even if it is up: at the next boot the functions are created before the network is set up
	if facts.VFNeedsUp(n.Driver) && !ask.LeaveDown {
		b.add(plan.Change{Forget: forget}, "sriov.up", "The physical function is up",
			setting.Of(setting.NICState, n.Name), setting.Exact("up"), goal.Blip, "virtual functions of "+n.Driver+
				" have no link while it is down")
	}
	b.add(plan.Change{Forget: forget, Kept: kept}, "sriov.count", "Virtual functions of "+n.Name,
		setting.Of(setting.VFCount, n.Name), setting.Exact(strconv.Itoa(ask.Count)), b.risk(goal.Blip),
		"asked for by name")
	b.unreserve(ask.Count)
	notes = append(notes, b.noteOthers()...)
	return b.result(notes)
}

// Destroy plans the removal of all VFs of a PF, and of what would create them at boot.
func Destroy(h *facts.Host, pf string, force bool) ([]plan.Change, []Note, error) {
	n, err := physical(h, pf)
	if err != nil {
		return nil, nil, err
	}
	notes, err := checkUse(h, n, 0, force)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{changes: changes{h: h}, nic: n}
	b.add(plan.Change{Forget: true}, "sriov.count", "Virtual functions of "+n.Name, setting.Of(setting.VFCount, n.Name),
		setting.Exact("0"), b.risk(goal.Blip), "asked for by name")
	if h.Readings.At(setting.AutoProbe(n.Name)).State == setting.Known {
		b.add(plan.Change{Forget: true}, "sriov.autoprobe", "Drivers of the host look for virtual functions",
			setting.AutoProbe(n.Name), setting.Exact("1"), goal.None, "as the kernel has it")
	}
	b.noLink()
	b.noBlacklist()
	b.unreserve(0)
	return b.result(notes)
}

// physical returns the PF with a name, or why there is none.
func physical(h *facts.Host, name string) (*facts.NIC, error) {
	n := nicOf(h, name)
	switch {
	case n == nil:
		return nil, &Refused{Why: "there is no NIC " + name, Advice: "'mpps inspect' lists the NICs" + capablePFs(h)}
	case n.PhysFn != "":
		return nil, refuse("name the physical function", "%s is a virtual function of %s", name, n.PhysFn)
	case n.SRIOV == nil || n.SRIOV.Total == 0:
		return nil, &Refused{Why: name + " has no virtual functions to offer: sriov_totalvfs is 0 or not there",
			Advice: "'mpps sriov check' says whether the card, its firmware or the host is in the way" + capablePFs(h)}
	}
	return n, nil
}

// nicOf returns the NIC with a name, or nil.
func nicOf(h *facts.Host, name string) *facts.NIC {
	return facts.Find(h.NICs, func(n *facts.NIC) bool { return n.Name == name })
}

// capablePFs names the NICs that can have VFs, as the end of a sentence.
func capablePFs(h *facts.Host) string {
	var names []string
	for _, n := range h.NICs {
		if n.SRIOV != nil && n.SRIOV.Total > 0 && n.PhysFn == "" {
			names = append(names, n.Name)
		}
	}
	return words.Either(len(names) == 0, "", "; those that can have virtual functions: "+strings.Join(names, ", "))
}

// builder collects the changes of a verb.
type builder struct {
	changes
	nic *facts.NIC
}

// result returns the changes and notes, or the first error.
func (b *builder) result(notes []Note) ([]plan.Change, []Note, error) {
	if b.err != nil {
		return nil, nil, b.err
	}
	return b.all, notes, nil
}

// risk returns the risk of a change that resets the NIC: connectivity if the user's session may use it.
func (b *builder) risk(otherwise goal.Risk) goal.Risk {
	return words.Either(b.nic.Management != "", goal.Connectivity, otherwise)
}

// add plans one change. kept has its Forget and Kept.
func (b *builder) add(kept plan.Change, id, title string, a setting.Address, want setting.Want, risk goal.Risk,
	because string) {
	c := b.changes.add(id, title, a, want, risk, because)
	if c.From.State == setting.Unknown && b.err == nil {
		b.err = refuse("", "%s cannot be read: %s", a, c.From.Why)
	}
	c.Forget, c.Kept = kept.Forget, kept.Kept
	if c.Kept != "" {
		c.Lasts = setting.AcrossReboot
	}
}

// blacklist plans the file that blacklists the functions' driver.
func (b *builder) blacklist() error {
	module := facts.VFModule(b.nic.Driver)
	switch module {
	case "":
		return &Refused{Why: "it is not known which driver has the virtual functions of " + b.nic.Driver,
			Advice: "use --no-host-driver"}
	case b.nic.Driver:
		return &Refused{Why: module + " drives physical and virtual functions alike: without it the NIC itself would " +
			"be gone after a reboot", Advice: "use --no-host-driver"}
	}
	at := BlacklistFile(module)
	if found := b.h.Readings.At(at); found.State == setting.Known && !strings.Contains(found.Value, mark) {
		return refuse("", "/%s is there and was not written by mpps", at.Path)
	}
	b.folder("etc/modprobe.d")
	b.add(plan.Change{}, "sriov.blacklist", "The host does not load "+module+" by itself", at,
		setting.Exact(fmt.Sprintf(blacklistText, module)), goal.None, "the functions are for guests")
	return nil
}

// mark is in every file that mpps writes.
const mark = "Written by mpps"

const blacklistText = `# Written by mpps: 'mpps sriov create --blacklist' keeps this host from loading the driver of virtual functions by itself.
# Undo: 'mpps rollback', or 'mpps sriov destroy'. 'modprobe NAME' loads it all the same.
blacklist %s
`

// noBlacklist plans the removal of that file, unless another PF has functions with the same driver.
func (b *builder) noBlacklist() {
	module := facts.VFModule(b.nic.Driver)
	if module == "" {
		return
	}
	for _, n := range b.h.NICs {
		if n.Name != b.nic.Name && n.SRIOV != nil && n.SRIOV.Enabled > 0 && facts.VFModule(n.Driver) == module {
			return
		}
	}
	at := BlacklistFile(module)
	if found := b.h.Readings.At(at); found.State == setting.Known && strings.Contains(found.Value, mark) {
		b.add(plan.Change{}, "sriov.blacklist", "The host loads "+module+" again", at, setting.NotThere(), goal.None,
			"no functions are left for it")
	}
}

// folder plans a directory if it does not exist.
func (b *builder) folder(name string) {
	at := setting.Of(setting.Directory, name)
	if b.h.Readings.At(at).State == setting.Absent {
		b.add(plan.Change{}, "sriov.directory", "Directory /"+name, at, setting.Any("present", "shared"), goal.None,
			"a file of mpps needs it")
	}
}

// noteOthers returns notes about what else creates functions of this NIC at boot: the last one wins.
func (b *builder) noteOthers() []Note {
	if b.h.Housekeeping == nil {
		return nil
	}
	var all []Note
	for _, f := range b.h.Housekeeping.VFFiles {
		if f.Device == b.nic.Name && !strings.Contains(f.Path, "mpps") {
			all = append(all, Note{"made-twice", f.Path + " makes functions of " + f.Device + " at boot too",
				"one of the two is enough: remove it, or use --persist none"})
		}
	}
	return all
}

// unreserve plans the removal of the reservations of functions that will no longer exist.
func (b *builder) unreserve(count int) {
	for _, r := range slices.Concat(b.h.Reservations, b.h.Leaving) {
		if r.PF != b.nic.Name || r.Network != "" || r.Index < count {
			continue
		}
		because := words.Either(r.Leaving, "it goes, and the guest has left it", "it goes, and --force was given")
		b.add(plan.Change{}, "sriov.reservation", fmt.Sprintf("Function %d is no longer given to guest %s", r.Index,
			r.Guest), r.Address(), setting.NotThere(), goal.None, because)
	}
}
