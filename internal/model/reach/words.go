package reach

import "strings"

var words = map[Kind]string{
	Bridged: "a Linux bridge", Macvtap: "macvtap", Function: "a function passed through",
	Inner: "a network without a way out", OpenVSwitch: "Open vSwitch", Routed: "the host's routing",
	UserMode: "a user-mode NIC (slirp or passt)", VhostUser: "vhost-user", VDPA: "vDPA",
	Namespace: "another network namespace", Unresolved: "a path that is not seen whole",
}

// Words names kinds of path, for people: "Open vSwitch, vDPA".
func Words(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = words[k]
	}
	return strings.Join(names, ", ")
}
