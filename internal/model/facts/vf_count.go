package facts

import "fmt"

// vfDriver is what the driver of a physical function is known to do beyond what its sysfs files tell.
type vfDriver struct {
	guest string // the driver of its virtual functions, as the host would load it
	most  int    // virtual functions, whatever the card could have; 0: as sriov_totalvfs says
	needs bool   // its virtual functions have no link, or cannot be reset, while it is down
}

// vfDrivers is that by the name of the driver.
var vfDrivers = map[string]vfDriver{
	// drivers/net/ethernet/intel/igb/igb_main.c: igb_enable_sriov refuses more than 7 with EPERM; igb_rcv_msg_from_vf
	// answers only while the device is up.
	"igb": {guest: "igbvf", most: 7, needs: true},
	// drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.h: IXGBE_MAX_VFS_DRV_LIMIT; ixgbe_main.c: ixgbe_down answers no
	// function.
	"ixgbe": {guest: "ixgbevf", most: 63, needs: true},
	// drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_vc_notify_vf_link_state: no link while the port has
	// none.
	"i40e": {guest: "iavf", needs: true},
	"ice":  {guest: "iavf", most: 256, needs: true}, // ice_sriov.h, ICE_MAX_SRIOV_VFS
	"idpf": {guest: "idpf"},
	// One module drives physical and virtual functions alike.
	"mlx4_core": {guest: "mlx4_core"}, "mlx5_core": {guest: "mlx5_core"}, "bnxt_en": {guest: "bnxt_en"},
	"qede": {guest: "qede"},
	"nfp":  {guest: "nfp"}, "be2net": {guest: "be2net"}, "bnx2x": {guest: "bnx2x"}, "fm10k": {guest: "fm10k"},
	"sfc":   {guest: "sfc"},
	"cxgb4": {guest: "cxgb4vf"}, "hns3": {guest: "hclgevf"}, "thunder-nic": {guest: "nicvf"},
	"rvu_nicpf": {guest: "rvu_nicvf"},
}

// VFDriver is the module that drives the virtual functions of a physical one on the host; empty where that is not
// known.
func VFDriver(driver string) string { return vfDrivers[driver].guest }

// VFNeedsUp reports whether virtual functions are known to be of no use while their physical one is down.
func VFNeedsUp(driver string) bool { return vfDrivers[driver].needs }

// VFMost is how many virtual functions a physical one can have, and what says so: its card (total, sriov_totalvfs), or
// its driver. classes is the number of its traffic classes (DCB), 0 or 1 without.
func VFMost(driver string, total, classes int) (most int, says string) {
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
