package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// mlx5Flags are the private flags of mlx5 that change what a packet costs, with what speaks for having them on.
var mlx5Flags = []struct{ name, because string }{
	{"rx_cqe_compress", "completions of packets that arrive together take less of the PCIe link, and more of the CPU"},
	{"rx_cqe_moder", "an interrupt is put off as long as completions keep coming"},
	{"rx_striding_rq", "one receive descriptor takes many packets"},
	{"skb_tx_mpwqe", "one transmit descriptor takes several packets, where the stack hands over more than one at once"},
}

var nicPrivateFlags = &Knob{
	ID: "nic.private_flags", Title: "mlx5's own switches for descriptors and completions",
	Stage: datapath.NIC, Risk: goal.Blip, After: []string{"nic.channels"}, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.Driver == "mlx5_core" }, func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for _, f := range mlx5Flags {
			all = append(all, setting.Of(setting.NICFlag, n.Name, f.name))
		}
		return all
	}),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		reading := v.Readings.At(a)
		if reading.State == setting.Absent {
			return Skips("the driver of this kernel has no such flag")
		}
		for _, f := range mlx5Flags {
			switch {
			case a.Rest() != f.name:
			case reading.Value == "on":
				return Fine(f.because)
			case v.underLoad(n.Name):
				return Fine("off, as the driver or somebody chose").trying(setting.Exact("on"), f.because)
			}
		}
		return Fine("off, as the driver or somebody chose")
	}),
}
