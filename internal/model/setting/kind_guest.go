package setting

// Kinds of what libvirt gives to guests besides their definitions.
const (
	// DomainDevice: "domain-device:vm1/interface/52:54:00:00:00:01" or "domain-device:vm1/hostdev/0000:01:10.0", a
	// running guest and a hotpluggable device, named as in its definition (package domain; half of a failover pair with
	// @persistent or @transient after its MAC address). The value is that of the same path of a definition: "hostdev
	// pci=0000:01:10.0 managed=yes", "managed" for a hostdev. Absent while the guest runs without it or does not run.
	DomainDevice Kind = "domain-device"
	// VirtNetwork: "virt-network:pool/definition", a network of libvirt. For a VF pool "hostdev pf=ens1f0 managed=yes"
	// or "hostdev functions=0000:01:10.0,0000:01:10.2 managed=yes", for other networks their XML on one line (read and
	// restored only). "virt-network:pool/active" and "virt-network:pool/autostart": yes or no; no if there is no such
	// network.
	VirtNetwork Kind = "virt-network"
)

// InLibvirt is how long libvirt keeps a value.
const InLibvirt Lasting = "in libvirt's configuration"

// Kept reports whether libvirt, a boot loader or Open vSwitch keeps a value across a reboot.
func (l Lasting) Kept() bool {
	return l == InDefinition || l == InBootLoader || l == InGuestLoader || l == InLibvirt || l == InOpenVSwitch
}
