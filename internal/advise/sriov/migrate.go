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
)

// MigrateAsk is what a migration is planned for.
type MigrateAsk struct {
	Guest    string
	To       string      // the other host, as ssh and libvirt's address of it have it
	Target   *facts.Host // the other host as a snapshot shows it, nil without one
	Failover bool        // plan the pair of a virtio NIC and the function
}

// Migration is how a guest with virtual functions gets from one host to another: what stands in the way, and the
// commands of both hosts in order. Nothing of it is carried out by mpps.
type Migration struct {
	Guest     string           `json:"guest"`
	State     string           `json:"state"`
	From      string           `json:"from"`
	To        string           `json:"to"`
	Live      bool             `json:"live"` // the guest can be migrated as it is, while it runs
	Why       string           `json:"why"`  // why it can, or why not
	Functions []MigrateVF      `json:"functions"`
	Checks    []MigrateCheck   `json:"checks"`
	Ways      []MigrateWay     `json:"ways"` // the one to prefer first
	Never     []MigrateCommand `json:"never"`
	Notes     []string         `json:"notes"`
}

// MigrateVF is a virtual function on its way.
type MigrateVF struct {
	MAC     string `json:"mac"`
	PF      string `json:"pf"`
	Index   int    `json:"index"`
	PCI     string `json:"pci"`
	Form    string `json:"form"` // interface, hostdev or network
	Network string `json:"network,omitempty"`
	VLAN    int    `json:"vlan"`
	Target  string `json:"target,omitempty"`    // PCI address on the other host, empty where it is not known
	PFThere string `json:"target_pf,omitempty"` // and the port that it belongs to
	Number  int    `json:"target_index"`        // and its number there, −1 where it is not known

	device  device   // as the definition has it
	plugged bool     // the running guest has it, and its definition not
	vf      facts.VF // as the host has it
}

// MigrateState says how a check went.
type MigrateState string

// How checks go.
const (
	MigrateOK      MigrateState = "ok"
	MigrateMissing MigrateState = "missing"
	MigrateUnknown MigrateState = "unknown"
)

// MigrateCheck is one thing that must be so on one of the hosts.
type MigrateCheck struct {
	On      string       `json:"on"` // the host
	What    string       `json:"what"`
	State   MigrateState `json:"state"`
	Found   string       `json:"found"`
	Command string       `json:"command,omitempty"` // tells, or mends
}

// MigrateWay is one way, step by step.
type MigrateWay struct {
	Name    string        `json:"name"` // detach-attach, define-anew or failover
	What    string        `json:"what"`
	Traffic string        `json:"traffic"` // what of it stops, from when to when
	Needs   []string      `json:"needs"`
	XML     []string      `json:"xml"` // elements of the definition that the way rests on
	Steps   []MigrateStep `json:"steps"`
}

// MigrateStep is one step of a way.
type MigrateStep struct {
	On       string   `json:"on"` // the host whose root shell takes the commands
	What     string   `json:"what"`
	Commands []string `json:"commands"`
	Traffic  string   `json:"traffic,omitempty"` // what it does meanwhile
	Undo     []string `json:"undo"`              // commands on the same host, empty where there is nothing to undo
}

// MigrateCommand is a command with what is to be said of it.
type MigrateCommand struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// Missing are the checks that failed.
func (m *Migration) Missing() []MigrateCheck {
	var all []MigrateCheck
	for _, c := range m.Checks {
		if c.State == MigrateMissing {
			all = append(all, c)
		}
	}
	return all
}

// migratable are host drivers that can save a function's state and load it into another card of the same kind, with the
// kernel that has them (drivers/vfio/pci/mlx5, pds, virtio; Documentation/ABI/testing/debugfs-vfio). vfio-pci itself
// cannot.
var migratable = map[string]string{
	"mlx5_vfio_pci": "5.18", "pds_vfio_pci": "6.6", "virtio_vfio_pci": "6.13",
}

