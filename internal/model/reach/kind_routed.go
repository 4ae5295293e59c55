package reach

import "mpps/internal/model/facts"

// Routed: the host's network layer forwards, with or without NAT.
const Routed Kind = "routed"

var routed = &Hops{
	Kind: Routed, Words: "the host's routing", Kernel: true,
	What:  "the host's network layer forwards, with or without NAT: libvirt's default and routed networks, Calico",
	Needs: []string{"routing", "netfilter"},
	Present: func(h *facts.Host) bool {
		return h.Routing != nil && h.Routing.Forward == facts.Yes && len(h.Bridges)+len(h.Taps) > 0
	},
}
