package reach

import "mpps/internal/model/facts"

// VhostUser: a process that shares the vrings: OVS-DPDK, VPP, a storage-like back end.
const VhostUser Kind = "vhost-user"

var vhostUser = &Hops{
	Kind: VhostUser, Words: "vhost-user",
	What:       "a polling process shares the rings: OVS-DPDK, VPP",
	Interfaces: []string{"vhostuser", "vhost-user"},
	Devices:    []string{facts.UserDatapath},
	Needs:      []string{"pollers"},
}
