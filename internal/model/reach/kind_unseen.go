package reach

// Namespace: devices in another network namespace. Unresolved: what is seen of the host does not say.
const (
	Namespace  Kind = "other-namespace"
	Unresolved Kind = "unresolved"
)

var otherNamespace = &Hops{
	Kind: Namespace, Words: "another network namespace", Kernel: true,
	What: "devices in another network namespace: KubeVirt's pods",
}

var unresolved = &Hops{
	Kind: Unresolved, Words: "a path that is not seen whole", Kernel: true,
	What:       "what is seen of the host does not say",
	Interfaces: []string{"af-xdp"}, // QEMU's own sockets on a NIC
}