// Migrate plans how a guest with virtual functions is brought to another host.
func Migrate(h *facts.Host, ask MigrateAsk) (*Migration, error) {
	if problem := badHost(ask.To); problem != nil {
		return nil, problem
	}
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == ask.Guest && g.Managed })
	if at < 0 {
		return nil, &Refused{fmt.Sprintf("no guest %q of libvirt on %s", ask.Guest, cmp.Or(h.Name, "this host")),
			guestsOf(h)}
	}
	g := &h.Guests[at]
	switch {
	case g.Definition == "":
		return nil, &Refused{"the definition of " + g.Name + " could not be read", "a guest that is only running " +
			"(transient) is made anew by whoever made it: virsh dumpxml " + quoted(g.Name)}
	case g.Migrates():
		return nil, &Refused{g.Name + " is being migrated now (" + g.Job + ")", "wait for its end, or end it: " +
			shellLine("virsh", "domjobabort", g.Name)}
	}
	def, err := devicesOf(g.Definition)
	if err != nil {
		return nil, fmt.Errorf("definition of guest %s: %w", g.Name, err)
	}
	p := &migration{Migration: Migration{Guest: g.Name, State: g.State, From: cmp.Or(h.Name, "this host"), To: ask.To,
		Checks: []MigrateCheck{}, Notes: []string{}}, ask: ask, from: h, guest: g, def: def}
	p.find()
	if len(p.Functions) == 0 {
		return nil, &Refused{g.Name + " has no virtual function", "it migrates like any guest: " + p.migrate()}
	}
	if at := slices.IndexFunc(p.Functions, func(f MigrateVF) bool { return facts.NoAddress(f.MAC) }); ask.Failover &&
		at >= 0 {
		f := &p.Functions[at]
		return nil, refuse(shellLine("mpps", "sriov", "set", fmt.Sprintf("%s/%d", f.PF, f.Index), "mac", "52:54:00:…")+
			" gives it one", "%s has no MAC address: both halves of a pair need the same", f)
	}
	p.because()
	p.place()
	p.checkSource()
	p.checkTarget()
	p.ways()
	return &p.Migration, nil
}

// migration is a plan on its way.
type migration struct {
	Migration

	ask   MigrateAsk
	from  *facts.Host
	guest *facts.Guest
	def   *definition
	other []string // passed-through devices that are no functions of this host
}

// hostName holds names and addresses of hosts, and what ssh's configuration calls them.
var hostName = regexp.MustCompile(`^[\pL\pN._:-]+$`)

// badHost refuses what is no name of a host: it stands in an address of libvirt, and ssh takes a leading dash for a
// flag.
func badHost(name string) error {
	switch {
	case name == "":
		return errors.New("no host to migrate to")
	case strings.HasPrefix(name, "-") || !hostName.MatchString(name) || strings.Contains(name, ":") &&
		net.ParseIP(name) == nil:
		return &Refused{fmt.Sprintf("found %q, expected the name or address of a host", name),
			"the user is root: --to kvm2"}
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
	if len(names) == 0 {
		return "this host has no guests of libvirt, or they could not be seen"
	}
	return "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
}

// because says why the guest cannot be migrated as it is, or that it can.
func (p *migration) because() {
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
		count(len(p.Functions), "virtual function"), p.functionNames())
	if able == len(p.Functions) {
		p.Why = "whether live migration works depends on the driver that holds the function: see the notes; this " +
			"plan does without"
	}
	if !p.guest.Active() {
		p.Why = p.guest.Name + " is " + p.guest.State + ", so nothing is live; its definition names " +
			p.functionNames() + ", and the other host has other functions, or gave that one to somebody else"
	}
	p.Never = []MigrateCommand{{
		Command: "virsh migrate --offline … " + quoted(p.guest.Name) + " " + p.address(),
		Why: "libvirt does not refuse it: it copies the definition with this host's PCI address. The guest then " +
			"fails at its start there, " +
			"or takes a function that is another guest's, or another device's, and its MAC and VLAN are set on it",
	}}
}

func (p *migration) functionNames() string {
	var names []string
	for _, f := range p.Functions {
		names = append(names, f.String())
	}
	return strings.Join(names, ", ")
}

// String is how people speak of a function: its port, number and address.
func (f *MigrateVF) String() string {
	if f.PCI == "" {
		return "one of network " + f.Network
	}
	return fmt.Sprintf("%s VF %d, %s", f.PF, f.Index, f.PCI)
}

// teamed reports whether every function is the transient half of a pair.
func (p *migration) teamed() bool {
	return !slices.ContainsFunc(p.Functions, func(f MigrateVF) bool { return f.device.teaming() != "transient" })
}
