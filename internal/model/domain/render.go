package domain

import (
	"fmt"
	"strconv"
	"strings"
)

// Render makes a complete definition of a description: a guest whose packets go through vhost with several queues, that
// sees the host's own CPU, has an agent's channel, and no device that costs time. Everything that could also be tuned
// is set as Set does, with the same checks. The errors are *DescriptionError, *ValueError and *PathError.
func Render(s Description) (*Doc, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	d, err := Parse([]byte(s.skeleton()))
	if err != nil {
		return nil, err
	}
	if _, err := d.Carry(s.wishes(), nil, Host{}); err != nil {
		return nil, err
	}
	return d, nil
}

// writer makes XML as libvirt prints it.
type writer struct {
	b     strings.Builder
	depth int
}

// line adds a line, its %s escaped for text and for attributes in single quotes.
func (w *writer) line(format string, values ...any) {
	for i, v := range values {
		if text, is := v.(string); is {
			values[i] = escape(text, '\'')
		}
	}
	w.raw(fmt.Sprintf(format, values...))
}

// raw adds a line as it is.
func (w *writer) raw(text string) { w.b.WriteString(strings.Repeat("  ", w.depth) + text + "\n") }

// in adds an element around lines.
func (w *writer) in(name, attributes string, inside func()) {
	w.raw("<" + name + attributes + ">")
	w.depth++
	inside()
	w.depth--
	w.raw("</" + name + ">")
}

// skeleton is what Set does not make: name, size, devices.
func (s Description) skeleton() string {
	w := &writer{}
	w.in("domain", " type='kvm'", func() {
		w.line("<name>%s</name>", s.Name)
		if s.UUID != "" {
			w.line("<uuid>%s</uuid>", s.UUID)
		}
		if s.Windows {
			s.windowsMark(w)
		}
		w.line("<memory unit='KiB'>%d</memory>", s.MemoryKiB)
		w.line("<currentMemory unit='KiB'>%d</currentMemory>", s.MemoryKiB)
		w.line("<vcpu placement='static'>%d</vcpu>", s.VCPUs)
		s.firmware(w)
		w.in("features", "", func() {
			w.line("<acpi/>")
			w.line("<apic/>")
		})
		w.in("cpu", " mode='host-passthrough' check='none'", func() {
			w.line("<topology sockets='1' dies='1' cores='%d' threads='1'/>", s.VCPUs)
		})
		clock := "utc"
		if s.Windows {
			clock = "localtime"
		}
		w.in("clock", " offset='"+clock+"'", func() {
			w.line("<timer name='rtc' tickpolicy='catchup'/>")
			w.line("<timer name='pit' tickpolicy='delay'/>")
			w.line("<timer name='hpet' present='no'/>")
		})
		w.line("<on_poweroff>destroy</on_poweroff>")
		w.line("<on_reboot>restart</on_reboot>")
		w.line("<on_crash>destroy</on_crash>")
		w.in("devices", "", func() { s.devices(w) })
	})
	return w.b.String()
}

// windowsMark says what the guest is, in libosinfo's words: virt-manager and mpps read it there.
func (s Description) windowsMark(w *writer) {
	w.in("metadata", "", func() {
		w.in("libosinfo:libosinfo", ` xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0"`, func() {
			w.line(`<libosinfo:os id="http://microsoft.com/win/10"/>`)
		})
	})
}

func (s Description) firmware(w *writer) {
	attributes, machine := "", s.Machine
	if s.UEFI {
		attributes = " firmware='efi'"
	}
	if machine == "" {
		machine = "q35"
	}
	w.in("os", attributes, func() {
		w.line("<type arch='x86_64' machine='%s'>hvm</type>", machine)
		w.line("<boot dev='hd'/>")
	})
}

func (s Description) devices(w *writer) {
	for i, path := range s.Disks {
		disk(w, i, path)
	}
	for _, n := range s.NICs {
		n.render(w)
	}
	w.line("<serial type='pty'/>")
	w.line("<console type='pty'/>")
	w.in("channel", " type='unix'", func() { w.line("<target type='virtio' name='org.qemu.guest_agent.0'/>") })
	if s.Windows {
		w.line("<input type='tablet' bus='usb'/>")
		w.line("<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>")
		w.in("video", "", func() { w.line("<model type='vga'/>") })
	}
	balloon := "virtio"
	if s.Realtime || s.HugePages != "" || len(s.HostDevs) > 0 {
		balloon = "none" // memory that is locked, or in huge pages, cannot be taken back
	}
	w.line("<memballoon model='%s'/>", balloon)
	w.in("rng", " model='virtio'", func() { w.line("<backend model='random'>/dev/urandom</backend>") })
}

// disk writes a virtio disk. A block device is read and written past the host's page cache.
func disk(w *writer, i int, path string) {
	kind, source, options := "file", "file", ""
	if strings.HasPrefix(path, "/dev/") {
		kind, source, options = "block", "dev", " cache='none' io='native'"
	}
	format := "raw"
	if strings.HasSuffix(path, ".qcow2") {
		format = "qcow2"
	}
	w.in("disk", " type='"+kind+"' device='disk'", func() {
		w.raw("<driver name='qemu' type='" + format + "'" + options + "/>")
		w.line("<source "+source+"='%s'/>", path)
		w.line("<target dev='%s' bus='virtio'/>", diskName(i))
	})
}

