package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var nicChannels = &Knob{
	ID: "nic.channels", Title: "Number of NIC queues", Stage: datapath.NIC, Risk: goal.Blip,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "at least as many as there are CPUs that may serve the NIC, as far as its driver has them",
		Why: "Each queue is served by one CPU. With fewer queues than CPUs that could serve them, the rest of the CPUs stand by while one core forwards at most about 2 Mpps. " +
			"Wanted are as many as there are CPUs on the NIC's node that may serve it: those that do nothing else, those kept for the host, vhost's.",
		Cost:   "The driver takes all queues down and up: packets are lost for a moment, interrupts are numbered anew, and their affinities, XPS and RPS start from nothing.",
		Verify: "ethtool -l DEV; /proc/interrupts shows that many interrupts of the device counting.",
		Traps: []string{
			"More queues than serving CPUs bring nothing; they are left alone, because changing them costs a blip.",
			"Drivers with separate rx and tx channels (bnx2x, some virtual ones) have no combined count.",
			"igb has 8 queues; the 82575 and the i210 4, the i211 2. While VFs are enabled the 82576 has 2 and the i350 1. ixgbe and i40e have fewer with DCB or VFs.",
			"Interrupt affinities are planned after this has been applied: the interrupts are others then.",
		},
		Sources: []Source{
			{"all queues are closed and opened", "drivers/net/ethernet/intel/igb/igb_ethtool.c, igb_set_channels, igb_reinit_queues"},
			{"one core in the kernel forwards about 2 Mpps", "founding measurements, 64-byte frames"},
			{"queues of igb by its chips, with and without VFs", "drivers/net/ethernet/intel/igb/igb_main.c, igb_get_max_rss_queues; 2 measured on an emulated 82576 with sriov_numvfs set"},
		},
	},
	Where: eachNIC(func(n *facts.NIC) bool { return n.Channels != nil && n.Channels.MaxCombined > 0 }, func(n *facts.NIC) []setting.Address {
		return []setting.Address{setting.Of(setting.NICChannels, n.Name, "combined")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok {
			return advice
		}
		serving := v.Placement().NIC(n.Name)
		if serving == nil {
			return Skips("no CPU may serve it: guests have them all")
		}
		if n.Channels == nil {
			return Skips("the driver does not tell its channels")
		}
		most := n.Channels.MaxCombined
		if max := v.Readings.At(a).Max; max != nil {
			most = int(*max)
		}
		want := min(len(serving.CPUs), most)
		return onNIC(n, Wants(setting.Least(int64(want)), fmt.Sprintf("%s may serve it (%s); the driver has at most %s",
			count(len(serving.CPUs), "CPU"), serving.Why, count(most, "queue"))))
	},
}
