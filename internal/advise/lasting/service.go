package lasting

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Two services restore values: mpps-restore.service whenever something has reset them, and mpps-vfs.service once at
// boot, those that create VFs, early enough for guests and networks that need one.

// OfVFs reports whether a value is about VFs: their number, their attributes, and what must be set before they are
// created.
func OfVFs(a setting.Address) bool {
	switch a.Kind {
	case setting.VFCount, setting.VFAttr, setting.NICState:
		return true
	}
	return a.Kind == setting.Sysfs && strings.HasSuffix(a.Path, "/sriov_drivers_autoprobe")
}

// PF returns the PF that such a value belongs to.
func PF(a setting.Address) string {
	if a.Kind == setting.Sysfs {
		return setting.Address{Path: strings.TrimPrefix(a.Path, "class/net/")}.Object()
	}
	return a.Object()
}

// keeper says what restores a value.
func (b *builder) keeper(a setting.Address) string {
	name := words.Either(OfVFs(a), VFsName, UnitName)
	switch {
	case !b.host.Lasting.Systemd:
		return "put back by 'mpps restore --watch', which has to be started at boot: systemd is not the init system " +
			"here"
	case b.host.Lasting.Program == "" && !b.host.Lasting.Packaged:
		return "put back by " + name + ", where that is installed"
	}
	return "put back by " + name
}

// dropForgotten returns the values of the list that no change forgets. A lower number of VFs forgets all attributes of
// those that go.
func (b *builder) dropForgotten(values []Value) []Value {
	return slices.DeleteFunc(slices.Clone(values), func(v Value) bool {
		return b.kept[v.Address] || slices.ContainsFunc(b.plan.Changes,
			func(c plan.Change) bool { return forgets(c, v.Address) })
	})
}

// forgets reports whether a change removes the value of another address from the list.
func forgets(c plan.Change, a setting.Address) bool {
	switch {
	case c.Address.Kind == setting.VFCount && c.Forget && c.To.Value == "0":
		return OfVFs(a) && PF(a) == c.Address.Object()
	case c.Address.Kind != setting.VFCount || a.Kind != setting.VFAttr || a.Object() != c.Address.Object():
		return false
	}
	left, err := strconv.Atoi(c.To.Value)
	number, _, _ := strings.Cut(a.Rest(), "/")
	n, bad := strconv.Atoi(number)
	return err == nil && bad == nil && n >= left
}

// addServices plans the units if systemd runs. Units from a package are only enabled. The one that creates VFs at boot
// is not started: the VFs exist.
func (b *builder) addServices(values []Value) {
	l := b.host.Lasting
	if !l.Systemd || l.Program == "" && !l.Packaged {
		return
	}
	vfs := slices.ContainsFunc(values, func(v Value) bool { return OfVFs(v.Address) })
	if !l.Packaged {
		if text, why := b.writableText(unitFile); why == "" && text == "" {
			b.addFolder("unit", unitFolder)
			b.add("unit", "Service that puts values back", "it watches devices and guests", unitFile,
				setting.Exact(unitText(unitTemplate, l.Program)))
		}
		if text, why := b.writableText(vfsFile); why == "" && text == "" && vfs {
			b.add("vfs-unit", "Service that makes virtual functions at boot",
				"they are there before libvirt starts guests", vfsFile, setting.Exact(unitText(vfsTemplate, l.Program)))
		}
	}
	b.addFolder("service", wantsFolder)
	b.add("service", "Enable and start "+UnitName, "values are put back within two seconds", unitAddress,
		setting.Exact("enabled"))
	if vfs {
		b.add("vfs-service", "Enable "+VFsName, "functions come back with the next boot", vfsAddress,
			setting.Any("idle", "enabled"))
		return
	}
	b.removeService(vfsAddress, vfsFile)
}

// A VF that was given to a guest needs the service even if none of its values is kept: what that guest did to it would
// otherwise be there for the next one.

// isReservation reports whether an address is a file that says which guest a VF was given to.
func isReservation(a setting.Address) bool {
	return a.Kind == setting.File && path.Dir(a.Path) == setting.Reservations
}

// reserves reports whether the plan gives a VF to a guest (to Known) or takes one back (to Absent).
func (b *builder) reserves(to setting.State) bool {
	return slices.ContainsFunc(b.plan.Changes,
		func(c plan.Change) bool { return isReservation(c.Address) && c.To.State == to })
}

// hasReservations reports whether a guest has a VF once the plan is applied.
func (b *builder) hasReservations() bool {
	has := map[setting.Address]bool{}
	for _, r := range slices.Concat(b.host.Reservations, b.host.Leaving) {
		has[r.Address()] = true
	}
	for _, c := range b.plan.Changes {
		if isReservation(c.Address) {
			has[c.Address] = c.To.State == setting.Known
		}
	}
	return slices.Contains(slices.Collect(maps.Values(has)), true)
}

// removeList plans to remove the list, and the services with it.
func (b *builder) removeList() {
	b.removeService(vfsAddress, vfsFile)
	if !b.hasReservations() {
		b.removeService(unitAddress, unitFile)
	}
	b.add("desired", "Values to be put back", "none are left", desiredAddress, setting.NotThere())
}

// removeService plans to disable a service and to remove its file if mpps wrote that.
func (b *builder) removeService(unit, file setting.Address) {
	if b.host.Readings.At(unit).State == setting.Known {
		b.add(strings.TrimSuffix(unit.Path, ".service")+".service", "Disable "+unit.Path,
			"nothing is left for it to do", unit, setting.NotThere())
	}
	if text, why := b.writableText(file); why == "" && text != "" {
		b.add(strings.TrimSuffix(unit.Path, ".service")+".unit", "Remove "+unit.Path, "nothing is left for it to do",
			file, setting.NotThere())
	}
}
