package facts

import (
	"slices"
	"strings"
)

// VFAttributes are the attributes that a PF sets on its VFs, in write order: trust and spoofchk before the address, and
// the VLAN before a rate that depends on it (mlx4).
var VFAttributes = []string{"trust", "spoofchk", "mac", "vlan", "qos", "max_tx_rate", "min_tx_rate", "link_state"}

// NoMAC resets a VF's address, so that its driver chooses one.
const NoMAC = "00:00:00:00:00:00"

// altNoMAC replaces NoMAC for drivers that refuse it. libvirt does the same (src/util/virnetdev.c, altZeroMAC).
const altNoMAC = "02:00:00:00:00:00"

// vfSetter is what a PF driver can set.
type vfSetter struct {
	takes   string // attributes with a function in struct net_device_ops; the kernel answers EOPNOTSUPP for others
	noZero  bool   // refuses NoMAC (is_valid_ether_addr)
	spoofOn bool   // new VFs have spoofchk on
	known   bool   // spoofOn is from the source
	source  string // kernel file, or the function that initializes a new VF
}

// vfSetters is indexed by PCI driver, from the *_netdev_ops and the VF creation of each in Linux 6.12, drivers/net.
var vfSetters = map[string]vfSetter{
	"ixgbe": {"mac vlan rate spoofchk trust link_state", false, true, true, "ixgbe_sriov.c, __ixgbe_enable_sriov"},
	"igb":   {"mac vlan rate spoofchk trust", false, true, true, "igb_main.c, igb_vf_configure"},
	"i40e":  {"mac vlan rate spoofchk trust link_state", false, true, true, "i40e_virtchnl_pf.c, i40e_alloc_vfs"},
	"ice":   {"mac vlan rate spoofchk trust link_state", false, true, true, "ice_vf_lib.c, ice_initialize_vf_entry"},
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

// VFSettable reports whether a driver can set an attribute, and the kernel file that shows it; known is false for
// drivers that are not in the list.
func VFSettable(driver, attribute string) (takes, known bool, source string) {
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

// VFDefaults returns the attributes of a new VF, as far as they can be set. spoofchk is only included if the driver's
// source shows it. A VF without an address gets one from its own driver, on the host or in a guest.
func VFDefaults(driver string) map[string]string {
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
		if takes, _, _ := VFSettable(driver, attribute); !takes {
			delete(fresh, attribute)
		}
	}
	return fresh
}

// NoAddress reports whether a VF's address means that it has none.
func NoAddress(mac string) bool { return mac == NoMAC || mac == altNoMAC || mac == "" }

// PassesThrough reports whether a driver passes a function to a guest or another process: vfio-pci, drivers based on it
// (mlx5_vfio_pci), and DPDK's drivers without an IOMMU (uio_pci_generic, igb_uio).
func PassesThrough(driver string) bool {
	return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio" ||
		strings.HasSuffix(driver, "_vfio_pci") || strings.HasSuffix(driver, "-vfio-pci")
}

// OnOff returns a VF flag as ip-link(8) writes it: "on" or "off".
func OnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
