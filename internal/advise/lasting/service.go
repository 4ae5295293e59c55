package lasting

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/setting"
)

// Two services put values back: mpps-restore.service whenever something has reset them, and mpps-vfs.service once, at
// boot, those by which virtual functions come into being, early enough for guests and networks that need one.

// OfVFs reports whether a value is one of those that make virtual functions what they are: their number, their
// attributes, and what must hold before they are made.
func OfVFs(a setting.Address) bool {
	switch a.Kind {
	case setting.VFCount, setting.VFAttr, setting.NICState:
		return true
	}
	return a.Kind == setting.Sysfs && strings.HasSuffix(a.Path, "/sriov_drivers_autoprobe")
}

// PF is the physical function that such a value belongs to.
func PF(a setting.Address) string {
	if a.Kind == setting.Sysfs {
		return setting.Address{Path: strings.TrimPrefix(a.Path, "class/net/")}.Object()
	}
	return a.Object()
}

// keeper says what puts a value back.
func (b *builder) keeper(a setting.Address) string {
	name := UnitName
	if OfVFs(a) {
		name = VFsName
	}
	switch {
	case !b.host.Lasting.Systemd:
		return "put back by 'mpps restore --watch', which has to be started at boot: systemd is not the init system " +
			"here"
	case b.host.Lasting.Program == "" && !b.host.Lasting.Packaged:
		return "put back by " + name + ", where that is installed"
	}
	return "put back by " + name
}

// unforgotten are the values of the list that no change forgets. With the number of functions go all attributes of
// those that there are then no more.
func (b *builder) unforgotten(values []Value) []Value {
	return slices.DeleteFunc(slices.Clone(values), func(v Value) bool {
		return b.kept[v.Address] || slices.ContainsFunc(b.plan.Changes,
			func(c plan.Change) bool { return forgets(c, v.Address) })
	})
}

// forgets reports whether a change takes the value of another address out of the list.
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

// services plans the units where systemd runs. Those that a package brings are only enabled. The one that makes
// functions at boot is not started: they are there.
func (b *builder) services(values []Value) {
	l := b.host.Lasting
	if !l.Systemd || l.Program == "" && !l.Packaged {
		return
	}
	vfs := slices.ContainsFunc(values, func(v Value) bool { return OfVFs(v.Address) })
	if !l.Packaged {
		if text, why := b.usable(fileAddress); why == "" && text == "" {
			b.folder("unit", unitFolder)
			b.add("unit", "Service that puts values back", "it watches devices and guests", fileAddress,
				setting.Exact(unitText(unitTemplate, l.Program)))
		}
		if text, why := b.usable(vfsFile); why == "" && text == "" && vfs {
			b.add("vfs-unit", "Service that makes virtual functions at boot",
				"they are there before libvirt starts guests", vfsFile, setting.Exact(unitText(vfsTemplate, l.Program)))
		}
	}
	b.folder("service", wantsFolder)
	b.add("service", "Enable and start "+UnitName, "values are put back within two seconds", unitAddress,
		setting.Exact("enabled"))
	if vfs {
		b.add("vfs-service", "Enable "+VFsName, "functions come back with the next boot", vfsAddress,
			setting.Any("idle", "enabled"))
		return
	}
	b.without(vfsAddress, vfsFile)
}

// A function that is given to a guest and of which nothing is kept needs the service too: what the guest has done to it
// is there for the next one otherwise.

// reservation reports whether an address is one that says to whom a function was given.
func reservation(a setting.Address) bool {
	return a.Kind == setting.File && path.Dir(a.Path) == setting.Reservations
}

// gives reports whether the plan gives a function to a guest.
func (b *builder) gives() bool {
	return slices.ContainsFunc(b.plan.Changes, func(c plan.Change) bool {
		return reservation(c.Address) &&
			c.To.State == setting.Known
	})
}

// takesBack reports whether the plan takes one back.
func (b *builder) takesBack() bool {
	return slices.ContainsFunc(b.plan.Changes, func(c plan.Change) bool {
		return reservation(c.Address) &&
			c.To.State == setting.Absent
	})
}

// given reports whether a guest has one once the plan is carried out.
func (b *builder) given() bool {
	has := map[setting.Address]bool{}
	for _, r := range slices.Concat(b.host.Reservations, b.host.Leaving) {
		has[r.Address()] = true
	}
	for _, c := range b.plan.Changes {
		if reservation(c.Address) {
			has[c.Address] = c.To.State == setting.Known
		}
	}
	return slices.Contains(slices.Collect(maps.Values(has)), true)
}

// nothingLeft plans that the list goes, and with it the services.
func (b *builder) nothingLeft() {
	b.without(vfsAddress, vfsFile)
	if !b.given() {
		b.without(unitAddress, fileAddress)
	}
	b.add("desired", "Values to be put back", "none are left", desiredAddress, setting.NotThere())
}

// without plans that a service goes, with its file where mpps has written it.
func (b *builder) without(unit, file setting.Address) {
	if b.host.Readings.At(unit).State == setting.Known {
		b.add(strings.TrimSuffix(unit.Path, ".service")+".service", "Disable "+unit.Path,
			"nothing is left for it to do", unit, setting.NotThere())
	}
	if text, why := b.usable(file); why == "" && text != "" {
		b.add(strings.TrimSuffix(unit.Path, ".service")+".unit", "Remove "+unit.Path, "nothing is left for it to do",
			file, setting.NotThere())
	}
}
