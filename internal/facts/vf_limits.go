package facts

import "fmt"

// VFRate says why a driver does not take a limit of a virtual function's transmit rate in Mb/s, nil where nothing is known
// against it. 0 takes the limit away. The driver is that of the physical function, the speed that of its link in Mb/s (0
// and less: not known).
func VFRate(driver string, speed, rate int) error {
	switch {
	case rate < 0:
		return fmt.Errorf("expected a rate of 0 Mb/s or more, found %d", rate)
	case rate == 0:
		return nil
	}
	switch driver {
	case "ixgbe": // drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.c, ixgbe_ndo_set_vf_bw
		switch {
		case speed > 0 && speed != 10000:
			return fmt.Errorf("ixgbe limits rates only while its link is up at 10000 Mb/s, found %d", speed)
		case rate <= 10 || rate > 10000:
			return fmt.Errorf("ixgbe takes 11 to 10000 Mb/s, or 0 for no limit, found %d", rate)
		}
	case "i40e": // drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_ndo_set_vf_bw; I40E_BW_CREDIT_DIVISOR
		switch {
		case rate < 50:
			return fmt.Errorf("i40e silently makes 50 Mb/s of anything from 1 to 49, found %d", rate)
		case rate%50 != 0:
			return fmt.Errorf("i40e limits in steps of 50 Mb/s, found %d", rate)
		case rate > 40000:
			return fmt.Errorf("i40e takes at most 40000 Mb/s, found %d", rate)
		}
	case "igb": // drivers/net/ethernet/intel/igb/igb_main.c, igb_ndo_set_vf_bw
		if speed > 0 && rate > speed {
			return fmt.Errorf("igb takes at most the link's speed of %d Mb/s, found %d", speed, rate)
		}
	}
	return nil
}

// VFMinRate says why a driver does not take a guaranteed rate of a virtual function in Mb/s.
func VFMinRate(driver string, rate int) error {
	switch driver {
	case "ixgbe", "i40e", "igb":
		if rate != 0 {
			return fmt.Errorf("%s guarantees no rate: min_tx_rate must be 0, found %d", driver, rate)
		}
	}
	if rate < 0 {
		return fmt.Errorf("expected a rate of 0 Mb/s or more, found %d", rate)
	}
	return nil
}

// VFQueues is how many queue pairs the driver gives each virtual function, 0 where that is not known: it bounds how many
// vCPUs of a guest can share the work.
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
