package apply

import (
	"strings"

	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// tookAway reports whether a change reset a virtual function's address. The function's driver, on the host or in a
// guest, then chooses and announces a random one each time (igbvf, ixgbevf, iavf: eth_hw_addr_random), so an address
// found afterwards was set by nobody.

func tookAway(c journal.Change) bool {
	return c.Address.Kind == setting.VFAttr && strings.HasSuffix(c.Address.Path, "/mac") &&
		c.After.State == setting.Known && facts.NoAddress(c.After.Value)
}
