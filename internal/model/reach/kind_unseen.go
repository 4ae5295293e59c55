package reach

// Namespace: devices in another network namespace. Where they were not read, the path is Unresolved besides.
// Unresolved:
// what is seen of the host does not say.
const (
	Namespace  Kind = "other-namespace"
	Unresolved Kind = "unresolved"
)

var otherNamespace = &Hops{
	Kind: Namespace, Words: "another network namespace", Judged: true, Kernel: true,
	But:   "on the host's side: what is set in the namespace belongs to the platform",
	What:  "devices in another network namespace: KubeVirt's pods, containers, neutron's routers",
	Needs: []string{"namespaces", "links", "routing"},
}

var unresolved = &Hops{
	Kind: Unresolved, Words: "a path that is not seen whole", Kernel: true,
	What:       "what is seen of the host does not say",
	Interfaces: []string{"af-xdp"}, // QEMU's own sockets on a NIC
}
