package libvirt

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
)

// qemu is a running QEMU process, from its command line.
type qemu struct {
	pid  int
	name string
	uuid string
	nics []qemuNIC // in the order of creation
	cpus int
	mem  uint64 // bytes
	mach string
	kvm  bool

	functions []string // PCI addresses that are passed through
}

// Title returns the guest's name, or one from its PID if it has none. It can be an element of an address.
func (q qemu) Title() string {
	if q.name == "" || q.name == "." || q.name == ".." {
		return "qemu-" + strconv.Itoa(q.pid)
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, q.name)
}

// qemuNIC is one NIC of a QEMU process with a back end.
type qemuNIC struct {
	id     string // of the back end; libvirt's hostnet0 belongs to its alias net0
	mac    string
	model  string
	kind   string // tap, vhost-user, user …
	tap    string
	vhost  bool
	queues int
}

// IsQEMU reports whether a process name, which has at most 15 bytes, is QEMU's.
func IsQEMU(comm string) bool {
	return strings.HasPrefix(comm, "qemu-system-") || strings.HasPrefix(comm, "qemu-kvm") || comm == "kvm"
}

// ReadQEMU reads a QEMU process's command line; false if it cannot be read.
func ReadQEMU(m *tree.Tree, pid int) (qemu, bool) {
	text, err := m.Read("proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || text == "" {
		return qemu{}, false
	}
	q := parseQEMU(strings.Split(strings.TrimRight(text, "\x00"), "\x00"))
	q.pid = pid
	for i := range q.nics {
		if nic := &q.nics[i]; nic.tap != "" && strings.HasPrefix(nic.tap, "fd:") {
			nic.tap = tapOf(m, pid, strings.TrimPrefix(nic.tap, "fd:"))
		}
	}
	return q, true
}

// tapOf returns the device of a process's tun descriptor, from fdinfo ("iff: vnet0"; drivers/net/tun.c,
// tun_chr_show_fdinfo); empty if there is none.
func tapOf(m *tree.Tree, pid int, fd string) string {
	if _, err := strconv.Atoi(fd); err != nil {
		return ""
	}
	text, err := m.Read("proc/" + strconv.Itoa(pid) + "/fdinfo/" + fd)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(text, "iff:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// parseQEMU reads QEMU's arguments. Options are "key=value,…" with a leading value (",," is a comma) or JSON.
func parseQEMU(args []string) qemu {
	q := qemu{cpus: 1, mem: 128 << 20}
	backends, devices := map[string]options{}, map[string]options{}
	var order []string
	for i := 1; i < len(args); i++ {
		option := "-" + strings.TrimLeft(args[i], "-")
		if option == "-enable-kvm" {
			q.kvm = true
		}
		if i+1 == len(args) || !strings.HasPrefix(args[i], "-") {
			continue
		}
		value := args[i+1]
		switch option {
		case "-name":
			o := parseOptions(value, "guest")
			q.name = o["guest"]
		case "-uuid":
			q.uuid = strings.ToLower(value)
		case "-machine", "-M":
			o := parseOptions(value, "type")
			q.mach = o["type"]
			q.kvm = q.kvm || strings.HasPrefix(o["accel"], "kvm")
		case "-accel":
			q.kvm = q.kvm || parseOptions(value, "accel")["accel"] == "kvm"
		case "-smp":
			if n, err := strconv.Atoi(parseOptions(value, "cpus")["cpus"]); err == nil {
				q.cpus = n
			}
		case "-m":
			q.mem = memorySize(parseOptions(value, "size")["size"], q.mem)
		case "-netdev":
			o := parseOptions(value, "type")
			if id := o["id"]; id != "" {
				backends[id] = o
				order = append(order, id)
			}
		case "-device":
			o := parseOptions(value, "driver")
			if id := o["netdev"]; id != "" {
				devices[id] = o
			}
			if pci := o["host"]; o["driver"] == "vfio-pci" && pci != "" {
				q.functions = append(q.functions, longPCI(pci))
			}
		default:
			continue
		}
		i++
	}
	for _, id := range order {
		q.nics = append(q.nics, makeNIC(id, backends[id], devices[id]))
	}
	return q
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
	nic.vhost = backend["vhost"] == "on" || backend["vhost"] == "true" || backend["vhostfd"] != "" ||
		backend["vhostfds"] != ""
	for _, count := range []string{backend["fds"], backend["vhostfds"]} {
		if count != "" {
			nic.queues = strings.Count(count, ":") + 1
		}
	}
	if n, err := strconv.Atoi(backend["queues"]); err == nil && n > 0 && n <= 256 {
		nic.queues = n
	}
	if fd, _, _ := strings.Cut(backend["fds"]+backend["fd"], ":"); fd != "" {
		nic.tap = "fd:" + fd
	}
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
		for key, value := range values {
			switch v := value.(type) {
			case string:
				o[key] = v
			case bool:
				o[key] = strconv.FormatBool(v)
			case float64:
				o[key] = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
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
