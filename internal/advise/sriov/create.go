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
)

// Persist says what makes virtual functions again at boot.
type Persist string

// The ways.
const (
	ByUnit  Persist = "unit" // mpps-vfs.service, from the list of desired values
	ByLink  Persist = "link" // udev, from a .link file (systemd.link(5))
	ByNoOne Persist = "none"
)

// Note is something to know about changes that does not stand in their way.
type Note struct{ Code, Text, Hint string }

// CreateAsk is what is asked of create.
type CreateAsk struct {
	PF           string
	Count        int
	NoHostDriver bool // drivers of the host do not look for functions
	Blacklist    bool // the host does not load the functions' driver by itself
	LeaveDown    bool // the physical function is not brought up
	Force        bool // also what is only reserved is taken away
	Persist      Persist
	Link         LinkFile // what udev does with the physical function; asked for with ByLink
}

// BlacklistFile is the file that keeps a driver of virtual functions from being loaded by itself.
func BlacklistFile(module string) setting.Address {
	return setting.Of(setting.File, "etc/modprobe.d", "90-mpps-vf-"+module+".conf")
}

// CreateReads lists what must be read before Create and Destroy.
func CreateReads(h *facts.Host, pf string) []setting.Address {
	all := []setting.Address{
		setting.AutoProbe(pf), setting.Of(setting.NICState, pf), setting.Of(setting.VFCount, pf),
		setting.Of(setting.Directory, "etc/modprobe.d"), setting.Of(setting.Directory, path.Dir(linkFile(pf).Path)),
		linkFile(pf),
	}
	if n := nic(h, pf); n != nil {
		if module := facts.VFDriver(n.Driver); module != "" {
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

// Create gives a physical function as many virtual ones as are asked for, with what must hold before they are made
// ahead of their number. Where it has another number they are taken away and remade.
func Create(h *facts.Host, ask CreateAsk) ([]plan.Change, []Note, error) {
	n, err := physical(h, ask.PF)
	if err != nil {
		return nil, nil, err
	}
	most, says := facts.VFMost(n.Driver, n.SRIOV.Total, 0)
	if ask.Count == 0 {
		return nil, nil, &Refused{Why: n.Name + ": expected 1 virtual function or more, found 0",
			Advice: "'mpps sriov destroy " + n.Name + "' takes them away"}
	}
	if ask.Count < 1 || ask.Count > most {
		return nil, nil, &Refused{Why: fmt.Sprintf("%s: expected 1 to %d virtual functions (%s), found %d", n.Name,
			most, says, ask.Count), Advice: "'mpps sriov check' tells what the card, its firmware and the host allow"}
	}
	notes, err := inTheWay(h, n, ask.Count, ask.Force)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{h: h, nic: n}
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
	// also where it is up: at the next boot functions come before the network is set up
	if facts.VFNeedsUp(n.Driver) && !ask.LeaveDown {
		b.add(plan.Change{Forget: forget}, "sriov.up", "The physical function is up",
			setting.Of(setting.NICState, n.Name), setting.Exact("up"), goal.Blip, "virtual functions of "+n.Driver+
				" have no link while it is down")
	}
	b.add(plan.Change{Forget: forget, Kept: kept}, "sriov.count", "Virtual functions of "+n.Name,
		setting.Of(setting.VFCount, n.Name), setting.Exact(strconv.Itoa(ask.Count)), b.risk(goal.Blip),
		"asked for by name")
	b.unreserve(ask.Count)
	notes = append(notes, b.others()...)
	return b.done(notes)
}

// Destroy takes all virtual functions of a physical one away, and what would make them again at boot.
func Destroy(h *facts.Host, pf string, force bool) ([]plan.Change, []Note, error) {
	n, err := physical(h, pf)
	if err != nil {
		return nil, nil, err
	}
	notes, err := inTheWay(h, n, 0, force)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{h: h, nic: n}
	b.add(plan.Change{Forget: true}, "sriov.count", "Virtual functions of "+n.Name, setting.Of(setting.VFCount, n.Name),
		setting.Exact("0"), b.risk(goal.Blip), "asked for by name")
	if h.Readings.At(setting.AutoProbe(n.Name)).State == setting.Known {
		b.add(plan.Change{Forget: true}, "sriov.autoprobe", "Drivers of the host look for virtual functions",
			setting.AutoProbe(n.Name), setting.Exact("1"), goal.None, "as the kernel has it")
	}
	b.noLink()
	b.noBlacklist()
	b.unreserve(0)
	return b.done(notes)
}

// physical is the physical function of a name, or why it is none.
func physical(h *facts.Host, name string) (*facts.NIC, error) {
	n := nic(h, name)
	switch {
	case n == nil:
		return nil, &Refused{Why: "there is no NIC " + name, Advice: "'mpps inspect' lists the NICs" + able(h)}
	case n.PhysFn != "":
		return nil, &Refused{Why: fmt.Sprintf("%s is a virtual function of %s", name, n.PhysFn),
			Advice: "name the physical function"}
	case n.SRIOV == nil || n.SRIOV.Total == 0:
		return nil, &Refused{Why: name + " has no virtual functions to offer: sriov_totalvfs is 0 or not there",
			Advice: "'mpps sriov check' tells whether the card, its firmware or the host is in the way" + able(h)}
	}
	return n, nil
}

func nic(h *facts.Host, name string) *facts.NIC {
	for i := range h.NICs {
		if h.NICs[i].Name == name {
			return &h.NICs[i]
		}
	}
	return nil
}

// able names the NICs that can have virtual functions.
func able(h *facts.Host) string {
	var names []string
	for _, n := range h.NICs {
		if n.SRIOV != nil && n.SRIOV.Total > 0 && n.PhysFn == "" {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; those that can have virtual functions: " + strings.Join(names, ", ")
}

// builder collects the changes of a verb.
type builder struct {
	h       *facts.Host
	nic     *facts.NIC
	changes []plan.Change
	err     error
}

// done is what a verb comes to.
func (b *builder) done(notes []Note) ([]plan.Change, []Note, error) {
	if b.err != nil {
		return nil, nil, b.err
	}
	return b.changes, notes, nil
}

// risk is that of a change that sets the NIC up again: the operator's way in can be cut.
func (b *builder) risk(otherwise goal.Risk) goal.Risk {
	if b.nic.Management != "" {
		return goal.Connectivity
	}
	return otherwise
}

// add plans one change, with what kept says of how it lasts.
func (b *builder) add(kept plan.Change, id, title string, a setting.Address, want setting.Want, risk goal.Risk,
	because string) {
	c, err := change(b.h, id, title, a, want, risk, because)
	if err != nil {
		if b.err == nil {
			b.err = err
		}
		return
	}
	if c.From.State == setting.Unknown && b.err == nil {
		b.err = &Refused{Why: fmt.Sprintf("%s cannot be read: %s", a, c.From.Why)}
	}
	c.Forget, c.Kept = kept.Forget, kept.Kept
	if c.Kept != "" {
		c.Lasts = setting.AcrossReboot
	}
	b.changes = append(b.changes, c)
}

// blacklist plans the file that keeps the functions' driver from being loaded by itself.
func (b *builder) blacklist() error {
	module := facts.VFDriver(b.nic.Driver)
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
		return &Refused{Why: fmt.Sprintf("/%s is there and was not written by mpps", at.Path)}
	}
	b.folder("etc/modprobe.d")
	b.add(plan.Change{}, "sriov.blacklist", "The host does not load "+module+" by itself", at,
		setting.Exact(fmt.Sprintf(blacklistText, module)), goal.None, "the functions are for guests")
	return nil
}

// mark stands in every file that mpps writes.
const mark = "Written by mpps"

const blacklistText = `# Written by mpps: 'mpps sriov create --blacklist' keeps this host from loading the driver of virtual functions by itself.
# Undo: 'mpps rollback', or 'mpps sriov destroy'. 'modprobe NAME' loads it all the same.
blacklist %s
`

// noBlacklist plans that the file goes, unless another physical function has virtual ones of the same driver.
func (b *builder) noBlacklist() {
	module := facts.VFDriver(b.nic.Driver)
	if module == "" {
		return
	}
	for _, n := range b.h.NICs {
		if n.Name != b.nic.Name && n.SRIOV != nil && n.SRIOV.Enabled > 0 && facts.VFDriver(n.Driver) == module {
			return
		}
	}
	at := BlacklistFile(module)
	if found := b.h.Readings.At(at); found.State == setting.Known && strings.Contains(found.Value, mark) {
		b.add(plan.Change{}, "sriov.blacklist", "The host loads "+module+" again", at, setting.NotThere(), goal.None,
			"no functions are left for it")
	}
}

// folder plans a directory that is not there.
func (b *builder) folder(name string) {
	at := setting.Of(setting.Directory, name)
	if b.h.Readings.At(at).State == setting.Absent {
		b.add(plan.Change{}, "sriov.directory", "Directory /"+name, at, setting.Any("present", "shared"), goal.None,
			"a file of mpps needs it")
	}
}

// others notes what else makes functions of this NIC at boot: who is last wins.
func (b *builder) others() []Note {
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

// unreserve takes out the reservations of functions that will not be there; those of the others stay.
func (b *builder) unreserve(count int) {
	for _, r := range slices.Concat(b.h.Reservations, b.h.Leaving) {
		if r.PF != b.nic.Name || r.Network != "" || r.Index < count {
			continue
		}
		because := "it goes, and --force was given"
		if r.Leaving {
			because = "it goes, and the guest has left it"
		}
		b.add(plan.Change{}, "sriov.reservation", fmt.Sprintf("Function %d is no longer given to guest %s", r.Index,
			r.Guest), r.Address(), setting.NotThere(), goal.None, because)
	}
}
