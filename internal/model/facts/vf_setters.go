package facts

import (
	"slices"
	"strings"
)

// VFAttributes are what can be set of a virtual function through its physical one, in the order in which they are
// written: whoever may send from other addresses is known before its own address comes, and a rate that depends on a
// VLAN (mlx4) finds it.
var VFAttributes = []string{"trust", "spoofchk", "mac", "vlan", "qos", "max_tx_rate", "min_tx_rate", "link_state"}

// NoMAC is the address of no card: it takes a function's address back, so that its driver chooses one.
const NoMAC = "00:00:00:00:00:00"

// altNoMAC is what stands for NoMAC with drivers that refuse it. libvirt writes it too then (src/util/virnetdev.c,
// altZeroMAC).
const altNoMAC = "02:00:00:00:00:00"

// vfSetter is what is known of a driver of physical functions.
type vfSetter struct {
	takes   string // what it has a function for (struct net_device_ops); the kernel answers EOPNOTSUPP to the others
	noZero  bool   // it refuses NoMAC (is_valid_ether_addr)
	spoofOn bool   // new functions are checked for spoofing
	known   bool   // spoofOn was read in its source
	source  string // kernel file, or the function that fills what a new function has
}

// vfSetters are those of Linux 6.12, drivers/net: the *_netdev_ops of each, and where it makes its functions. By the
// name of the PCI driver.
var vfSetters = map[string]vfSetter{
	"ixgbe": {"mac vlan rate spoofchk trust link_state", false, true, true, "ixgbe_sriov.c, __ixgbe_enable_sriov"},
	"igb":   {"mac vlan rate spoofchk trust", false, true, true, "igb_main.c, igb_vf_configure"},
	"i40e":  {"mac vlan rate spoofchk trust link_state", false, true, true, "i40e_virtchnl_pf.c, i40e_alloc_vfs"},
	"ice": {"mac vlan rate spoofchk trust link_state", false, true, true,
		"ice_vf_lib.c, ice_initialize_vf_entry"},
	"fm10k": {"mac vlan rate", false, false, false, "fm10k_netdev.c"},
	"mlx5_core": {"mac vlan rate spoofchk trust link_state", false, false, true,
		"mlx5/core/eswitch.c, mlx5_esw_vport_alloc"},
	"mlx4_core": {"mac vlan rate spoofchk link_state", false, false, true, "mlx4/cmd.c, mlx4_multi_func_init"},
	"bnxt_en":   {"mac vlan rate spoofchk trust link_state", false, false, true, "bnxt_sriov.c, bnxt_set_vf_attr"},
	"bnx2x":     {"mac vlan spoofchk link_state", true, false, false, "bnx2x_main.c; bnx2x_sriov.c, bnx2x_set_vf_mac"},
	"be2net":    {"mac vlan rate spoofchk link_state", true, false, false, "be_main.c, be_set_vf_mac"},
	"enic":      {"mac", false, false, false, "enic_main.c, enic_set_vf_mac"},
	"sfc":       {"mac vlan spoofchk link_state", false, false, false, "sfc/efx.c"},
	"hns3":      {"mac vlan rate spoofchk trust link_state", false, false, false, "hns3_enet.c"},
	"qede":      {"mac vlan rate spoofchk trust link_state", true, false, false, "qede_main.c, qede_set_vf_mac"},
	"qlcnic": {"mac vlan rate spoofchk", true, false, false, "qlcnic_main.c; qlcnic_sriov_pf.c, " +
		"qlcnic_sriov_set_vf_mac"},
	"cxgb4":     {"mac vlan rate link_state", true, false, false, "cxgb4_main.c, cxgb4_mgmt_set_vf_mac"},
	"ionic":     {"mac vlan rate spoofchk trust link_state", false, false, false, "ionic_lif.c"},
	"nfp":       {"mac vlan rate spoofchk trust link_state", false, false, false, "nfp_net_common.c"},
	"hinic":     {"mac vlan rate spoofchk trust link_state", true, false, false, "hinic_sriov.c, hinic_ndo_set_vf_mac"},
	"rvu_nicpf": {"mac vlan trust", true, false, false, "otx2_pf.c, otx2_set_vf_mac"},
	"funeth":    {"mac vlan rate", false, false, false, "funeth_main.c"},
	"fsl_enetc": {"mac vlan spoofchk", true, false, false, "enetc_pf.c, enetc_pf_set_vf_mac"},
	"LiquidIO":  {"mac vlan spoofchk trust link_state", true, false, false, "lio_main.c, liquidio_set_vf_mac"},
	"netdevsim": {"mac vlan rate spoofchk trust link_state", false, false, true, "netdevsim/netdev.c; dev.c, " +
		"nsim_drv_probe"},
}

// VFTakes reports whether a driver lets an attribute be set at all, and by which file of the kernel that is known;
// known is false of drivers that are not in the list.
func VFTakes(driver, attribute string) (takes, known bool, source string) {
	d, known := vfSetters[driver]
	if !known {
		return true, false, ""
	}
	switch attribute {
	case "qos":
		attribute = "vlan"
	case "max_tx_rate", "min_tx_rate":
		attribute = "rate"
	}
	return slices.Contains(strings.Fields(d.takes), attribute), true, d.source
}

// VFFresh is what a function has that the driver has made a moment ago, by attribute: only what can be set. Whether it
// is checked for spoofing is in it only where the driver's source tells. Its own driver, here or in a guest, gives a
// function without an address one of its own.
func VFFresh(driver string) map[string]string {
	fresh := map[string]string{
		"mac": NoMAC, "vlan": "0", "qos": "0", "max_tx_rate": "0", "min_tx_rate": "0", "trust": "off",
		"link_state": "auto",
	}
	d, known := vfSetters[driver]
	if known && d.noZero {
		fresh["mac"] = altNoMAC
	}
	if d.known {
		fresh["spoofchk"] = OnOff(d.spoofOn)
	}
	if driver == "qede" { // it tells the link's speed where there is no limit (qed_sriov.c, qed_get_vf_config)
		delete(fresh, "max_tx_rate")
	}
	for attribute := range fresh {
		if takes, _, _ := VFTakes(driver, attribute); !takes {
			delete(fresh, attribute)
		}
	}
	return fresh
}

// NoAddress reports whether a function's address means that it has none.
func NoAddress(mac string) bool { return mac == NoMAC || mac == altNoMAC || mac == "" }

// PassesThrough reports whether a driver hands a function to a guest or another process: vfio-pci, those built on it
// (mlx5_vfio_pci), and those of DPDK without an IOMMU (uio_pci_generic, igb_uio).
func PassesThrough(driver string) bool {
	return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio" ||
		strings.HasSuffix(driver, "_vfio_pci") || strings.HasSuffix(driver, "-vfio-pci")
}

// OnOff is a switch of a virtual function as ip-link(8) writes it: "on" or "off".
func OnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
