package libvirt

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/domain"
)

// commandLine collects what QEMU's arguments say of its network.
type commandLine struct {
	qemu
	netdevs, onboard []string           // IDs of the back ends of -netdev, which come first, and of -nic
	backends         map[string]options // by ID
	devices          map[string]options // by the ID of their back end
	sockets          map[string]string  // paths of character devices by ID

	// NICs and back ends of -net, all of which are on one hub (net/net.c, net_client_init1)
	hubNICs, hub []options
	noDefault    bool // there is no NIC that nobody asked for
}

// parseQEMU reads QEMU's arguments. Options are "key=value,…" with a leading value (",," is a comma) or JSON.
func parseQEMU(args []string) qemu {
	c := commandLine{qemu: qemu{cpus: 1, mem: 128 << 20}, backends: map[string]options{},
		devices: map[string]options{}, sockets: map[string]string{}}
	for i := 1; i < len(args); i++ {
		option := "-" + strings.TrimLeft(args[i], "-")
		switch {
		case !strings.HasPrefix(args[i], "-"):
		case option == "-enable-kvm":
			c.kvm = true
		case option == "-nodefaults":
			c.noDefault = true
		case i+1 < len(args):
			if c.machine(option, args[i+1]) || c.network(option, args[i+1]) {
				i++
			}
		}
	}
	c.connect(len(args) > 1)
	return c.qemu
}

// machine reads an option of the machine; false if it is none.
func (c *commandLine) machine(option, value string) bool {
	switch option {
	case "-name":
		c.name = parseOptions(value, "guest")["guest"]
	case "-uuid":
		c.uuid = strings.ToLower(value)
	case "-id": // of Proxmox VE's QEMU alone
		c.number = value
	case "-pidfile":
		c.pidFile = value
	case "-smbios":
		if o := parseOptions(value, "type"); o["type"] == "1" {
			c.uuid = cmp.Or(c.uuid, strings.ToLower(o["uuid"])) // Proxmox VE has it only here
			c.system = domain.SystemInfo{Manufacturer: o["manufacturer"], Product: o["product"]}
		}
	case "-machine", "-M":
		o := parseOptions(value, "type")
		c.mach = o["type"]
		c.kvm = c.kvm || strings.HasPrefix(o["accel"], "kvm")
	case "-accel":
		c.kvm = c.kvm || parseOptions(value, "accel")["accel"] == "kvm"
	case "-smp":
		c.cpus = processors(parseOptions(value, "cpus"))
	case "-cpu":
		c.cpuMode = cpuMode(parseOptions(value, "model")["model"])
	case "-mem-path":
		c.pages = c.pages || ofHugepages(value)
	case "-object":
		c.memory(parseOptions(value, "qom-type"))
	case "-m":
		c.mem = memorySize(parseOptions(value, "size")["size"], c.mem)
	default:
		return false
	}
	return true
}

// cpuMode returns libvirt's mode of a processor of QEMU: host and max show the host's own.
func cpuMode(model string) string {
	if model == "host" || model == "max" {
		return "host-passthrough"
	}
	return "custom"
}

// memory reads an object that holds guest memory (qapi/qom.json, MemoryBackendProperties).
func (c *commandLine) memory(o options) {
	if !strings.HasPrefix(o["qom-type"], "memory-backend-") {
		return
	}
	c.pages = c.pages || ofHugepages(o["mem-path"]) || o.on("hugetlb")
	if nodes := o["host-nodes"]; nodes != "" && o["policy"] == "bind" {
		c.nodes = append(c.nodes, nodes)
	}
}

// ofHugepages reports whether a file of guest memory is in huge pages: libvirt's are below systemd's mount
// (dev-hugepages.mount), Proxmox's below /run/hugepages (PVE/QemuServer/Memory.pm).
func ofHugepages(file string) bool { return strings.Contains(file, "hugepages") }

// processors returns the number of CPUs at start: given, or the product of the topology (hw/core/machine-smp.c,
// machine_parse_smp_config).
func processors(o options) int {
	product := 1
	for _, level := range []string{"drawers", "books", "sockets", "dies", "clusters", "modules", "cores", "threads"} {
		product = min(product*o.number(level, maxVCPUs, 1), maxVCPUs)
	}
	return o.number("cpus", maxVCPUs, product)
}

// mostHubNICs is how many NICs of -net QEMU makes (include/net/net.h, MAX_NICS). Each has every back end of the hub.
const mostHubNICs = 8

// network reads an option of the network; false if it is none.
func (c *commandLine) network(option, value string) bool {
	switch option {
	case "-netdev":
		if o := parseOptions(value, "type"); o["id"] != "" {
			if c.backends[o["id"]] == nil {
				c.netdevs = append(c.netdevs, o["id"])
			}
			c.backends[o["id"]] = o
		}
	case "-nic":
		c.nic(parseOptions(value, "type"))
	case "-net":
		switch o := parseOptions(value, "type"); o["type"] {
		case "none":
		case "nic":
			if len(c.hubNICs) < mostHubNICs {
				c.hubNICs = append(c.hubNICs, o)
			}
		default:
			c.hub = append(c.hub, o)
		}
	case "-device":
		c.device(parseOptions(value, "driver"))
		return true
	case "-chardev":
		o := parseOptions(value, "backend")
		c.sockets[o["id"]] = o["path"]
		return true
	default:
		return false
	}
	c.noDefault = true // softmmu/vl.c, default_net
	return true
}

// nic reads -nic: a back end and a NIC in one option (net/net.c, net_param_nic).
func (c *commandLine) nic(o options) {
	if o["type"] == "none" {
		return
	}
	id := "nic" + strconv.Itoa(len(c.onboard))
	o["type"] = cmp.Or(o["type"], "user")
	c.onboard, c.backends[id] = append(c.onboard, id), o
	c.devices[id] = options{"driver": o["model"], "mac": o["mac"]}
}

