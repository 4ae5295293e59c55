package apply

import (
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Reset says that an object (empty: every one) was set up again a moment ago, or with again that it was made.
func (r *Restorer) Reset(object string, anew bool, now time.Time) (concerned int) {
	for _, d := range r.values {
		if object != "" && holder(d.Address) != object {
			// it may be a tap of one of the lanes
			if anew && d.Address.Kind == setting.QueueLanes && d.standing != byHand {
				d.until = now.Add(anewWindow)
				concerned++
			}
			continue
		}
		switch {
		case anew:
			d.standing, d.until = fresh, now.Add(window(object, d.Address))
		case d.standing != byHand:
			d.until = now.Add(resetWindow)
		default:
			continue
		}
		concerned++
	}
	return concerned
}

// Link says that a port got its carrier, perhaps at another speed: drivers take limits of its functions away then, or
// take them again.
func (r *Restorer) Link(object string, now time.Time) (concerned int) {
	for _, d := range r.values {
		if d.Address.Kind == setting.VFAttr && d.Address.Object() == object && d.standing != byHand {
			d.until = now.Add(resetWindow)
			concerned++
		}
	}
	return concerned
}

// Function says that a virtual function, PF/N, was made or bound to its driver a moment ago.
func (r *Restorer) Function(name string, now time.Time) (concerned int) {
	for _, d := range r.values {
		if d.Address.Kind == setting.VFAttr && strings.HasPrefix(d.Address.Path, name+"/") {
			d.standing, d.until = fresh, now.Add(anewWindow)
			concerned++
		}
	}
	return concerned
}

// holder is the device or guest that holds a value.
func holder(a setting.Address) string {
	switch a.Kind {
	case setting.Sysfs, setting.SysfsCPUs:
		if rest, found := strings.CutPrefix(a.Path, "class/net/"); found {
			return setting.Address{Path: rest}.Object()
		}
		return ""
	case setting.Sysctl:
		elements := strings.Split(setting.SysctlPath(a.Path), "/")
		if len(elements) == 5 && elements[0] == "net" {
			return elements[3]
		}
		return ""
	}
	return a.Object()
}
