// Package lasting makes applied values last: for each change it plans what sets the value again after a reboot, an
// ifup, a driver reload or a guest start. Kernel and module parameters go where an administrator would put them,
// everything else into the list of desired values that mpps-restore.service restores. Every file is itself a change,
// with its content before and after, so that a rollback leaves nothing behind. The package is pure.
package lasting

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// The files of mpps on a host.
const (
	SysctlFile  = "etc/sysctl.d/90-mpps.conf"
	ModuleFile  = "etc/modprobe.d/90-mpps.conf"
	DesiredFile = "var/lib/mpps/desired.json"
	UnitName    = "mpps-restore.service"
	UnitFile    = "etc/systemd/system/" + UnitName
	VFsName     = "mpps-vfs.service"
	VFsFile     = "etc/systemd/system/" + VFsName
	WatchName   = "mpps-watch.service"
	WatchFile   = "etc/systemd/system/" + WatchName
)

// family is the prefix of the IDs of changes that make others last.
const family = "lasting."

// What a plan must know about a host.
var (
	sysctlAddress  = setting.Of(setting.File, SysctlFile)
	moduleAddress  = setting.Of(setting.File, ModuleFile)
	desiredAddress = setting.Of(setting.File, DesiredFile)
	unitFile       = setting.Of(setting.File, UnitFile)
	unitAddress    = setting.Of(setting.Unit, UnitName)
	vfsFile        = setting.Of(setting.File, VFsFile)
	vfsAddress     = setting.Of(setting.Unit, VFsName)
	watchFile      = setting.Of(setting.File, WatchFile)
	watchAddress   = setting.Of(setting.Unit, WatchName)
	sysctlFolder   = setting.Of(setting.Directory, path.Dir(SysctlFile))
	moduleFolder   = setting.Of(setting.Directory, path.Dir(ModuleFile))
	unitFolder     = setting.Of(setting.Directory, path.Dir(UnitFile))
	wantsFolder    = setting.Of(setting.Directory, setting.WantsFolder)
)

// Addresses returns what must be read before Add.
func Addresses() []setting.Address {
	return []setting.Address{
		sysctlFolder, sysctlAddress, moduleFolder, moduleAddress, desiredAddress, unitFolder, unitFile, vfsFile,
		wantsFolder, unitAddress, vfsAddress, watchFile, watchAddress,
	}
}

// MakesLast reports whether the change with an ID makes others last.
func MakesLast(id string) bool { return strings.HasPrefix(id, family) }

// way is how values of a kind are made to last.
type way int

const (
	byItself way = iota // they last anyway, or nothing here makes them last
	bySysctl
	byModule
	byRestore
)

// ways has every kind, so that a new one says how its values last (TestEachKindHasAWay).
var ways = map[setting.Kind]way{
	setting.Sysctl: bySysctl, setting.ModuleParam: byModule,
	setting.Sysfs: byRestore, setting.SysfsCPUs: byRestore, setting.NICRing: byRestore, setting.NICChannels: byRestore,
	setting.NICCoalesce: byRestore, setting.NICFeature: byRestore, setting.NICFlowHash: byRestore,
	setting.NICFlag:     byRestore,
	setting.IRQAffinity: byRestore, setting.IRQCPUs: byRestore, setting.ThreadAffinity: byRestore,
	setting.ThreadSched: byRestore, setting.ThreadCPUs: byRestore, setting.KSM: byRestore, setting.Swap: byRestore,
	setting.TraceEvents: byRestore, setting.NetfilterRule: byRestore, setting.Service: byRestore,
	setting.VFAttr: byRestore, setting.VFCount: byRestore, setting.NICState: byRestore, setting.QueueLanes: byRestore,
	setting.RootQdisc: byRestore,

	// in Open vSwitch's database, in libvirt's, the boot loader's or systemd's own files, and what goes with a guest
	// that runs or a transaction
	setting.Domain: byItself, setting.DomainDevice: byItself, setting.DomainLive: byItself,
	setting.VirtNetwork: byItself, setting.RuleSet: byItself, setting.PCIDriver: byItself, setting.KernelArg: byItself,
	setting.BootKernel: byItself, setting.File: byItself, setting.Directory: byItself, setting.Unit: byItself,
	setting.Inside: byItself, setting.GuestArg: byItself, setting.Fact: byItself, setting.OVSDB: byItself,
}

// volatile reports whether a parameter comes and goes with a device or module: sysctl.d is read once at boot (and for
// devices by udev), so the service restores it too.
func volatile(a setting.Address) bool {
	if a.Kind == setting.ModuleParam {
		return true
	}
	key := setting.SysctlPath(a.Path)
	if slices.ContainsFunc([]string{"net/bridge/", "net/netfilter/", "net/nf_conntrack"},
		func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
		return true
	}
	elements := strings.Split(key, "/")
	return len(elements) == 5 && elements[0] == "net" && (elements[2] == "conf" || elements[2] == "neigh") &&
		elements[3] != "all" && elements[3] != "default"
}

