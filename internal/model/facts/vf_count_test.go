package facts

import (
	"testing"

	"mpps/internal/must"
)

func TestVFMost(t *testing.T) {
	for _, c := range []struct {
		driver         string
		total, classes int
		most           int
		says           string
	}{
		{"igb", 8, 0, 7, "igb makes at most 7"},
		{"igb", 4, 0, 4, "sriov_totalvfs is 4"},
		{"ixgbe", 64, 1, 63, "ixgbe makes at most 63"},
		{"ixgbe", 63, 0, 63, "sriov_totalvfs is 63"},
		{"ixgbe", 63, 4, 31, "ixgbe makes at most 31 with 4 traffic classes (DCB)"},
		{"ixgbe", 63, 8, 15, "ixgbe makes at most 15 with 8 traffic classes (DCB)"},
		{"mlx5_core", 127, 8, 127, "sriov_totalvfs is 127"},
		{"unheard-of", 12, 0, 12, "sriov_totalvfs is 12"},
	} {
		if most, says := MaxVFs(c.driver, c.total, c.classes); most != c.most || says != c.says {
			t.Errorf("%s of %d with %d classes: %d, %s", c.driver, c.total, c.classes, most, says)
		}
	}
	must.Hold(t, VFDriver("nfp") == "nfp_netvf" && VFModule("nfp") == "nfp" && VFDriver("hns3") == "hns3" &&
		VFModule("ixgbe") == "ixgbevf", "drivers with the names of others")
	must.Hold(t, VFDriver("ixgbe") == "ixgbevf" && VFDriver("unheard-of") == "" && VFNeedsUp("igb") &&
		!VFNeedsUp("mlx5_core"), "drivers of functions")
}
