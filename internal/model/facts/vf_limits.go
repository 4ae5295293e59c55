package facts

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// VFPort is the state of a PF that decides which VF settings work.
type VFPort struct {
	Driver  string
	Speed   int    // link speed in Mb/s; 0 or less: unknown
	Carrier string // up, down, unknown or empty
}

// VFPort returns the NIC as the port of its VFs.
func (n *NIC) VFPort() VFPort { return VFPort{n.Driver, n.Speed, n.Carrier} }

// Check returns why an attribute's value (setting.VFAttr) is invalid for a VF, or why the driver would refuse it or
// silently change it; nil if nothing is known against it. now is the VF with the values that are written together with
// this one.
func (p VFPort) Check(now VF, attribute, value string) error {
	if takes, _, source := VFSettable(p.Driver, attribute); !takes {
		return fmt.Errorf("%s cannot set %s of a virtual function (%s has no function for it)", p.Driver, attribute,
			source)
	}
	number := func(most int) (int, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > most {
			return 0, fmt.Errorf("expected a number from 0 to %d, found %q", most, value)
		}
		return n, nil
	}
	switch attribute {
	case "mac":
		return p.checkMAC(now, value)
	case "vlan": // 4095 is reserved (IEEE 802.1Q, table 9-2); mlx4 takes it for "none" (mlx4/cmd.c, mlx4_set_vf_vlan)
		_, err := number(4094)
		return err
	case "qos":
		n, err := number(7)
		if err == nil && n > 0 && now.VLAN == 0 && p.Driver == "bnxt_en" { // bnxt_sriov.c, bnxt_set_vf_vlan
			return errors.New("bnxt_en takes a priority only with a VLAN")
		}
		return err
	case "max_tx_rate":
		n, err := number(1 << 24)
		switch {
		case err != nil:
			return err
		case n > 0 && n < now.MinTxRate: // net/core/rtnetlink.c, rtnl_set_vf_rate
			return fmt.Errorf("max_tx_rate of %d Mb/s is less than min_tx_rate, %d", n, now.MinTxRate)
		}
		return p.checkRate(now, n)
	case "min_tx_rate":
		n, err := number(1 << 24)
		switch {
		case err != nil:
			return err
		case now.MaxTxRate > 0 && n > now.MaxTxRate:
			return fmt.Errorf("min_tx_rate of %d Mb/s is more than max_tx_rate, %d", n, now.MaxTxRate)
		// ice: of all its functions together (ice_sriov.c, ice_min_tx_rate_oversubscribed)
		case n > 0 && p.Speed > 0 && n > p.Speed:
			return fmt.Errorf("min_tx_rate of %d Mb/s is more than the link has, %d", n, p.Speed)
		}
		return CheckVFMinRate(p.Driver, n)
	case "spoofchk", "trust":
		if value != "on" && value != "off" {
			return fmt.Errorf("expected on or off, found %q", value)
		}
		// mlx4/cmd.c, mlx4_set_vf_spoofchk
		if attribute == "spoofchk" && value == "on" && p.Driver == "mlx4_core" && NoAddress(now.MAC) {
			return errors.New("mlx4_core checks only a function that has an address: set mac first")
		}
		return nil
	case "link_state":
		switch {
		case value != "auto" && value != "enable" && value != "disable":
			return fmt.Errorf("expected auto, enable or disable, found %q", value)
		// ixgbe_sriov.c, ixgbe_ndo_set_vf_link_state: says so in the log and answers 0
		case value == "enable" && p.Driver == "ixgbe":
			return errors.New("ixgbe does nothing for link_state enable and says that all is well: it has auto and " +
				"disable")
		}
		return nil
	}
	return fmt.Errorf("virtual functions have no attribute %s", attribute)
}

func (p VFPort) checkMAC(now VF, value string) error {
	mac, err := net.ParseMAC(value)
	switch {
	case err != nil || len(mac) != 6:
		return fmt.Errorf("expected the address of one device, such as 52:54:00:00:00:01, found %q", value)
	case mac[0]&1 != 0:
		return fmt.Errorf("%s is the address of a group: expected that of one device, such as 52:54:00:00:00:01", value)
	case mac.String() != NoMAC:
		return nil
	case vfSetters[p.Driver].noZero:
		return fmt.Errorf("%s does not take the address of no card, %s (%s); %s stands for it", p.Driver, NoMAC,
			vfSetters[p.Driver].source, altNoMAC)
	case p.Driver == "mlx4_core" && now.SpoofCheck: // mlx4/cmd.c, mlx4_set_vf_mac: EPERM
		return errors.New("mlx4_core does not take the address away while spoofchk is on")
	}
	return nil
}

