package facts

import (
	"cmp"
	"fmt"
)

// vfDriver is what a PF driver does beyond its sysfs files.
type vfDriver struct {
	guest   string // driver of its VFs on the host
	module  string // module of that driver, if it has another name
	most    int    // limit on VFs, whatever the card supports; 0: sriov_totalvfs
	needsUp bool   // its VFs have no link, or cannot be reset, while the PF is down
}

// vfDrivers is indexed by PF driver.
var vfDrivers = map[string]vfDriver{
	// drivers/net/ethernet/intel/igb/igb_main.c: igb_enable_sriov refuses more than 7 with EPERM; igb_rcv_msg_from_vf
	// answers only while the device is up.
	"igb": {guest: "igbvf", most: 7, needsUp: true},
	// drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.h: IXGBE_MAX_VFS_DRV_LIMIT; ixgbe_main.c: after ixgbe_down no VF
	// gets an answer.
	"ixgbe": {guest: "ixgbevf", most: 63, needsUp: true},
	// drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_vc_notify_vf_link_state: no link while the port has
	// none.
	"i40e": {guest: "iavf", needsUp: true},
	"ice":  {guest: "iavf", most: 256, needsUp: true}, // ice_vf_lib.h, ICE_MAX_SRIOV_VFS
	"idpf": {guest: "idpf"},
	// One module drives PFs and VFs.
	"mlx4_core": {guest: "mlx4_core"}, "mlx5_core": {guest: "mlx5_core"}, "bnxt_en": {guest: "bnxt_en"},
	"qede": {guest: "qede"},
	"hns3": {guest: "hns3"}, // hns3/hns3_enet.c, hns3_pci_tbl; hclgevf is a part that it calls
	// drivers/net/ethernet/netronome/nfp/nfp_main.c registers both; nfp_netvf_main.c: nfp_net_driver_name
	"nfp":    {guest: "nfp_netvf", module: "nfp"},
	"be2net": {guest: "be2net"}, "bnx2x": {guest: "bnx2x"}, "fm10k": {guest: "fm10k"},
	"sfc":   {guest: "sfc"},
	"cxgb4": {guest: "cxgb4vf"}, "thunder-nic": {guest: "nicvf"},
	"rvu_nicpf": {guest: "rvu_nicvf"},
	// drivers/net/ethernet/wangxun: libwx/wx_sriov.c, wx_pci_sriov_configure; txgbevf, ngbevf
	"txgbe": {guest: "txgbevf"}, "ngbe": {guest: "ngbevf"},
}

// VFDriver returns the driver for the VFs of a PF driver, empty if unknown.
func VFDriver(driver string) string { return vfDrivers[driver].guest }

// VFModule returns the module of that driver, empty if unknown.
func VFModule(driver string) string { return cmp.Or(vfDrivers[driver].module, vfDrivers[driver].guest) }

// VFNeedsUp reports whether VFs are known to be useless while their PF is down.
func VFNeedsUp(driver string) bool { return vfDrivers[driver].needsUp }

// MaxVFs returns the number of VFs that a PF can have, and the source of the limit: the card (total is sriov_totalvfs)
// or the driver. classes is the number of traffic classes (DCB), 0 or 1 without.
func MaxVFs(driver string, total, classes int) (most int, says string) {
	most, says = total, fmt.Sprintf("sriov_totalvfs is %d", total)
	limit := vfDrivers[driver].most
	if driver == "ixgbe" { // ixgbe_sriov.h, IXGBE_MAX_VFS_4TC and IXGBE_MAX_VFS_8TC; ixgbe_pci_sriov_enable
		switch {
		case classes > 4:
			limit = 15
		case classes > 1:
			limit = 31
		}
	}
	if limit > 0 && limit < most {
		most, says = limit, fmt.Sprintf("%s makes at most %d", driver, limit)
		if classes > 1 {
			says += fmt.Sprintf(" with %d traffic classes (DCB)", classes)
		}
	}
	return most, says
}
