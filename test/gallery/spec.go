package gallery

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Spec is a host file laid over its base.
type Spec struct {
	Folder string `yaml:"-"` // below hosts
	Name   string `yaml:"-"` // of the file, without .yaml
	Title  string `yaml:"title"`
	Base   string `yaml:"base"`

	Arch     string `yaml:"arch"`     // as uname -m
	Kernel   string `yaml:"kernel"`   // as uname -r
	Realtime bool   `yaml:"realtime"` // PREEMPT_RT
	Distro   string `yaml:"distro"`   // ID and VERSION_ID of os-release: "debian 12"
	Cmdline  string `yaml:"cmdline"`  // arguments besides BOOT_IMAGE, root and ro
	Loader   string `yaml:"loader"`   // grub, grub-bls, systemd-boot; none
	Virtual  string `yaml:"virtual"`  // hypervisor under this host

	CPU        CPU               `yaml:"cpu"`
	Memory     Memory            `yaml:"memory"`
	Vulnerable map[string]string `yaml:"vulnerable"` // name and the kernel's status
	Power      Power             `yaml:"power"`
	KVM        KVM               `yaml:"kvm"`
	NICs       map[string]NIC    `yaml:"nics"`
	Devices    map[string]Device `yaml:"devices"` // bridges, bonds, VLANs, tunnels
	Rules      Rules             `yaml:"rules"`
	Routing    Routing           `yaml:"routing"`
	Guests     map[string]Guests `yaml:"guests"`
	Services   map[string]bool   `yaml:"services"` // installed ones; true: it runs
	Storage    map[string]int    `yaml:"storage"`  // daemons by name
	Swap       bool              `yaml:"swap"`

	// Readings gives values to addresses. * in an address stands for any text; the longest pattern counts. A value is
	// text, absent, unknown, online (the list of online CPUs), with "since 6.2" or "before 6.2" after it where only
	// such kernels have it.
	Readings map[string]string `yaml:"readings"`
	Interval *Interval         `yaml:"interval"` // what counters did while watched
	// Facts are laid over what was made of the rest, in the format of a snapshot's result.
	Facts  map[string]any `yaml:"facts"`
	Unread bool           `yaml:"unread"` // nothing of it could be read

	// Goals are those that Says is about, as flags; "--pps 1.8M" if empty.
	Goals []string `yaml:"goals"`
	Role  string   `yaml:"role"` // what the machine is (facts.Role); host if empty
	// Paths are the kinds of the paths of the guests' NICs (reach.Kind), sorted, without repeats.
	Paths []string `yaml:"paths"`
	// Guide is the guide that the host is tuned by: its audit for Goals has no finding above low.
	Guide string `yaml:"guide"`

	// Says, SaysNot and PlansNot map what must, must not be said and must not be planned to the reason why.
	Says     map[string]string `yaml:"says"`
	SaysNot  map[string]string `yaml:"says-not"`
	PlansNot map[string]string `yaml:"plans-not"`
}

// CPU describes all sockets, which are equal.
type CPU struct {
	Vendor  string `yaml:"vendor"`
	Model   string `yaml:"model"`
	Sockets int    `yaml:"sockets"`
	Cores   int    `yaml:"cores"`   // of a socket
	Threads int    `yaml:"threads"` // of a core
	Nodes   int    `yaml:"nodes"`   // of a socket: NPS, sub-NUMA clusters
	L3      int    `yaml:"l3"`      // cores that share an L3 cache; 0: those of a socket; -1: none
	L3MiB   int    `yaml:"l3-mib"`  // of each
	// Numbering of CPUs: apart (first threads first, as usual), adjacent (threads of a core side by side), or
	// alternating (neighbours on different sockets).
	Numbering string `yaml:"numbering"`
	Offline   string `yaml:"offline"`
	Remote    int    `yaml:"remote"` // distance between sockets; 0: 32 of AMD, else 21
	// Rows are the cores of a recorded machine in place of all numbers above: package, node and L3 cache (-1: none), a
	// colon, and the CPUs of the core.
	Rows []string `yaml:"rows"`
}

// Memory is in GiB for the host, in pages for the pools, each divided evenly among the nodes.
type Memory struct {
	GiB   int `yaml:"gib"`
	Pages map[string]int
	Far   []int `yaml:"far"`   // nodes of memory without CPUs, such as CXL's, after those of CPUs
	Empty []int `yaml:"empty"` // nodes of CPUs without memory
}

// Power is the CPUs' power management.
type Power struct {
	Driver   string `yaml:"driver"` // of cpufreq; none
	Governor string `yaml:"governor"`
	EPP      string `yaml:"epp"`
	Idle     string `yaml:"idle"`   // driver of cpuidle; none
	States   string `yaml:"states"` // name:µs, those after "-" are disabled: "POLL:0 C1:2 -C6:133"
}

// KVM is the hypervisor.
type KVM struct {
	Module     string            `yaml:"module"` // kvm_intel, kvm_amd, kvm; none
	Vhost      bool              `yaml:"vhost"`
	QEMU       string            `yaml:"qemu"`
	Libvirt    string            `yaml:"libvirt"`
	Parameters map[string]string `yaml:"parameters"`
}

