package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// State is the result of one check.
type State string

// The states. Unknown is not a verdict.
const (
	OK      State = "ok"
	NotOK   State = "not"
	Unknown State = "unknown"
)

// Point is the result of one check.
type Point struct {
	ID       string        `json:"id"`     // of the knob if the catalogue has the same check: 'mpps explain ID'
	Object   string        `json:"object"` // a PF; empty: the host
	Title    string        `json:"title"`
	State    State         `json:"state"`
	Severity knob.Severity `json:"severity"` // info unless State is not
	Found    string        `json:"found"`
	Why      string        `json:"why"` // what it means, or why it is unknown
	Do       string        `json:"do"`  // empty: nothing
	Traps    []string      `json:"traps"`
}

// Check reports whether a host, or one of its PFs, is ready for VFs, and what is odd about the existing ones.
type Check struct {
	Verdict string        `json:"verdict"` // in one sentence
	Counts  map[State]int `json:"counts"`
	Points  []Point       `json:"points"` // of the host first, then of each PF
}

// AtLeast returns the points that are not ok, of a severity or worse.
func (c *Check) AtLeast(s knob.Severity) []Point {
	return slices.DeleteFunc(slices.Clone(c.Points), func(p Point) bool { return p.State != NotOK || p.Severity < s })
}

// Unsettled is a transaction about VFs that is unfinished or in doubt.
type Unsettled struct {
	TX    string
	State string   // interrupted, in-doubt or failed
	About []string // its addresses
}

// Journal is what the journal has about VFs.
type Journal struct {
	Unsettled []Unsettled
	Unread    string // why it could not be read
}

// catalogued are the knobs whose checks are part of Examine, and what to do about their findings.
var catalogued = []struct{ id, do string }{
	{"firmware.vt_d", "switch VT-d (Intel) or IOMMU / AMD-Vi (AMD) on in the firmware's setup: it is another switch " +
		"than VT-x or SVM. A virtual machine gets an IOMMU by its definition on the host below"},
	{"boot.iommu", "'mpps plan --nic vf' has it as a change, 'mpps apply' writes it for the next boot; then reboot"},
	{"firmware.sriov", "switch SR-IOV on in the firmware's setup and in that of the card"},
	{"pci.link", "look at it under load, then at the slot: another one, or the card reseated"},
	{"sriov.ready", "wait and look again; 'udevadm settle' returns when names are done; then the kernel's log for " +
		"the functions' driver"},
	{"sriov.persist", "'mpps sriov create PF -n N --persist unit' has them made before libvirt starts"},
	{"sriov.usage", "give one of the guests another function"},
}

// Catalogued returns the knobs that Examine uses. Their addresses must have been read.
func Catalogued() []*knob.Knob {
	return slices.DeleteFunc(knob.Catalogue(), func(k *knob.Knob) bool { return place(k.ID) < 0 })
}

// place returns where a knob is in catalogued, −1 if it is not.
func place(id string) int {
	return slices.IndexFunc(catalogued, func(c struct{ id, do string }) bool { return c.id == id })
}

// Examine checks everything that VFs need: of the host and of all NICs that have or could have VFs, or of one NIC by
// name or PCI address.
func Examine(h *facts.Host, name string, j Journal) (Check, error) {
	e := examiner{h: h, functions: Functions(h), guestsUnseen: guestsUnseen(h)}
	nics := e.candidates(name)
	if name != "" && len(nics) == 0 {
		return Check{}, noPort(h, name)
	}
	byObject := e.auditPoints()
	e.add(byObject[""]...)
	e.checkHost()
	e.checkReservations(name, nics)
	e.checkJournal(j)
	for _, n := range nics {
		e.object = n.Name
		e.checkPort(n, byObject[n.Name])
	}
	c := Check{Points: e.points, Counts: map[State]int{OK: 0, NotOK: 0, Unknown: 0}}
	for _, p := range c.Points {
		c.Counts[p.State]++
	}
	c.Verdict = verdict(c, nics)
	return c, nil
}

