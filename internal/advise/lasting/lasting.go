// Package lasting makes applied values last: it plans, beside each change, what sets the value again after a reboot, an
// ifup, a driver's reload or a guest's start. Kernel parameters and module parameters go where an administrator would
// put them, everything else into the list of desired values that mpps-restore.service puts back. Every file is itself a
// change, with its bytes before and after, so that a rollback leaves nothing behind. The package is pure.
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

// family begins the IDs of the changes that make others last.
const family = "lasting."

// the addresses whose values a plan needs to know.
var (
	sysctlAddress  = setting.Of(setting.File, SysctlFile)
	moduleAddress  = setting.Of(setting.File, ModuleFile)
	desiredAddress = setting.Of(setting.File, DesiredFile)
	fileAddress    = setting.Of(setting.File, UnitFile)
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

// Addresses lists what must be read before Add.
func Addresses() []setting.Address {
	return []setting.Address{
		sysctlFolder, sysctlAddress, moduleFolder, moduleAddress, desiredAddress, unitFolder, fileAddress, vfsFile,
		wantsFolder, unitAddress, vfsAddress, watchFile, watchAddress,
	}
}

// Of reports whether a change is one of those that make others last.
func Of(id string) bool { return strings.HasPrefix(id, family) }

// way is how values of a kind are made to last.
type way int

const (
	byItself way = iota // they last, or nothing here makes them last
	bySysctl
	byModule
	byRestore
)

var ways = map[setting.Kind]way{
	setting.Sysctl: bySysctl, setting.ModuleParam: byModule,
	setting.Sysfs: byRestore, setting.SysfsCPUs: byRestore, setting.NICRing: byRestore, setting.NICChannels: byRestore,
	setting.NICCoalesce: byRestore, setting.NICFeature: byRestore, setting.NICFlowHash: byRestore,
	setting.IRQAffinity: byRestore,
	setting.IRQCPUs:     byRestore, setting.ThreadAffinity: byRestore, setting.ThreadSched: byRestore,
	setting.ThreadCPUs: byRestore, setting.KSM: byRestore,
	setting.Swap: byRestore, setting.TraceEvents: byRestore, setting.NetfilterRule: byRestore,
	setting.Service: byRestore,
	setting.VFAttr:  byRestore, setting.VFCount: byRestore, setting.NICState: byRestore, setting.QueueLanes: byRestore,
	setting.RootQdisc: byRestore,
}

// volatile reports whether a kernel parameter comes and goes with a device or a module: sysctl.d is read once at boot
// (and for devices by udev), so it is put back by the service too.
func volatile(a setting.Address) bool {
	if a.Kind == setting.ModuleParam {
		return true
	}
	key := setting.SysctlPath(a.Path)
	for _, prefix := range []string{"net/bridge/", "net/netfilter/", "net/nf_conntrack"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	elements := strings.Split(key, "/")
	return len(elements) == 5 && elements[0] == "net" && (elements[2] == "conf" || elements[2] == "neigh") &&
		elements[3] != "all" && elements[3] != "default"
}

// Add plans what makes a plan's changes last, behind them: a file is written only once every value has proved to be
// taken. It names in each change what keeps it, and who else sets it; a change that comes with what keeps it (a .link
// file) is left out. What a change forgets is taken out of the list of values that are put back. h must hold readings
// of Addresses; where a file cannot be read or is not written by mpps nothing is written to it, and the changes say so.
// standing are values that earlier applies have given: what nothing makes last yet (apply --runtime-only) is made to
// last too where it still stands.
func Add(p *plan.Plan, h *facts.Host, standing ...plan.Change) error {
	owned(p, h)
	if h.Lasting == nil {
		return nil // a snapshot of a version that did not look
	}
	leaveToTuned(p, h)
	b := builder{plan: p, host: h, kept: map[setting.Address]bool{}}
	for _, c := range p.Changes {
		b.kept[c.Address] = c.Kept != "" || c.Forget
	}
	for _, c := range standing {
		// who made functions said how they are to come back
		chosen := OfVFs(c.Address) && c.Address.Kind != setting.VFAttr
		if !Of(c.ID) && !chosen && c.Want.Met(h.Readings.At(c.Address)) &&
			!slices.ContainsFunc(p.Changes, func(n plan.Change) bool { return n.Address == c.Address }) {
			b.standing = append(b.standing, c)
		}
	}
	b.sysctls()
	b.modules()
	if err := b.desired(); err != nil {
		return err
	}
	p.Seal()
	return nil
}

// Strip takes out what makes the changes last: they then stay as long as the kernel keeps them.
func Strip(p *plan.Plan) {
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool { return Of(c.ID) })
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Kept, c.Lasts = "", setting.Kinds[c.Address.Kind].Lasts
	}
	p.Seal()
}

type builder struct {
	plan     *plan.Plan
	host     *facts.Host
	standing []plan.Change            // given by earlier applies
	kept     map[setting.Address]bool // by something that the change itself names, or not to be kept at all
}

// add plans one change of what makes others last; nothing where it stands already.
func (b *builder) add(id, title, because string, a setting.Address, want setting.Want) {
	from := b.host.Readings.At(a)
	if want.Met(from) {
		return
	}
	b.plan.Changes = append(b.plan.Changes, plan.Change{
		ID: family + id, Address: a, From: from, To: want.Target(), Want: want, Risk: goal.None,
		Lasts:   setting.AcrossReboot,
		Because: because, Severity: knob.Info, Title: title, Stage: datapath.Kernel,
	})
}

// changes are those of the plan, and those that stand already, that are made to last in a way.
func (b *builder) changes(by way) []*plan.Change {
	var all []*plan.Change
	for i := range b.plan.Changes {
		c := &b.plan.Changes[i]
		if ways[c.Address.Kind] == by && !Of(c.ID) && !(b.kept[c.Address] && by != byRestore) {
			all = append(all, c)
		}
	}
	for i := range b.standing {
		if c := &b.standing[i]; ways[c.Address.Kind] == by {
			all = append(all, c)
		}
	}
	return all
}

// usable is the text of a file that may be written: one that is not there, or that mpps has written.
func (b *builder) usable(a setting.Address) (text string, why string) {
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

// lines writes changes into a file of one line each.
func (b *builder) lines(id, title string, folder, a setting.Address, header string, all []*plan.Change,
	line func(plan.Change) (key, text string)) {
	if len(all) == 0 {
		return
	}
	text, why := b.usable(a)
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
	because := fmt.Sprintf("sets %s again at boot", count(len(all), "value"))
	b.folder(id, folder)
	b.add(id, title, because, a, setting.Exact(text))
}

// folder plans a directory that is not there.
func (b *builder) folder(id string, a setting.Address) {
	if b.host.Readings.At(a).State == setting.Absent {
		b.add(id+".directory", "Directory /"+a.Path, "a file of mpps needs it", a, setting.Any("present", "shared"))
	}
}

func (b *builder) sysctls() {
	b.lines("sysctl", "Kernel parameters at boot", sysctlFolder, sysctlAddress, sysctlHeader, b.changes(bySysctl),
		func(c plan.Change) (string, string) {
			return setting.SysctlPath(c.Address.Path), c.Address.Path + " = " + c.To.Value
		})
}

func (b *builder) modules() {
	b.lines("module", "Module parameters when a module is loaded", moduleFolder, moduleAddress, moduleHeader,
		b.changes(byModule), func(c plan.Change) (string, string) {
			return "options " + c.Address.Object() + " " + c.Address.Rest(), "options " + c.Address.Object() + " " +
				c.Address.Rest() + "=" + c.To.Value
		})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
