package sriov

// traps are known peculiarities of PF drivers that no reading shows, by driver, each with its source.
var traps = map[string][]string{
	"igb": {
		"at most 7 functions (drivers/net/ethernet/intel/igb/igb_main.c, igb_probe_vfs)",
		"with functions the physical one has 2 queues left (82576) or 1 (I350): its interrupts are others then " +
			"(igb_main.c, igb_get_max_rss_queues)",
		"traffic of functions is not counted, their link state cannot be set (igb_main.c, igb_netdev_ops)",
	},
	"ixgbe": {
		"at most 63 functions, 31 with four traffic classes of DCB, 15 with eight " +
			"(drivers/net/ethernet/intel/ixgbe/ixgbe_sriov.h)",
		"rates can be limited only while the link is up at 10G, and a change of its speed takes all limits away " +
			"(ixgbe_sriov.c, ixgbe_ndo_set_vf_bw, ixgbe_check_vf_rate_limit)",
		"link_state enable is accepted and does nothing (ixgbe_sriov.c, ixgbe_ndo_set_vf_link_state)",
		"a trusted function is promiscuous only where the physical one is when it asks, as a port of a bridge is " +
			"(ixgbe_sriov.c, ixgbe_update_vf_xcast_mode)",
	},
	"i40e": {
		"a VLAN that is set while a guest runs resets its function " +
			"(drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c, i40e_ndo_set_vf_port_vlan)",
		"rates are kept in steps of 50 Mb/s; what is read back is what was asked for (i40e_main.c, i40e_set_bw_limit)",
		"the card's firmware takes LLDP frames to itself: ethtool --set-priv-flags PF disable-fw-lldp on " +
			"(Documentation/networking/device_drivers/ethernet/intel/i40e.rst)",
	},
	"ice": {
		"without its package file (intel/ice/ddp/ice.pkg) the driver is in safe mode and makes no functions: " +
			"\"Device is in Safe Mode\" (drivers/net/ethernet/intel/ice/ice_sriov.c, ice_check_sriov_allowed)",
		"the firmware may take LLDP frames to itself: ethtool --set-priv-flags PF fw-lldp-agent off " +
			"(Documentation/networking/device_drivers/ethernet/intel/ice.rst)",
	},
	"mlx5_core": {
		"the most functions is a setting of the card: mlxconfig SRIOV_EN, NUM_OF_VFS; a change takes effect after a " +
			"cold start",
		"new functions have no address: guests make one up unless it is set " +
			"(drivers/net/ethernet/mellanox/mlx5/core/eswitch.c, mlx5_esw_vport_alloc)",
		"in switchdev mode (devlink dev eswitch show) a VLAN of a function is refused: representors and tc take its " +
			"place (mlx5/core/esw/legacy.c, mlx5_eswitch_set_vport_vlan)",
	},
	"bnxt_en": {
		"a number of functions that is written while the interface is down is ignored without an error " +
			"(drivers/net/ethernet/broadcom/bnxt/bnxt_sriov.c, bnxt_sriov_configure)",
	},
	"netdevsim": {
		"simulated: functions have settings and no PCI device, no guest can have one (drivers/net/netdevsim)",
	},
}
