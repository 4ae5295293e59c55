package domain

import (
	"slices"
	"strconv"
	"strings"
)

// Values of <interface>. What libvirt or QEMU would refuse, ignore or truncate is refused here, with the reason.

// tapTypes are the interface types with a tap or macvtap on the host; queueTypes also has the other types that support
// multiqueue (src/qemu/qemu_domain.c, qemuDomainValidateActualNetDef).
var (
	tapTypes   = []string{"network", "bridge", "ethernet", "direct"}
	queueTypes = append(slices.Clone(tapTypes), "vhostuser", "vdpa")
)

// isVirtio reports whether the guest sees a virtio device; libvirt ignores <driver> for others (src/conf/domain_conf.c,
// virDomainNetDefParseXML: virDomainNetIsVirtioModel). Without a model it is not virtio: QEMU's default is e1000 or
// rtl8139. vhost-user and vDPA are always virtio.
func (d *Doc) isVirtio(nic *element) bool {
	model := nic.first("model").get("type")
	return strings.HasPrefix(model, "virtio") || model == "" && slices.Contains([]string{"vhostuser", "vdpa"},
		nic.get("type"))
}

// requireVirtio refuses virtio settings on other devices.
func (d *Doc) requireVirtio(nic *element) *ValueError {
	model := nic.first("model").get("type")
	switch {
	case nic.get("type") == "hostdev":
		return never("a function of the host", "its queues and rings are set in the guest")
	case d.isVirtio(nic):
		return nil
	case model == "":
		return never("an interface without a model: the hypervisor's default is an emulated one",
			"give it the model virtio (--model virtio)")
	}
	return never("an interface of model "+clip(model), "give it the model virtio (--model virtio)")
}

// nicQueues is the number of queue pairs. A tap has at most MAX_TAP_QUEUES, 256 (drivers/net/tun.c).
var nicQueues = intKind(1, 256, "a tap has at most 256 queues; more than the guest has vCPUs bring nothing").where(
	func(v string, nic *element, d *Doc) *ValueError {
		if typ := nic.get("type"); !slices.Contains(queueTypes, typ) && typ != "hostdev" {
			return never("an interface of type "+clip(typ), "multiqueue is for "+strings.Join(queueTypes, ", "))
		}
		return d.requireVirtio(nic)
	})

// queueSize is the number of descriptors in a virtio queue. QEMU accepts powers of two from 256 to 1024
// (hw/net/virtio-net.c, VIRTIO_NET_RX_QUEUE_MIN_SIZE and VIRTQUEUE_MAX_SIZE). The transmit queue can have more than 256
// only with vhost-user and vDPA (virtio_net_max_tx_queue_size).
func queueSize(tx bool) kind {
	const allowed = "256, 512 or 1024"
	return kind{allowed: allowed, canon: canonInt, valid: func(v string) *ValueError {
		if v != "256" && v != "512" && v != "1024" {
			return refuse(allowed, "QEMU takes powers of two from 256 to 1024")
		}
		return nil
	}, validIn: func(v string, nic *element, d *Doc) *ValueError {
		typ := nic.get("type")
		bad := d.requireVirtio(nic)
		if bad == nil && tx && v != "256" && typ != "vhostuser" && typ != "vdpa" {
			bad = refuse("256 on an interface of type "+clip(typ),
				"only vhost-user and vDPA have more: older QEMU goes back to 256 silently, newer QEMU does not start")
		}
		return bad
	}}
}

// nicDriver is the back end: libvirt's enum virDomainNetDriver, or the host driver of a ignored-through function.
var nicDriver = wordKind("vhost runs the queues in the kernel, qemu in the emulator's own threads", "vhost", "qemu",
	"vfio").where(func(v string, nic *element, d *Doc) *ValueError {
	hostdev := nic.get("type") == "hostdev"
	switch {
	case hostdev && v != "vfio":
		bad := refuse("vfio on an interface of type hostdev", "")
		bad.Never = true // --driver vhost is not meant for host functions
		return bad
	case hostdev:
		return nil
	case v == "vfio":
		return refuse("vhost or qemu", "vfio is for an interface of type hostdev")
	}
	return d.requireVirtio(nic)
})

