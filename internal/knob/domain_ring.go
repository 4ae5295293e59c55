package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var domainRxQueueSize = &Knob{
	ID: "domain.rx_queue_size", Title: "Receive ring of the guest's NIC", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "1024 where its tap drops packets; else as it is",
		Why: "vhost puts packets for the guest into this ring. 256 entries stay in the cache; at 1 Mpps they bridge 256 µs in which the guest does not run. " +
			"Where bursts are lost before the tap, 1024 helps.",
		Cost:   "A larger ring leaves the cache and lengthens the delay under overload.",
		Verify: "In the guest ethtool -g DEV shows RX; TX dropped of the tap on the host (ip -s link) stops growing.",
		Traps: []string{
			"Only powers of two from 256 to 1024.",
			"The guest cannot change it: it is the device's, set at the guest's start.",
		},
		Sources: []Source{
			{"256 to 1024, powers of two", "QEMU hw/net/virtio-net.c, VIRTIO_NET_RX_QUEUE_MIN_SIZE, VIRTQUEUE_MAX_SIZE"},
			{"1024 against loss in bursts, 256 for the cache", "founding measurements"},
		},
	},
	Where: eachInterface("driver.rx_queue_size"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if !virtio(i.Model) {
			return Skips("an emulated NIC has none")
		}
		if i.RxQueueSize == 1024 {
			return Fine("1024 is the most")
		}
		if advice, needed := v.needsInterval(); needed {
			return advice
		}
		lost, counter := v.Interval.Counter(i.Tap, "tx_dropped")
		switch {
		case counter == "":
			return Unsure("no counters of its tap over the interval")
		case lost == 0:
			return Fine(fmt.Sprintf("its tap dropped nothing %s", v.over()))
		}
		return Wants(setting.Exact("1024"), fmt.Sprintf("its tap dropped %d packets %s for want of room in the guest's ring", lost, v.over())).At(Medium).otherwise("256").restart(g.Name)
	},
}

var domainTxQueueSize = &Knob{
	ID: "domain.tx_queue_size", Title: "Transmit ring of the guest's NIC", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "256 on a tap",
		Why:    "The guest puts packets here for vhost. On a tap 256 is both the default and the most.",
		Cost:   "None.",
		Verify: "In the guest ethtool -g DEV shows TX 256.",
		Traps: []string{
			"tx_queue_size=1024 on a tap is old advice: only vhost-user and vDPA take more than 256. QEMU before 8.1 makes it 256 without a word; from 8.1 on it refuses to start the guest.",
			"It has nothing to do with the tap's txqueuelen, which is a queue towards the guest.",
		},
		Sources: []Source{
			{"256 except for vhost-user and vDPA", "QEMU hw/net/virtio-net.c, virtio_net_max_tx_queue_size"},
			{"refused instead of clamped from 8.1 on", "QEMU commit 4271f4038372 (virtio-net: correctly report maximum tx_queue_size value)"},
		},
	},
	Where: eachInterface("driver.tx_queue_size"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if !virtio(i.Model) {
			return Skips("an emulated NIC has none")
		}
		severity := Low
		if i.TxQueueSize > 256 {
			severity = High
		}
		fate := "QEMU before 8.1 makes it 256 without a word, newer does not start the guest"
		if old, known := v.oldQEMU(8, 1); known && old {
			fate = "this QEMU (" + v.KVM.QEMU + ") makes it 256 without a word, and 8.1 and newer does not start the guest"
		} else if known {
			fate = "this QEMU (" + v.KVM.QEMU + ") does not start the guest with more"
		}
		return Wants(setting.Exact("256"), "a tap takes no more than 256: "+fate).At(severity).otherwise("256").restart(g.Name)
	},
}

var domainCoalesce = &Knob{
	ID: "domain.coalesce", Title: "Packets of the guest pass the tap in batches", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: tiers(goal.Aggressive),
	Doc: Doc{
		Want: "32; 1 to 64 are left as they are",
		Why: "The tap hands packets of the guest to the host's network stack one by one, or up to this many at once while more are waiting: the stack's code and data then stay in the cache. " +
			"libvirt sets it with <coalesce><rx><frames max='32'/>, at the tap as rx-frames.",
		Cost:   "A batch waits for its end only while more packets are announced: hardly any latency.",
		Verify: "ethtool -c TAP shows rx-frames: 32.",
		Traps: []string{
			"The tap caps it at 64 (NAPI_POLL_WEIGHT), whatever is asked for.",
			"Since 4.20 vhost hands small packets to the tap in batches of 64 itself and this matters less: compare before and after.",
		},
		Sources: []Source{
			{"the cap", "drivers/net/tun.c, tun_set_coalesce: ec->rx_max_coalesced_frames > NAPI_POLL_WEIGHT"},
			{"batches", "drivers/net/tun.c, tun_rx_batched"},
			{"batches of vhost's own", "drivers/vhost/net.c, VHOST_NET_BATCH, vhost_tx_batch"},
			{"32", "founding measurements"},
		},
	},
	Where: eachInterface("coalesce.rx.frames.max"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if i.Type == "direct" {
			return Skips("a macvtap has no such batches")
		}
		if i.Coalesce >= 1 && i.Coalesce <= 64 {
			return Fine(fmt.Sprintf("batches of up to %d", i.Coalesce))
		}
		because := "the tap hands every packet over on its own"
		if i.Coalesce > 64 {
			because = "the tap caps it at 64, so more says what is not so"
		}
		return Wants(setting.Exact("32"), because).At(Low).otherwise("0").restart(g.Name)
	},
}
