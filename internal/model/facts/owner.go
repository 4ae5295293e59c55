package facts

import (
	"strings"
	"unicode"

	"mpps/internal/model/domain"
)

// Owner is who makes a guest's definition.
type Owner struct {
	Platform Platform `json:"platform"`
	// what the platform calls the guest: a UUID, a number, or a namespace and a name; empty: not known
	ID       string `json:"id,omitempty"`
	Evidence string `json:"evidence,omitempty"` // how that is known, for people; empty: nothing says otherwise
	// the site file says that its definition is the operator's, whatever made it
	Own bool `json:"own,omitempty"`
}

// Platform is a program that makes guests' definitions.
type Platform string

// The platforms.
const (
	Libvirt    Platform = "libvirt" // whoever defined it there: a person, or a program without a mark
	QEMU       Platform = "qemu"    // started without libvirt, by nobody that is known
	Nova       Platform = "nova"
	OVirt      Platform = "ovirt"
	CloudStack Platform = "cloudstack"
	ZStack     Platform = "zstack"
	OpenNebula Platform = "opennebula"
	KubeVirt   Platform = "kubevirt"
	Harvester  Platform = "harvester"
	Proxmox    Platform = "proxmox"
	Nutanix    Platform = "nutanix"
	Incus      Platform = "incus"
	LXD        Platform = "lxd"
)

// platformTitles are what people call the platforms.
var platformTitles = map[Platform]string{
	Libvirt: "libvirt", QEMU: "QEMU", Nova: "OpenStack", OVirt: "oVirt", CloudStack: "CloudStack", ZStack: "ZStack",
	OpenNebula: "OpenNebula", KubeVirt: "KubeVirt", Harvester: "Harvester", Proxmox: "Proxmox VE",
	Nutanix: "Nutanix AHV", Incus: "Incus", LXD: "LXD",
}

// Title returns what people call the platform.
func (p Platform) Title() string {
	if title, known := platformTitles[p]; known {
		return title
	}
	return string(p)
}

// Rewrites reports whether the platform regenerates the definition at the next start of the guest, so that whatever
// else was changed in it is lost.
func (p Platform) Rewrites() bool {
	switch p {
	case "", Libvirt, QEMU:
		return false
	}
	return true
}

// Kubernetes reports whether the platform runs guests in pods.
func (p Platform) Kubernetes() bool { return p == KubeVirt || p == Harvester }

// Rewrites reports whether something other than the operator regenerates the guest's definition at its next start.
func (g *Guest) Rewrites() bool { return g.Owner != nil && !g.Owner.Own && g.Owner.Platform.Rewrites() }

// Platform returns who makes the guest's definition.
func (g *Guest) Platform() Platform {
	switch {
	case g.Owner != nil:
		return g.Owner.Platform
	case g.Managed:
		return Libvirt
	}
	return QEMU
}

// namespaces are the namespaces of the elements that platforms write below <metadata>, without a version at the end
// where they have one.
var namespaces = []struct {
	space    string
	element  string
	platform Platform
}{
	{"http://openstack.org/xmlns/libvirt/nova/", "instance", Nova}, // nova/virt/libvirt/config.py, NOVA_NS
	{"http://ovirt.org/vm/", "vm", OVirt},                          // vdsm, lib/vdsm/virt/xmlconstants.py
	{"http://ovirt.org/vm/tune/", "qos", OVirt},                    // the same; the only one before 4.2
	{"http://zstack.org", "zstack", ZStack},                        // zstack-utility, vm_plugin.py, ZS_XML_NAMESPACE
	{"http://opennebula.org/xmlns/libvirt/", "vm", OpenNebula},     // one, src/vmm/LibVirtDriverKVM.cc
	{"http://kubevirt.io", "kubevirt", KubeVirt},                   // kubevirt, virtwrap/api/schema.go, Metadata
}

// OwnerOf returns who made a definition, by what the platforms write into it. Names and texts that a tenant chooses
// tell nothing.
func OwnerOf(g domain.Guest) Owner {
	for _, mark := range g.Marks {
		for _, known := range namespaces {
			space := mark.Namespace == known.space ||
				strings.HasSuffix(known.space, "/") && strings.HasPrefix(mark.Namespace, known.space)
			if space && mark.Name == known.element {
				return Owner{Platform: known.platform, ID: platformID(known.platform, g, mark),
					Evidence: "its metadata has an element of " + known.space}
			}
		}
	}
	if owner, found := MakerOf(g.System, g.UUID); found {
		return owner
	}
	return Owner{Platform: Libvirt}
}