var nicModel = wordKind("virtio is the one for packet rate; e1000 and rtl8139 are for guests without its driver",
	"virtio", "virtio-transitional", "virtio-non-transitional", "e1000", "e1000e", "igb", "rtl8139", "vmxnet3",
	"ne2k_pci", "pcnet", "usb-net").where(func(v string, nic *element, d *Doc) *ValueError {
	switch typ := nic.get("type"); {
	case typ == "hostdev":
		return never("an interface of type hostdev", "the guest sees the function itself")
	case (typ == "vhostuser" || typ == "vdpa") && !strings.HasPrefix(v, "virtio"):
		return refuse("virtio on an interface of type "+typ, "libvirt refuses any other")
	}
	return nil
})

// coalesceFrames: tun_set_coalesce (drivers/net/tun.c) caps it at NAPI_POLL_WEIGHT, 64. libvirt supports it only on a
// network or bridge (src/qemu/qemu_validate.c, qemuValidateNetSupportsCoalesce).
var coalesceFrames = intKind(0, 64, "the tun driver caps it at 64 frames").where(func(_ string, nic *element,
	d *Doc) *ValueError {
	if typ := nic.get("type"); typ != "network" && typ != "bridge" {
		return never("an interface of type "+clip(typ), "libvirt has it for types network and bridge")
	}
	return nil
})

// mtuBytes is refused on types for which libvirt cannot set it (src/qemu/qemu_domain.c, qemuDomainNetSupportsMTU).
var mtuBytes = intKind(68, 65535, "").where(func(_ string, nic *element, d *Doc) *ValueError {
	if typ := nic.get("type"); !slices.Contains([]string{"network", "bridge", "ethernet", "vhostuser"}, typ) {
		return never("an interface of type "+clip(typ), "libvirt sets it for types network, bridge, ethernet and "+
			"vhostuser; of others the device behind them has it")
	}
	return nil
})

// vlanTag is refused on types for which libvirt refuses it when the guest starts (src/conf/domain_validate.c,
// virDomainActualNetDefValidate).
var vlanTag = intKind(1, 4094, "0 and 4095 are reserved by IEEE 802.1Q").where(func(_ string, nic *element,
	d *Doc) *ValueError {
	switch typ := nic.get("type"); {
	case typ == "hostdev", typ == "network", typ == "bridge", typ == "direct" &&
		nic.first("source").get("mode") == "passthrough":
		return nil
	default:
		return never("an interface of type "+clip(typ), "libvirt tags virtual functions (hostdev, direct in mode "+
			"passthrough) and ports of bridges")
	}
})

// nicMAC is an interface's address. libvirt refuses multicast addresses, and interfaces with the same address cannot be
// distinguished.
var nicMAC = kind{allowed: "a MAC address such as 52:54:00:00:00:01", canon: CanonMAC,
	valid: func(v string) *ValueError {
		first, _ := strconv.ParseUint(v[:2], 16, 8)
		switch {
		case first&1 != 0:
			return refuse("a unicast address", "the lowest bit of the first byte marks a group address")
		case v == "00:00:00:00:00:00":
			return refuse("an address other than zero", "")
		}
		return nil
	}, validIn: func(v string, nic *element, d *Doc) *ValueError {
		t := d.interfaces()
		if other := t.first[v]; other != nil && other != nic {
			return refuse("an address that no other interface has", "interface "+
				strconv.Itoa(slices.Index(t.all, other))+" has it")
		}
		return nil
	}}

// requireHostdev refuses settings of type hostdev on other types.
func requireHostdev(_ string, nic *element, d *Doc) *ValueError {
	if typ := nic.get("type"); typ != "hostdev" {
		return never("an interface of type "+clip(typ), "it is for type hostdev")
	}
	return nil
}