// diskName counts vda … vdz, vdaa … as libvirt does.
func diskName(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('a'+(i-1)%26)) + name
	}
	return "vd" + name
}

func (n NICDescription) render(w *writer) {
	switch {
	case n.VF != "":
		w.in("interface", " type='hostdev' managed='yes'", func() {
			w.in("source", "", func() {
				w.line("<address type='pci' domain='0x0000' bus='0x00' slot='0x00' " +
					"function='0x0'/>")
			})
		})
	case n.Direct != "":
		w.in("interface", " type='direct'", func() {
			w.line("<source dev='%s' mode='bridge'/>", n.Direct)
		})
	case n.Network != "":
		w.in("interface", " type='network'", func() {
			w.line("<source network='%s'/>", n.Network)
		})
	default:
		w.in("interface", " type='bridge'", func() {
			w.line("<source bridge='%s'/>", n.Bridge)
		})
	}
}

// usualQueues is the number of queue pairs of a NIC that says none: from 4 on up to one for each vCPU is worth trying,
// and each is a thread of the host.
func usualQueues(vcpus int) int { return min(vcpus, 4) }

// wishes are the values that Set makes, in an order in which each is allowed.
func (s Description) wishes() []Wish {
	var all []Wish
	set := func(path, value string) { all = append(all, Wish{Path: path, Value: value}) }
	for i, n := range s.NICs {
		n.wishes(set, "interface/"+strconv.Itoa(i)+"/", s.VCPUs)
	}
	for _, address := range s.HostDevs {
		set("hostdev/"+address, "managed")
	}
	set("cpu/cache.mode", "passthrough")
	if own, _ := s.cpus(); own != nil {
		for i, cpu := range own {
			set("vcpupin/"+strconv.Itoa(i), strconv.Itoa(cpu))
		}
	}
	if s.Emulator != "" {
		set("emulatorpin", s.Emulator)
	}
	if s.HugePages != "" {
		set("memoryBacking/hugepages", s.HugePages)
	}
	s.memory(set)
	if s.Windows {
		all = append(all, hypervUsual...)
	}
	if s.Realtime {
		set("memoryBacking/nosharepages", "yes")
		set("memoryBacking/locked", "yes")
		set("cpu/migratable", "off")
		set("features/pmu.state", "off")
		if !s.Windows {
			set("clock/timer/kvmclock.present", "no")
		}
		for i := range s.VCPUs {
			set("vcpusched/"+strconv.Itoa(i), "fifo:1")
		}
	}
	return all
}

// memory keeps the guest's memory on host nodes. With several each is a cell of the guest, with its share of vCPUs and
// memory.
func (s Description) memory(set func(path, value string)) {
	nodes, err := ParseSet(s.Nodes)
	if s.Nodes == "" {
		return
	}
	set("numatune/memory", s.Nodes)
	if err != nil || len(nodes) < 2 || len(nodes) > s.VCPUs {
		return
	}
	cells := make([]vCell, len(nodes))
	for i := range nodes {
		var cpus []int
		for c := i * s.VCPUs / len(nodes); c < (i+1)*s.VCPUs/len(nodes); c++ {
			cpus = append(cpus, c)
		}
		share := s.MemoryKiB / uint64(len(nodes)) / 1024 * 1024 // whole MiB: libvirt rounds up
		cells[i] = vCell{cpus: FormatSet(cpus), kib: share}
	}
	cells[0].kib += s.MemoryKiB - uint64(len(nodes))*cells[0].kib
	set("cpu/numa/cells", formatCells(cells))
	for i, n := range nodes {
		set("numatune/memnode/"+strconv.Itoa(i), strconv.Itoa(n))
	}
}

func (n NICDescription) wishes(set func(path, value string), at string, vcpus int) {
	number := func(path string, value int) {
		if value != 0 {
			set(at+path, strconv.Itoa(value))
		}
	}
	if n.MAC != "" {
		set(at+"mac", n.MAC)
	}
	number("vlan", n.VLAN)
	if n.VF != "" {
		set(at+"source.pci", n.VF)
		set(at+"driver.name", "vfio")
		return
	}
	model := n.Model
	if model == "" {
		model = "virtio"
	}
	set(at+"model", model)
	if strings.HasPrefix(model, "virtio") {
		driver := n.Driver
		if driver == "" {
			driver = "vhost"
		}
		set(at+"driver.name", driver)
		if n.Queues == 0 && vcpus > 1 {
			n.Queues = usualQueues(vcpus)
		}
	}
	number("driver.queues", n.Queues)
	number("driver.rx_queue_size", n.RxQueueSize)
	number("coalesce.rx.frames.max", n.Coalesce)
	number("mtu", n.MTU)
}
