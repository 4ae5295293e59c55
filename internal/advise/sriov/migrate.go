package sriov

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// MigrateRequest is the input of Migrate.
type MigrateRequest struct {
	Guest    string
	To       string      // target host, as ssh and libvirt URIs name it
	Target   *facts.Host // its snapshot; nil: none
	Failover bool        // plan failover pairs of a virtio NIC and the function
}

// Migration is a plan to move a guest with VFs to another host: checks, and the commands on both hosts in order. mpps
// runs none of them.
type Migration struct {
	Guest     string           `json:"guest"`
	State     string           `json:"state"`
	From      string           `json:"from"`
	To        string           `json:"to"`
	Live      bool             `json:"live"` // live migration works as the guest is
	Why       string           `json:"why"`  // it does or does not
	Functions []MigrateVF      `json:"functions"`
	Checks    []MigrateCheck   `json:"checks"`
	Ways      []MigrateWay     `json:"ways"` // preferred one first
	Never     []MigrateCommand `json:"never"`
	Notes     []string         `json:"notes"`
}

// MigrateVF is a function of the guest and its replacement on the target.
type MigrateVF struct {
	MAC     string `json:"mac"`
	PF      string `json:"pf"`
	Index   int    `json:"index"`
	PCI     string `json:"pci"`
	Form    string `json:"form"` // interface, hostdev or network
	Network string `json:"network,omitempty"`
	VLAN    int    `json:"vlan"`
	Target  string `json:"target,omitempty"`    // PCI address on the target; empty: unknown
	PFThere string `json:"target_pf,omitempty"` // PF on the target
	Number  int    `json:"target_index"`        // on that PF; −1: unknown

	device  device   // in the definition
	plugged bool     // in the running guest only
	vf      facts.VF // on this host
}

// MigrateState is the result of a check.
type MigrateState string

// The results.
const (
	MigrateOK      MigrateState = "ok"
	MigrateMissing MigrateState = "missing"
	MigrateUnknown MigrateState = "unknown"
)

// MigrateCheck is one condition on one of the hosts.
type MigrateCheck struct {
	On      string       `json:"on"` // host
	What    string       `json:"what"`
	State   MigrateState `json:"state"`
	Found   string       `json:"found"`
	Command string       `json:"command,omitempty"` // to find out, or to fix it
}

// MigrateWay is one way to migrate, step by step.
type MigrateWay struct {
	Name    string        `json:"name"` // detach-attach, define-anew or failover
	What    string        `json:"what"`
	Traffic string        `json:"traffic"` // what stops, from when to when
	Needs   []string      `json:"needs"`
	XML     []string      `json:"xml"` // elements of the definition that it relies on
	Steps   []MigrateStep `json:"steps"`
}

// MigrateStep is one step of a way.
type MigrateStep struct {
	On       string   `json:"on"` // host on which root runs the commands
	What     string   `json:"what"`
	Commands []string `json:"commands"`
	Traffic  string   `json:"traffic,omitempty"` // meanwhile
	Undo     []string `json:"undo"`              // commands on the same host; empty: nothing to undo
}

// MigrateCommand is a command and a remark on it.
type MigrateCommand struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Missing returns the checks that failed.
func (m *Migration) Missing() []MigrateCheck {
	return slices.DeleteFunc(slices.Clone(m.Checks), func(c MigrateCheck) bool { return c.State != MigrateMissing })
}

// migratable are the host drivers that can save the state of a function and load it into another card of the same kind,
// with the first kernel that has them (drivers/vfio/pci/mlx5, pds, virtio; Documentation/ABI/testing/debugfs-vfio).
// vfio-pci itself cannot.
var migratable = map[string]string{
	"mlx5_vfio_pci": "5.18", "pds_vfio_pci": "6.6", "virtio_vfio_pci": "6.13",
}