// Add appends what makes the changes of a plan last, after them: a file is written only once all values were accepted.
// Each change then names what keeps it and who else sets it. A change that brings its own keeper (a .link file) is left
// out, and what a change forgets is removed from the list of desired values. h must have readings of Addresses. A file
// that cannot be read or was not written by mpps is not written to, and the changes say so. standing are values set by
// earlier applies: those that nothing keeps yet (apply --runtime-only) are made to last too, if they still hold.
func Add(p *plan.Plan, h *facts.Host, standing ...plan.Change) error {
	setOwners(p, h)
	if h.Lasting == nil {
		return nil // a snapshot of a version that did not record it
	}
	leaveToTuned(p, h)
	b := builder{plan: p, host: h, kept: map[setting.Address]bool{}}
	for _, c := range p.Changes {
		b.kept[c.Address] = c.Kept != "" || c.Forget
	}
	for _, c := range standing {
		// whoever made the VFs decided how they come back
		chosen := OfVFs(c.Address) && c.Address.Kind != setting.VFAttr
		if !MakesLast(c.ID) && !chosen && c.Want.Met(h.Readings.At(c.Address)) &&
			!slices.ContainsFunc(p.Changes, func(n plan.Change) bool { return n.Address == c.Address }) {
			b.standing = append(b.standing, c)
		}
	}
	b.addSysctls()
	b.addModules()
	if err := b.addDesired(); err != nil {
		return err
	}
	p.Seal()
	return nil
}

// Strip removes what makes the changes last: they then hold as long as the kernel keeps them.
func Strip(p *plan.Plan) {
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool { return MakesLast(c.ID) })
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Kept, c.Lasts = "", setting.Kinds[c.Address.Kind].Lasts
	}
	p.Seal()
}

type builder struct {
	plan     *plan.Plan
	host     *facts.Host
	standing []plan.Change            // values of earlier applies
	kept     map[setting.Address]bool // the change names its own keeper, or is not to be kept
}

// add plans one change that makes others last, unless it is in effect already.
func (b *builder) add(id, title, because string, a setting.Address, want setting.Want) {
	from := b.host.Readings.At(a)
	if want.Met(from) {
		return
	}
	b.plan.Changes = append(b.plan.Changes, plan.Change{
		ID: family + id, Address: a, From: from, To: want.Target(), Want: want, Risk: goal.None,
		Lasts: setting.AcrossReboot, Because: because, Severity: knob.Info, Title: title, Stage: datapath.Kernel,
	})
}

// changes returns the changes of the plan and the standing ones that are made to last in one way.
func (b *builder) changes(by way) []*plan.Change {
	var all []*plan.Change
	for i := range b.plan.Changes {
		c := &b.plan.Changes[i]
		if ways[c.Address.Kind] == by && !MakesLast(c.ID) && !(b.kept[c.Address] && by != byRestore) &&
			!plan.IsPlatforms(b.host, c.Address) {
			all = append(all, c)
		}
	}
	for i := range b.standing {
		if c := &b.standing[i]; ways[c.Address.Kind] == by && !plan.IsPlatforms(b.host, c.Address) {
			all = append(all, c)
		}
	}
	return all
}

// writableText returns the text of a file that mpps may write: one that is absent or that it wrote itself. Otherwise
// why says why it may not.
func (b *builder) writableText(a setting.Address) (text string, why string) {
	found := b.host.Readings.At(a)
	switch {
	case found.State == setting.Unknown:
		return "", fmt.Sprintf("/%s cannot be read: %s", a.Path, found.Why)
	case found.State == setting.Absent:
		return "", ""
	case !strings.Contains(found.Value, mark):
		return "", fmt.Sprintf("/%s is there and was not written by mpps", a.Path)
	}
	return found.Value, ""
}

// addLines plans a file with one line for each change.
func (b *builder) addLines(id, title string, folder, a setting.Address, header string, all []*plan.Change,
	line func(plan.Change) (key, text string)) {
	if len(all) == 0 {
		return
	}
	text, why := b.writableText(a)
	if why != "" {
		for _, c := range all {
			c.Kept = "not kept: " + why
		}
		return
	}
	if text == "" {
		text = header
	}
	for _, c := range all {
		key, wanted := line(*c)
		text = setLine(text, key, wanted)
		c.Lasts, c.Kept = setting.AcrossReboot, "/"+a.Path
	}
	because := fmt.Sprintf("sets %s again at boot", knob.Count(len(all), "value"))
	b.addFolder(id, folder)
	b.add(id, title, because, a, setting.Exact(text))
}

// addFolder plans a directory unless it exists.
func (b *builder) addFolder(id string, a setting.Address) {
	if b.host.Readings.At(a).State == setting.Absent {
		b.add(id+".directory", "Directory /"+a.Path, "a file of mpps needs it", a, setting.Any("present", "shared"))
	}
}

func (b *builder) addSysctls() {
	b.addLines("sysctl", "Kernel parameters at boot", sysctlFolder, sysctlAddress, sysctlHeader, b.changes(bySysctl),
		func(c plan.Change) (string, string) {
			return setting.SysctlPath(c.Address.Path), c.Address.Path + " = " + c.To.Value
		})
}

func (b *builder) addModules() {
	b.addLines("module", "Module parameters when a module is loaded", moduleFolder, moduleAddress, moduleHeader,
		b.changes(byModule), func(c plan.Change) (string, string) {
			return "options " + c.Address.Object() + " " + c.Address.Rest(), "options " + c.Address.Object() + " " +
				c.Address.Rest() + "=" + c.To.Value
		})
}
