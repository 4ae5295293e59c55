package domain

import (
	"slices"
	"strconv"
	"strings"
)

// Values of <interface>. What libvirt or QEMU would refuse, ignore or cut down on an interface is refused here, with
// why.

// tapTypes are the types of interface that have a tap or macvtap on the host, and what else takes several queues
// (src/qemu/qemu_domain.c, qemuDomainValidateActualNetDef).
var (
	tapTypes   = []string{"network", "bridge", "ethernet", "direct"}
	queueTypes = append(slices.Clone(tapTypes), "vhostuser", "vdpa")
)

// isVirtio reports whether an interface is a virtio device to the guest; libvirt ignores <driver> of any other
// (src/conf/domain_conf.c, virDomainNetDefParseXML: virDomainNetIsVirtioModel). Without a model it is none: QEMU's
// default is e1000 or rtl8139. vhost-user and vDPA are virtio always.
func (d *Doc) isVirtio(nic *element) bool {
	model := nic.first("model").get(d, "type")
	return strings.HasPrefix(model, "virtio") || model == "" && slices.Contains([]string{"vhostuser", "vdpa"},
		nic.get(d, "type"))
}

// needsVirtio refuses settings of the virtio device on one that is none.
func (d *Doc) needsVirtio(nic *element) *ValueError {
	model := nic.first("model").get(d, "type")
	switch {
	case nic.get(d, "type") == "hostdev":
		return never("a function of the host", "its queues and rings are set in the guest")
	case d.isVirtio(nic):
		return nil
	case model == "":
		return never("an interface without a model: the hypervisor's default is an emulated one",
			"give it the model virtio first")
	}
	return never("an interface of model "+clip(model), "give it the model virtio first")
}

// nicQueues is the number of queue pairs. MAX_TAP_QUEUES is 256 (drivers/net/tun.c): a tap opens no more.
var nicQueues = intKind(1, 256, "a tap has at most 256 queues; more than the guest has vCPUs bring nothing").where(
	func(v string, nic *element, d *Doc) *ValueError {
		if typ := nic.get(d, "type"); !slices.Contains(queueTypes, typ) && typ != "hostdev" {
			return never("an interface of type "+clip(typ), "multiqueue is for "+strings.Join(queueTypes, ", "))
		}
		return d.needsVirtio(nic)
	})

// queueSize is the number of descriptors of a virtio queue. QEMU takes powers of two from 256 to 1024
// (hw/net/virtio-net.c, VIRTIO_NET_RX_QUEUE_MIN_SIZE and VIRTQUEUE_MAX_SIZE). The transmit queue has more than 256 only
// on vhost-user and vDPA (virtio_net_max_tx_queue_size).
func queueSize(tx bool) kind {
	const allowed = "256, 512 or 1024"
	return kind{allowed: allowed, canon: canonInt, wanted: func(v string) *ValueError {
		if v != "256" && v != "512" && v != "1024" {
			return refuse(allowed, "QEMU takes powers of two from 256 to 1024")
		}
		return nil
	}, suits: func(v string, nic *element, d *Doc) *ValueError {
		typ := nic.get(d, "type")
		bad := d.needsVirtio(nic)
		if bad == nil && tx && v != "256" && typ != "vhostuser" && typ != "vdpa" {
			bad = refuse("256 on an interface of type "+clip(typ),
				"only vhost-user and vDPA have more: older QEMU goes back to 256 silently, newer QEMU does not start")
		}
		return bad
	}}
}

// nicDriver is the back end: libvirt's enum virDomainNetDriver, or the host driver of a passed-through function.
var nicDriver = wordKind("vhost runs the queues in the kernel, qemu in the emulator's own threads", "vhost", "qemu",
	"vfio").where(func(v string, nic *element, d *Doc) *ValueError {
	hostdev := nic.get(d, "type") == "hostdev"
	switch {
	case hostdev && v != "vfio":
		bad := refuse("vfio on an interface of type hostdev", "")
		bad.Never = true // --driver vhost is not about functions of the host
		return bad
	case hostdev:
		return nil
	case v == "vfio":
		return refuse("vhost or qemu", "vfio is for an interface of type hostdev")
	}
	return d.needsVirtio(nic)
})