// Migrate plans the migration of a guest with VFs to another host.
func Migrate(h *facts.Host, ask MigrateRequest) (*Migration, error) {
	if problem := CheckHost(ask.To); problem != nil {
		return nil, problem
	}
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == ask.Guest && g.Managed })
	if at < 0 {
		return nil, refuse(guestsOf(h), "no guest %q of libvirt on %s", ask.Guest, cmp.Or(h.Name, "this host"))
	}
	g := &h.Guests[at]
	switch {
	case g.Definition == "":
		return nil, &Refused{"the definition of " + g.Name + " could not be read", "a guest that is only running " +
			"(transient) is recreated by whoever made it: virsh dumpxml " + quoted(g.Name)}
	case g.Migrates():
		return nil, &Refused{g.Name + " is being migrated now (" + g.Job + ")", "wait for its end, or end it: " +
			quoted("virsh", "domjobabort", g.Name)}
	}
	def, err := devicesOf(g.Definition)
	if err != nil {
		return nil, fmt.Errorf("definition of guest %s: %w", g.Name, err)
	}
	p := &migration{Migration: Migration{Guest: g.Name, State: g.State, From: cmp.Or(h.Name, "this host"), To: ask.To,
		Checks: []MigrateCheck{}, Notes: []string{}}, ask: ask, from: h, guest: g, def: def}
	p.findFunctions()
	if len(p.Functions) == 0 {
		return nil, &Refused{g.Name + " has no virtual function", "it migrates like any guest: " + p.migrateCommand()}
	}
	if at := slices.IndexFunc(p.Functions, func(f MigrateVF) bool { return facts.NoAddress(f.MAC) }); ask.Failover &&
		at >= 0 {
		f := &p.Functions[at]
		return nil, refuse(quoted("mpps", "sriov", "set", fmt.Sprintf("%s/%d", f.PF, f.Index), "mac", "52:54:00:…")+
			" gives it one", "%s has no MAC address: both halves of a pair need the same", f)
	}
	p.explain()
	p.chooseTargets()
	p.checkSource()
	p.checkTarget()
	p.ways()
	return &p.Migration, nil
}

// migration is a plan in the making.
type migration struct {
	Migration

	ask   MigrateRequest
	from  *facts.Host
	guest *facts.Guest
	def   *definition
	other []string // passed-through devices that are not functions of this host
}

// hostName matches host names, addresses, and aliases in ssh's configuration.
var hostName = regexp.MustCompile(`^[\pL\pN._:-]+$`)

// CheckHost refuses an invalid host name: it becomes part of a libvirt URI, and ssh takes a leading dash for a flag.
func CheckHost(name string) error {
	switch {
	case name == "":
		return errors.New("no host to migrate to")
	case strings.HasPrefix(name, "-") || !hostName.MatchString(name) || strings.Contains(name, ":") &&
		net.ParseIP(name) == nil:
		return refuse("the user is root: --to kvm2", "found %q, expected the name or address of a host", name)
	}
	return nil
}

func guestsOf(h *facts.Host) string {
	var names []string
	for _, g := range h.Guests {
		if g.Managed {
			names = append(names, g.Name)
		}
	}
	return words.Either(len(names) == 0, "this host has no guests of libvirt, or they could not be seen",
		"guests of this host: "+strings.Join(names[:min(len(names), 12)], ", "))
}

// explain fills in whether and why the guest can be migrated live as it is.
func (p *migration) explain() {
	if p.teamed() {
		p.Live = p.guest.Active()
		p.Why = "each function stands behind a virtio NIC (teaming): QEMU unplugs it before the migration and plugs " +
			"one in behind it"
		return
	}
	able := 0
	for _, f := range p.Functions {
		if since, is := migratable[strings.ReplaceAll(f.vf.Driver, "-", "_")]; is {
			able++
			p.Notes = append(p.Notes, fmt.Sprintf("%s is bound to %s, which can save and load a function's state "+
				"(Linux %s): with the same card, firmware and driver there, "+
				"libvirt 8.6 and QEMU 8.1 on both hosts, 'virsh migrate' itself may do. mpps has not seen it work, "+
				"and plans without it", f.PCI, f.vf.Driver, since))
		}
	}
	p.Why = fmt.Sprintf("live migration is refused by libvirt and QEMU: the state of %s (%s) is in the card and not "+
		"in QEMU, and vfio-pci cannot read it out or put it into another card",
		words.Count(len(p.Functions), "virtual function"), p.functionNames())
	if able == len(p.Functions) {
		p.Why = "whether live migration works depends on the driver that holds the function: see the notes; this " +
			"plan does without"
	}
	if !p.guest.Active() {
		p.Why = p.guest.Name + " is " + p.guest.State + ", so nothing is live; its definition names " +
			p.functionNames() + ", and the other host has other functions, or gave that one to somebody else"
	}
	p.Never = []MigrateCommand{{
		Command: "virsh migrate --offline … " + quoted(p.guest.Name) + " " + p.targetURI(),
		Why: "libvirt does not refuse it: it copies the definition with this host's PCI address. The guest then " +
			"fails at its start there, " +
			"or takes a function that is another guest's, or another device's, and its MAC and VLAN are set on it",
	}}
}

func (p *migration) functionNames() string {
	names := facts.Map(p.Functions, func(f MigrateVF) string { return f.String() })
	return strings.Join(names, ", ")
}

// String names a function by PF, number and PCI address.
func (f *MigrateVF) String() string {
	return words.Either(f.PCI == "", "one of network "+f.Network, fmt.Sprintf("%s VF %d, %s", f.PF, f.Index, f.PCI))
}

// teamed reports whether every function is the transient half of a failover pair.
func (p *migration) teamed() bool {
	return !slices.ContainsFunc(p.Functions, func(f MigrateVF) bool { return f.device.teaming() != "transient" })
}
