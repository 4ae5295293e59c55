package setting

// Kinds of what libvirt gives to guests beside their definitions.
const (
	// DomainDevice: "domain-device:vm1/interface/52:54:00:00:00:01" or "domain-device:vm1/hostdev/0000:01:10.0", a
	// running guest and a device that can be plugged in, named as in its definition (package domain; a half of a
	// failover pair with @persistent or @transient behind its MAC address). The value is that of the same path of a
	// definition: "hostdev pci=0000:01:10.0 managed=yes", of a hostdev "managed". Absent while the guest runs without
	// it, or does not run.
	DomainDevice Kind = "domain-device"
	// VirtNetwork: "virt-network:pool/definition", a network of libvirt: "hostdev pf=ens1f0 managed=yes" or "hostdev
	// functions=0000:01:10.0,0000:01:10.2 managed=yes" of a pool of virtual functions, of other networks their XML on
	// one line (read, and put back); "virt-network:pool/active" and "virt-network:pool/autostart": yes or no, no where
	// there is no such network.
	VirtNetwork Kind = "virt-network"
)

// InLibvirt is how long a value stays that libvirt keeps.
const InLibvirt Lasting = "in libvirt's configuration"

// Kept reports whether somebody else keeps a value across a reboot: libvirt, or the boot loader.
func (l Lasting) Kept() bool { return l == InDefinition || l == InBootLoader || l == InLibvirt }