var nicModel = wordKind("virtio is the one for packet rate; e1000 and rtl8139 are for guests without its driver",
	"virtio", "virtio-transitional", "virtio-non-transitional", "e1000", "e1000e", "igb", "rtl8139", "vmxnet3",
	"ne2k_pci", "pcnet", "usb-net").where(func(v string, nic *element, d *Doc) *ValueError {
	switch typ := nic.get(d, "type"); {
	case typ == "hostdev":
		return never("an interface of type hostdev", "the guest sees the function itself")
	case (typ == "vhostuser" || typ == "vdpa") && !strings.HasPrefix(v, "virtio"):
		return refuse("virtio on an interface of type "+typ, "libvirt refuses any other")
	}
	return nil
})

// coalesceFrames: drivers/net/tun.c, tun_set_coalesce, makes more than NAPI_POLL_WEIGHT (64) of them 64. libvirt
// refuses it on all but a network or bridge (src/qemu/qemu_validate.c, qemuValidateNetSupportsCoalesce).
var coalesceFrames = intKind(0, 64, "the tun driver caps it at 64 frames").where(func(_ string, nic *element,
	d *Doc) *ValueError {
	if typ := nic.get(d, "type"); typ != "network" && typ != "bridge" {
		return never("an interface of type "+clip(typ), "libvirt has it for types network and bridge")
	}
	return nil
})

// mtuBytes is refused where libvirt cannot set it (src/qemu/qemu_domain.c, qemuDomainNetSupportsMTU).
var mtuBytes = intKind(68, 65535, "").where(func(_ string, nic *element, d *Doc) *ValueError {
	if typ := nic.get(d, "type"); !slices.Contains([]string{"network", "bridge", "ethernet", "vhostuser"}, typ) {
		return never("an interface of type "+clip(typ), "libvirt sets it for types network, bridge, ethernet and "+
			"vhostuser; of others the device behind them has it")
	}
	return nil
})

// vlanTag is refused where libvirt refuses it at the guest's start (src/conf/domain_validate.c,
// virDomainActualNetDefValidate).
var vlanTag = intKind(1, 4094, "0 and 4095 are reserved by IEEE 802.1Q").where(func(_ string, nic *element,
	d *Doc) *ValueError {
	switch typ := nic.get(d, "type"); {
	case typ == "hostdev", typ == "network", typ == "bridge", typ == "direct" &&
		nic.first("source").get(d, "mode") == "passthrough":
		return nil
	default:
		return never("an interface of type "+clip(typ), "libvirt tags virtual functions (hostdev, direct in mode "+
			"passthrough) and ports of bridges")
	}
})

// nicMAC is the address of an interface. libvirt refuses a multicast address, and two interfaces with one address
// cannot be told apart.
var nicMAC = kind{allowed: "a MAC address such as 52:54:00:00:00:01", canon: CanonMAC,
	wanted: func(v string) *ValueError {
		first, _ := strconv.ParseUint(v[:2], 16, 8)
		switch {
		case first&1 != 0:
			return refuse("a unicast address", "the lowest bit of the first byte marks a group address")
		case v == "00:00:00:00:00:00":
			return refuse("an address other than zero", "")
		}
		return nil
	}, suits: func(v string, nic *element, d *Doc) *ValueError {
		t := d.interfaces()
		if other := t.first[v]; other != nil && other != nic {
			return refuse("an address that no other interface has", "interface "+
				strconv.Itoa(slices.Index(t.all, other))+" has it")
		}
		return nil
	}}

// onHostdev refuses what only an interface of type hostdev has.
func onHostdev(_ string, nic *element, d *Doc) *ValueError {
	if typ := nic.get(d, "type"); typ != "hostdev" {
		return never("an interface of type "+clip(typ), "it is for type hostdev")
	}
	return nil
}