// checkRate is CheckVFRate with the checks that depend on the port and the VF.
func (p VFPort) checkRate(now VF, rate int) error {
	down := p.Carrier == "down"
	switch p.Driver {
	case "ixgbe", "igb", "hinic": // the link is looked at first, also for 0
		switch {
		case down:
			return fmt.Errorf("%s sets rates only while its link is up: found it down", p.Driver)
		case p.Driver == "ixgbe" && p.Speed > 0 && p.Speed != 10000: // and it has no limits at other speeds
			return fmt.Errorf("ixgbe sets rates only while its link is up at 10000 Mb/s, found %d", p.Speed)
		}
	case "be2net", "cxgb4", "i40e":
		if down && rate > 0 {
			return fmt.Errorf("%s limits rates only while its link is up: found it down", p.Driver)
		}
	case "mlx4_core": // mlx4/cmd.c, mlx4_get_vf_config: reads as 0 until the function has a VLAN
		if rate > 0 && now.VLAN == 0 {
			return errors.New("mlx4_core limits only a function with a VLAN: set vlan too")
		}
	}
	return CheckVFRate(p.Driver, p.Speed, rate)
}

// CheckVFRate returns why a PF driver refuses a VF's transmit rate limit in Mb/s, nil if nothing is known against it. 0
// removes the limit. speed is the PF's link speed in Mb/s (0 or less: unknown).
func CheckVFRate(driver string, speed, rate int) error {
	switch {
	case rate < 0:
		return fmt.Errorf("expected a rate of 0 Mb/s or more, found %d", rate)
	case rate == 0:
		return nil
	}
	switch {
	case driver == "ixgbe" && speed > 0 && speed != 10000:
		return fmt.Errorf("ixgbe sets rates only while its link is up at 10000 Mb/s, found %d", speed)
	case driver == "i40e" && rate < 50:
		return fmt.Errorf("i40e silently makes 50 Mb/s of anything from 1 to 49, found %d", rate)
	case driver == "i40e" && rate%50 != 0:
		return fmt.Errorf("i40e limits in steps of 50 Mb/s and tells the rate that was asked for, not the one it "+
			"keeps: found %d", rate)
	}
	limit, known := vfRates[driver]
	if !known {
		return nil
	}
	most := limit.most
	if limit.link && speed > 0 {
		most = min(most, speed)
	}
	if rate < limit.least || rate > most {
		return fmt.Errorf("%s takes %d to %d Mb/s, or 0 for no limit, found %d", driver, limit.least, most, rate)
	}
	return nil
}

const unlimited = 1 << 24 // Mb/s

// vfRates are the transmit rates in Mb/s that drivers accept for a VF. Where link is set, the speed of the PF's link
// bounds them too.
var vfRates = map[string]struct {
	least, most int
	link        bool
}{
	"ixgbe": {11, 10000, false},   // drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_ndo_set_vf_bw
	"i40e":  {50, 40000, true},    // i40e/i40e_main.c, i40e_set_bw_limit; I40E_BW_CREDIT_DIVISOR
	"igb":   {1, unlimited, true}, // igb/igb_main.c, igb_ndo_set_vf_bw; an I350 limits none
	"ice":   {1, 100000, false},   // ice/ice_sched.c, ice_sched_bw_to_rl_profile: 0.5 Mb/s to 100 Gb/s
	"fm10k": {1, 100000, false},   // fm10k/fm10k_type.h, FM10K_VF_TC_MIN, FM10K_VF_TC_MAX
	// bnxt_set_vf_bw, hinic_ndo_set_vf_bw, hclge_vf_rate_param_check, cxgb4_mgmt_set_vf_rate
	"bnxt_en": {1, unlimited, true}, "hinic": {1, unlimited, true}, "hns3": {1, unlimited, true},
	"cxgb4":  {1, unlimited, true},
	"be2net": {100, unlimited, true}, // emulex/benet/be_main.c, be_set_vf_tx_rate
	"qlcnic": {100, 9999, false},     // qlogic/qlcnic/qlcnic_sriov_pf.c, qlcnic_sriov_set_vf_tx_rate
	"nfp":    {1, 65534, false},      // netronome/nfp/nfp_net_sriov.h, NFP_NET_VF_RATE_MAX
}

// CheckVFMinRate returns why a PF driver refuses a guaranteed rate for a VF, in Mb/s.
func CheckVFMinRate(driver string, rate int) error {
	switch driver {
	// *_set_vf_bw, *_set_vf_rate; fm10k ignores it
	case "ixgbe", "i40e", "igb", "be2net", "mlx4_core", "hns3", "cxgb4", "ionic", "funeth", "fm10k":
		if rate != 0 {
			return fmt.Errorf("%s guarantees no rate: min_tx_rate must be 0, found %d", driver, rate)
		}
	}
	if rate < 0 {
		return fmt.Errorf("expected a rate of 0 Mb/s or more, found %d", rate)
	}
	return nil
}

// VFRateCleared returns when a PF driver drops its VFs' rate limits by itself, empty if it is not known to.
func VFRateCleared(driver string) string {
	switch driver {
	case "ixgbe", "igb": // ixgbe_check_vf_rate_limit, igb_check_vf_rate_limit
		return "when its link comes up at another speed"
	}
	return ""
}

// VFQueues returns the number of queue pairs per VF, 0 if unknown: it bounds how many vCPUs of a guest can share the
// work.
func VFQueues(driver string) int {
	switch driver {
	case "ixgbe": // ixgbevf takes 2 for RSS with 63 VFs (82599 datasheet, section 4.6.10.1.1)
		return 2
	case "i40e": // I40E_DEFAULT_QUEUES_PER_VF
		return 4
	case "igb": // igbvf
		return 1
	}
	return 0
}