func (c *commandLine) device(o options) {
	if id := o["netdev"]; id != "" {
		c.devices[id] = o
	}
	if !strings.HasPrefix(o["driver"], "vfio-pci") {
		return
	}
	if pci := o["host"]; pci != "" {
		c.functions = append(c.functions, longPCI(pci))
	} else if pci := path.Base(o["sysfsdev"]); strings.Count(pci, ":") == 2 {
		c.functions = append(c.functions, longPCI(pci))
	}
}

// connect makes the NICs of their back ends and devices. Without any option of the network QEMU makes a NIC in user
// mode (system/vl.c, qemu_create_default_devices).
func (c *commandLine) connect(any bool) {
	for _, id := range slices.Concat(c.netdevs, c.onboard) {
		nic := makeNIC(id, c.backends[id], c.devices[id])
		if nic.kind == "vhost-user" {
			nic.source = c.sockets[c.backends[id]["chardev"]]
		}
		c.nics = append(c.nics, nic)
	}
	for i, nic := range c.hubNICs {
		device := options{"driver": nic["model"], "mac": nic["macaddr"]}
		if id := nic["netdev"]; id != "" && c.backends[id] != nil {
			at := slices.IndexFunc(c.nics, func(n qemuNIC) bool { return n.id == id })
			c.nics[at] = makeNIC(id, c.backends[id], device)
			continue
		}
		for k, backend := range c.hub {
			c.nics = append(c.nics, makeNIC("hub"+strconv.Itoa(i)+"."+strconv.Itoa(k), backend, device))
		}
	}
	if any && !c.noDefault {
		c.nics = append(c.nics, makeNIC("default", options{"type": "user"}, nil))
	}
}

// longPCI returns a PCI address with its domain, which is 0 if QEMU's option omits it
// (hw/core/qdev-properties-system.c, set_pci_host_devaddr).
func longPCI(address string) string {
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	return strings.ToLower(address)
}

func makeNIC(id string, backend, device options) qemuNIC {
	nic := qemuNIC{id: id, model: device["driver"], kind: backend["type"], tap: backend["ifname"], queues: 1}
	nic.mac, _ = domain.CanonMAC(device["mac"])
	nic.vhost = backend.on("vhost") || backend["vhostfd"] != "" || backend["vhostfds"] != ""
	for _, count := range []string{backend["fds"], backend["vhostfds"]} {
		if count != "" {
			nic.queues = strings.Count(count, ":") + 1
		}
	}
	nic.queues = backend.number("queues", 256, nic.queues)
	if fd, _, _ := strings.Cut(backend["fds"]+backend["fd"], ":"); fd != "" {
		nic.tap = "fd:" + fd
	}
	switch nic.kind {
	case "bridge":
		nic.source = cmp.Or(backend["br"], "br0") // net/tap.c, DEFAULT_BRIDGE_INTERFACE
	case "vhost-vdpa":
		nic.source = backend["vhostdev"]
	case "af-xdp":
		nic.source, nic.tap = nic.tap, ""
	}
	nic.single = strings.HasPrefix(nic.model, "virtio") && !device.on("mq")
	nic.rxSize, nic.txSize = device.number("rx_queue_size", 32768, 0), device.number("tx_queue_size", 32768, 0)
	return nic
}

// options are the keys and values of one option of QEMU.
type options map[string]string

func parseOptions(text, first string) options {
	o := options{}
	if strings.HasPrefix(text, "{") {
		var values map[string]any
		if json.Unmarshal([]byte(text), &values) != nil {
			return o
		}
		o.flatten("", values)
		return o
	}
	const comma = "\x00"
	for i, part := range strings.Split(strings.ReplaceAll(text, ",,", comma), ",") {
		part = strings.ReplaceAll(part, comma, ",")
		key, value, found := strings.Cut(part, "=")
		switch {
		case found:
			o[key] = value
		case i == 0:
			o[first] = part
		default:
			o[part] = "on"
		}
	}
	return o
}

// flatten adds the values of a JSON object; those of objects in it as "outer.inner".
func (o options) flatten(prefix string, values map[string]any) {
	for key, value := range values {
		switch v := value.(type) {
		case string:
			o[prefix+key] = v
		case bool:
			o[prefix+key] = strconv.FormatBool(v)
		case float64:
			o[prefix+key] = strconv.FormatFloat(v, 'f', -1, 64)
		case []any: // of numbers, such as nodes
			for _, element := range v {
				if n, is := element.(float64); is {
					o[prefix+key] = strings.TrimPrefix(o[prefix+key]+","+strconv.FormatFloat(n, 'f', -1, 64), ",")
				}
			}
		case map[string]any:
			o.flatten(prefix+key+".", v)
		}
	}
}

// on reports whether a value is true (util/qemu-option.c, qapi_bool_parse).
func (o options) on(key string) bool {
	return slices.Contains([]string{"on", "yes", "true", "y"}, o[key])
}

// number returns an integer from 1 to most, or otherwise.
func (o options) number(key string, most, otherwise int) int {
	if n, err := strconv.Atoi(o[key]); err == nil && n > 0 && n <= most {
		return n
	}
	return otherwise
}

// memorySize returns a size of QEMU's -m in bytes, in MiB without a suffix; otherwise if it is malformed.
func memorySize(text string, otherwise uint64) uint64 {
	shift := 20
	if n := len(text); n > 0 {
		if at := strings.IndexByte("bkmgt", text[n-1]|0x20); at >= 0 {
			text, shift = text[:n-1], 10*at
		}
	}
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil || n == 0 || n > 1<<62>>shift {
		return otherwise
	}
	return n << shift
}