// makers are what platforms show their guests as the maker of the machine: manufacturer, and how the product begins.
var makers = []struct {
	manufacturer, product string // empty: any
	platform              Platform
}{
	// nova/virt/libvirt/driver.py, _get_guest_config_sysinfo; distributions have other manufacturers
	{"", "OpenStack ", Nova},
	// LibvirtVMDef.java, GuestDef; it writes no metadata
	{"Apache Software Foundation", "CloudStack ", CloudStack},
	// what dmidecode shows in AHV's guests, with the product AHV
	{"Nutanix", "", Nutanix},
	// vdsm, lib/vdsm/common/constants.py.in, SMBIOS_MANUFACTURER
	{"oVirt", "", OVirt},
}

// MakerOf returns who made a guest, by what the guest is shown as its maker: <sysinfo>, or QEMU's -smbios.
func MakerOf(system domain.SystemInfo, uuid string) (Owner, bool) {
	for _, m := range makers {
		maker := m.manufacturer == "" || m.manufacturer == system.Manufacturer
		if maker && strings.HasPrefix(system.Product, m.product) {
			return Owner{Platform: m.platform, ID: uuid, Evidence: "its sysinfo names " + m.platform.Title()}, true
		}
	}
	return Owner{}, false
}

// findOwners finds the owners of guests in a snapshot of a version that did not look for them.
func (h *Host) findOwners() {
	for g := range Each(h.Guests) {
		if g.Owner != nil || g.Definition == "" {
			continue
		}
		if doc, err := domain.Parse([]byte(g.Definition)); err == nil {
			owner := OwnerOf(doc.Guest())
			g.Owner = &owner
		}
	}
}

// platformID returns what a platform calls a guest.
func platformID(p Platform, g domain.Guest, mark domain.Mark) string {
	switch p {
	case ZStack: // it writes UUIDs without dashes
		return strings.ReplaceAll(g.UUID, "-", "")
	case OpenNebula: // one-42 is virtual machine 42
		if id, is := strings.CutPrefix(g.Name, "one-"); is && isNumber(id) {
			return id
		}
		return ""
	case KubeVirt:
		if id := KubeVirtID(g.Name); id != "" {
			return id
		}
		return mark.Fields["uid"]
	}
	return g.UUID
}

// KubeVirtID returns namespace/name of a domain's name, which KubeVirt makes of both (pkg/util/net/dns and
// virtwrap/api, VMINamespaceKeyFunc: "NAMESPACE_NAME"). Names of Kubernetes have no underscores (RFC 1123), so that
// there is one way to split it. Empty if it is no such name.
func KubeVirtID(domain string) string {
	namespace, name, found := strings.Cut(domain, "_")
	if !found || !isLabel(namespace) || !isLabel(name) {
		return ""
	}
	return namespace + "/" + name
}

// isLabel reports whether a word can be a name in Kubernetes: a subdomain of RFC 1123.
func isLabel(word string) bool {
	return word != "" && len(word) <= 253 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" &&
		strings.Trim(word[:1]+word[len(word)-1:], "-.") == word[:1]+word[len(word)-1:]
}

// isNumber reports whether a word is a decimal number of at most nine digits.
func isNumber(word string) bool {
	return word != "" && len(word) <= 9 && strings.Trim(word, "0123456789") == ""
}

// ProxmoxOwner returns the owner of a QEMU that Proxmox VE started as virtual machine id, which its PID file says.
func ProxmoxOwner(id string) *Owner {
	return &Owner{Platform: Proxmox, ID: id, Evidence: "qemu-server's PID file of " + id + " names its process"}
}

// InstanceOwner returns the owner of a QEMU that Incus or LXD started. The folder is the instance's: its name, after
// that of its project and _ unless that is the default (project.go, Instance); no project has _ in its name.
func InstanceOwner(p Platform, folder string) *Owner {
	return &Owner{Platform: p, ID: strings.Replace(folder, "_", "/", 1),
		Evidence: p.Title() + "'s PID file of " + folder + " names its process"}
}

// check refuses an owner in a snapshot that no platform has.
func (o *Owner) check(guest string) error {
	if o == nil {
		return nil
	}
	if _, known := platformTitles[o.Platform]; !known {
		return invalid(remake, "guest %q: unknown platform %q", clip([]byte(guest), 60), clip([]byte(o.Platform), 60))
	}
	if len(o.ID) > 512 || strings.ContainsFunc(o.ID+o.Evidence, unicode.IsControl) {
		return invalid(remake, "guest %q: %q is no name", clip([]byte(guest), 60), clip([]byte(o.ID), 60))
	}
	return nil
}

// String returns the owner with its own name of the guest: "OpenStack (1f3c…)".
func (o Owner) String() string {
	if o.ID == "" {
		return o.Platform.Title()
	}
	return o.Platform.Title() + " (" + o.ID + ")"
}
