package apply

import (
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Reset records that an object (empty: every object) was just set up again or, with again, was created.
func (r *Restorer) Reset(object string, recreated bool, now time.Time) (concerned int) {
	for _, d := range r.values {
		if object != "" && d.Address.Device() != object && d.Address.Object() != object {
			// it may be a tap of one of the lanes
			if recreated && d.Address.Kind == setting.QueueLanes && d.standing != byHand {
				d.until = now.Add(freshWindow)
				concerned++
			}
			continue
		}
		switch {
		case recreated:
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

// Link records that a port got its carrier, perhaps at another speed: drivers then drop the limits of its functions or
// apply them again.
func (r *Restorer) Link(object string, now time.Time) (concerned int) {
	for _, d := range r.values {
		if d.Address.Kind == setting.VFAttr && d.Address.Object() == object && d.standing != byHand {
			d.until = now.Add(resetWindow)
			concerned++
		}
	}
	return concerned
}

// Function records that a virtual function, PF/N, was just created or bound to its driver.
func (r *Restorer) Function(name string, now time.Time) (concerned int) {
	for _, d := range r.values {
		if d.Address.Kind == setting.VFAttr && strings.HasPrefix(d.Address.Path, name+"/") {
			d.standing, d.until = fresh, now.Add(freshWindow)
			concerned++
		}
	}
	return concerned
}