// NIC is a physical NIC, laid over what bases/drivers.yaml says of its driver.
type NIC struct {
	Driver     string            `yaml:"driver"`
	Bus        string            `yaml:"bus"`    // pci if empty
	Speed      int               `yaml:"speed"`  // Mb/s
	Queues     int               `yaml:"queues"` // 0: a queue for each CPU, as far as the driver has them
	MaxQueues  int               `yaml:"max-queues"`
	Separate   bool              `yaml:"separate"` // rx and tx channels in place of combined ones
	Rings      int               `yaml:"rings"`    // rx and tx; 0: the driver does not tell
	MaxRings   int               `yaml:"max-rings"`
	Node       int               `yaml:"node"`
	Master     string            `yaml:"master"` // bridge or bond
	Management bool              `yaml:"management"`
	Down       bool              `yaml:"down"`
	MTU        int               `yaml:"mtu"`
	IRQ        string            `yaml:"irq"` // name of a queue's interrupt, with %s for the NIC and %d for the queue
	Managed    bool              `yaml:"managed"`
	Coalesce   map[string]string `yaml:"coalesce"`
	Hash       map[string]string `yaml:"hash"`  // letters by flow
	Off        []string          `yaml:"off"`   // features that are off; all others are on
	Fixed      []string          `yaml:"fixed"` // features that are off and cannot be switched on
	MaxVFs     int               `yaml:"max-vfs"`
	VFs        int               `yaml:"vfs"`
	IRQs       string            `yaml:"irqs"` // CPUs that serve them, in turn; empty: those of the NIC's node
	Link       string            `yaml:"link"` // "16 GT/s x8"
	Port       string            `yaml:"port"` // of an embedded switch: p0, pf0vf1
}

// Device is a network device that is neither a NIC nor a tap.
type Device struct {
	Kind      string   `yaml:"kind"` // of facts.Bridge, facts.TunnelTypes, or facts.Link: veth, team, openvswitch …
	Master    string   `yaml:"master"`
	Lower     string   `yaml:"lower"`
	Underlay  []string `yaml:"underlay"`  // where routes to a tunnel's other ends leave by
	Peer      string   `yaml:"peer"`      // of a veth
	Elsewhere bool     `yaml:"elsewhere"` // its other end is in another network namespace
	Programs  []string `yaml:"programs"`  // BPF programs that choose where its packets go
	Queues    int      `yaml:"queues"`    // 1 if 0
	MTU       int      `yaml:"mtu"`       // of a tunnel; 0: not recorded
	Locked    bool     `yaml:"locked"`
	VLAN      bool     `yaml:"vlan-filtering"`
	STP       bool     `yaml:"stp"`
	Snooping  bool     `yaml:"snooping"`
	Hooks     bool     `yaml:"hooks"` // hands frames to iptables
}

// Routing is what the host forwards.
type Routing struct {
	Forward    bool     `yaml:"forward"`
	Masquerade bool     `yaml:"masquerade"`
	Addressed  []string `yaml:"addressed"` // devices with an address, besides the management NIC
	Uplinks    []string `yaml:"uplinks"`   // the management NIC if there are none
	Unknown    bool     `yaml:"unknown"`   // routes were not recorded
}

// Rules are those of netfilter.
type Rules struct {
	BridgeModule bool                `yaml:"br_netfilter"`
	Conntrack    bool                `yaml:"conntrack"`
	Sets         map[string][]string `yaml:"sets"` // by tool
}

// Guests are guests that differ in name, addresses and places only.
type Guests struct {
	Count int `yaml:"count"` // 1 if 0
	// libvirt (as when empty), nova, ovirt, zstack, cloudstack, kubevirt, opennebula, nutanix; without libvirt on the
	// host qemu, proxmox, incus, pod (of KubeVirt), harvester
	By        string   `yaml:"by"`
	VCPUs     int      `yaml:"vcpus"`
	GiB       int      `yaml:"gib"` // memory; 2 for each vCPU if 0
	Mode      string   `yaml:"mode"`
	Machine   string   `yaml:"machine"`
	Stopped   bool     `yaml:"stopped"`
	Paused    bool     `yaml:"paused"`
	Windows   bool     `yaml:"windows"`
	Pages     bool     `yaml:"pages"`    // huge pages of the default size
	Nodes     string   `yaml:"nodes"`    // of its memory
	CPUs      string   `yaml:"cpus"`     // where its vCPUs are pinned: the next of these for each vCPU of each guest
	Floating  bool     `yaml:"floating"` // each vCPU may use all of CPUs
	Pinned    int      `yaml:"pinned"`   // how many vCPUs of a guest are pinned to these; 0: all
	Emulator  string   `yaml:"emulator"`
	IOThreads int      `yaml:"iothreads"`
	Vhost     string   `yaml:"vhost"` // where its vhost threads are pinned, in turn; empty: the emulator's
	NICs      []VNIC   `yaml:"nics"`
	VFs       []string `yaml:"vfs"`      // eth0/0; the next guest has the next one
	Hostdevs  []string `yaml:"hostdevs"` // PCI addresses of whole devices
	FIFO      string   `yaml:"fifo"`     // vCPUs with a realtime priority
	Locked    bool     `yaml:"locked"`
	Private   bool     `yaml:"private"` // its memory is not shared, though it has a NIC of vhost-user
	// Recorded is the file of a recorded definition in definitions, in place of what the keys above would make.
	Recorded string `yaml:"recorded"`
	// their taps are in another network namespace
	Elsewhere bool `yaml:"elsewhere"`
	// that of facts.namespaces, where they are tap0, tap1 …
	Namespace uint64 `yaml:"namespace"`
	Extra     string `yaml:"extra"` // elements of its definition, before <devices>
}

