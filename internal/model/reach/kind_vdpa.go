package reach

// VDPA: a device that implements virtio's data path.
const VDPA Kind = "vdpa"

var vdpa = &Hops{
	Kind: VDPA, Words: "vDPA",
	What:       "a device that implements virtio's data path",
	Interfaces: []string{"vdpa", "vhost-vdpa"},
}
