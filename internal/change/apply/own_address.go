package apply

import (
	"strings"

	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// tookAway reports whether a change took a virtual function's address back. The function's own driver, on the host or
// in a guest, then chooses one and tells it, another each time (igbvf, ixgbevf, iavf: eth_hw_addr_random): whatever is
// found then was set by nobody.
func tookAway(c journal.Change) bool {
	return c.Address.Kind == setting.VFAttr && strings.HasSuffix(c.Address.Path, "/mac") &&
		c.After.State == setting.Known && facts.NoAddress(c.After.Value)
}