// VNIC is a guest's NIC. Its short form is the name of a bridge.
type VNIC struct {
	Type    string `yaml:"type"` // bridge, network, direct, ethernet, vhostuser, vdpa, user; QEMU's tap, user, vhost-user
	Source  string `yaml:"source"`
	Master  string `yaml:"master"` // of its tap where Source does not say
	Mode    string `yaml:"mode"`   // of macvtap
	Model   string `yaml:"model"`
	Backend string `yaml:"backend"` // vhost, qemu; "-": libvirt's choice
	Queues  int    `yaml:"queues"`
	Rx      int    `yaml:"rx"` // sizes of its rings
	Tx      int    `yaml:"tx"`
	Batch   int    `yaml:"batch"` // frames that its tap takes at once
}

// UnmarshalYAML reads both forms.
func (v *VNIC) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		v.Type, v.Source = "bridge", n.Value
		return nil
	}
	type plain VNIC
	return n.Decode((*plain)(v))
}

// Interval is what was counted while the host was watched.
type Interval struct {
	Seconds   float64                      `yaml:"seconds"`
	Processed uint64                       `yaml:"processed"`
	Squeezed  uint64                       `yaml:"squeezed"`
	Dropped   uint64                       `yaml:"dropped"`
	Devices   map[string]map[string]uint64 `yaml:"devices"`
	IRQs      map[string]uint64            `yaml:"irqs"`
}

// Read reads the hosts of a directory that has hosts and bases, in the order of their folders and names.
func Read(dir fs.FS) ([]*Spec, error) {
	names, err := fs.Glob(dir, "hosts/*/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*Spec
	var errs []error
	if strays, _ := fs.Glob(dir, "hosts/*.yaml"); len(strays) > 0 {
		errs = append(errs, fmt.Errorf("%s: in no folder, and so judged by nothing", strays[0]))
	}
	for _, name := range names {
		s, err := readSpec(dir, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		s.Folder, s.Name = path.Base(path.Dir(name)), strings.TrimSuffix(path.Base(name), ".yaml")
		if i := slices.IndexFunc(all, func(other *Spec) bool { return other.Name == s.Name }); i >= 0 {
			errs = append(errs, fmt.Errorf("%s: there is another %s in %s", name, s.Name, all[i].Folder))
		}
		all = append(all, s)
	}
	return all, errors.Join(errs...)
}

func readSpec(dir fs.FS, name string) (*Spec, error) {
	tree, err := layered(dir, name, 0)
	if err != nil {
		return nil, err
	}
	drivers, err := readTree(dir, "bases/drivers.yaml")
	if err != nil {
		return nil, err
	}
	nics, _ := tree["nics"].(map[string]any)
	for nic, is := range nics {
		own, _ := is.(map[string]any)
		of, known := drivers[fmt.Sprint(own["driver"])].(map[string]any)
		if !known {
			return nil, fmt.Errorf("NIC %s: bases/drivers.yaml has no driver %v", nic, own["driver"])
		}
		nics[nic] = merge(of, own)
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil, err
	}
	s := &Spec{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return s, decoder.Decode(s)
}

// layered reads a file laid over its bases.
func layered(dir fs.FS, name string, depth int) (map[string]any, error) {
	own, err := readTree(dir, name)
	if err != nil {
		return nil, err
	}
	base, based := own["base"]
	if !based {
		return own, nil
	}
	if depth > 9 {
		return nil, errors.New("the bases make a circle")
	}
	below, err := layered(dir, fmt.Sprintf("bases/%v.yaml", base), depth+1)
	if err != nil {
		return nil, err
	}
	return merge(below, own), nil
}

func readTree(dir fs.FS, name string) (map[string]any, error) {
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tree, nil
}

// merge lays one tree over another: maps key by key, all else as a whole. A key without a value takes it away.
func merge(below, over map[string]any) map[string]any {
	all := maps.Clone(below)
	if all == nil {
		all = map[string]any{}
	}
	for key, value := range over {
		was, wasMap := all[key].(map[string]any)
		is, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(all, key)
		case wasMap && isMap:
			all[key] = merge(was, is)
		default:
			all[key] = value
		}
	}
	return all
}

// sorted returns a map's keys in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