func verdict(c Check, nics []*facts.NIC) string {
	worst := knob.Info
	for _, p := range c.AtLeast(knob.Info) {
		worst = max(worst, p.Severity)
	}
	var text string
	switch n := c.Counts[NotOK]; {
	case len(nics) == 0:
		text = "no NIC here is known to be able to have virtual functions"
	case n == 0:
		text = "ready: everything that could be seen is as virtual functions need it"
	case worst >= knob.High:
		text = fmt.Sprintf("not ready: %s not as virtual functions need it, the worst of severity %s",
			words.Count(n, "point is", "points are"), worst)
	default:
		text = fmt.Sprintf("ready, but %s odd, the worst of severity %s", words.Count(n, "point is", "points are"),
			worst)
	}
	return text + words.If(c.Counts[Unknown] > 0, "; %d could not be determined", c.Counts[Unknown])
}

// examiner collects points.
type examiner struct {
	h            *facts.Host
	functions    []Function
	guestsUnseen string // why not all guests could be seen
	object       string
	points       []Point
}

func (e *examiner) add(points ...Point) { e.points = append(e.points, points...) }

func (e *examiner) ok(id, title, found string) {
	e.add(Point{ID: id, Object: e.object, Title: title, State: OK, Severity: knob.Info, Found: found})
}

func (e *examiner) bad(severity knob.Severity, id, title, found, why, do string) {
	e.add(Point{ID: id, Object: e.object, Title: title, State: NotOK, Severity: severity, Found: found, Why: why,
		Do: do})
}

func (e *examiner) unknown(id, title, why, do string) {
	e.add(Point{ID: id, Object: e.object, Title: title, State: Unknown, Severity: knob.Info, Found: "unknown", Why: why,
		Do: do})
}

// guestsUnseen returns why not all guests could be seen; empty: all were.
func guestsUnseen(h *facts.Host) string {
	u := facts.Find(h.Unseen, func(u *facts.Unseen) bool {
		return u.Part == facts.UnseenGuests || u.Part == facts.UnseenDefinition
	})
	if u == nil {
		return ""
	}
	return u.What + ": " + u.Why
}

// candidates returns the NICs to check: PFs, NICs whose driver supports VFs, and the named one whatever it is.
func (e *examiner) candidates(name string) []*facts.NIC {
	var all []*facts.NIC
	for n := range facts.Each(e.h.NICs) {
		_, known, _ := facts.VFSettable(n.Driver, "mac")
		switch {
		case name != "" && name != n.Name && name != n.PCI:
		case n.PhysFn != "":
		case name != "", n.SRIOV != nil, known && n.Bus == "pci":
			all = append(all, n)
		}
	}
	return all
}

// auditPoints returns the findings of the catalogue as points, by PF; those of the host have the key "".
func (e *examiner) auditPoints() map[string][]Point {
	r := audit.Run(e.h, goal.Goal{NIC: "vf"}, Catalogued())
	slices.SortStableFunc(r.Findings, func(a, b audit.Finding) int { return place(a.ID) - place(b.ID) })
	points := map[string][]Point{}
	for _, f := range r.Findings {
		p := Point{ID: f.ID, Title: f.Title, State: OK, Severity: f.Severity, Found: f.Found, Why: f.Why}
		switch f.State {
		case audit.NotApplicable:
			continue
		case audit.Off:
			p.State, p.Do = NotOK, catalogued[place(f.ID)].do
		case audit.Unknown:
			p.State = Unknown
		}
		if f.Address.Kind == setting.KernelArg {
			p.Title = "next boot: " + f.Address.Path
		}
		for _, n := range e.h.NICs {
			if f.Address.Kind == setting.Fact && f.Address.Object() == n.Name {
				p.Object = n.Name
				if n.SRIOV != nil {
					p.Do = strings.NewReplacer(" PF ", " "+n.Name+" ", " N ",
						fmt.Sprintf(" %d ", n.SRIOV.Enabled)).Replace(p.Do)
				}
			}
		}
		points[p.Object] = append(points[p.Object], p)
	}
	return points
}

// Concerns reports whether the verbs of this package write an address.
func Concerns(a setting.Address) bool {
	switch a.Kind {
	case setting.VFAttr, setting.VFCount, setting.DomainDevice, setting.VirtNetwork:
		return true
	case setting.File:
		return strings.HasPrefix(a.Path, setting.Reservations+"/")
	case setting.Sysfs:
		return strings.Contains(a.Path, "/sriov_")
	case setting.Domain:
		kind, name, _ := strings.Cut(a.Rest(), "/")
		// the whole device, not one of its values
		return (kind == "hostdev" || kind == "interface") && !strings.Contains(name, "/")
	}
	return false
}
