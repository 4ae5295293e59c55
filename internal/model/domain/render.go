package domain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Render builds a complete definition: a guest with multiqueue vhost-net, host-passthrough CPU, a guest agent channel,
// and no device that costs time. Everything that can be tuned goes through Set and its checks. The errors are
// *DescriptionError, *ValueError and *PathError.
func Render(s Description) (*Doc, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	d, err := Parse([]byte(s.skeleton()))
	if err != nil {
		return nil, err
	}
	if _, err := d.Apply(s.changes(), nil, Host{}); err != nil {
		return nil, err
	}
	return d, nil
}

// writer writes XML as libvirt prints it.
type writer struct {
	b     strings.Builder
	depth int
}

// line adds a line. Strings are escaped for text and for attributes in single quotes.
func (w *writer) line(format string, values ...any) {
	for i, v := range values {
		if text, is := v.(string); is {
			values[i] = escape(text, '\'')
		}
	}
	w.raw(fmt.Sprintf(format, values...))
}

// raw adds a line unescaped.
func (w *writer) raw(text string) { w.b.WriteString(strings.Repeat("  ", w.depth) + text + "\n") }

// in adds an element around the lines that inside adds.
func (w *writer) in(name, attributes string, inside func()) {
	w.raw("<" + name + attributes + ">")
	w.depth++
	inside()
	w.depth--
	w.raw("</" + name + ">")
}

// skeleton is the part that Set does not make: name, size, devices.
func (s Description) skeleton() string {
	w := &writer{}
	w.in("domain", " type='kvm'", func() {
		w.line("<name>%s</name>", s.Name)
		if s.UUID != "" {
			w.line("<uuid>%s</uuid>", s.UUID)
		}
		if s.Windows {
			s.osinfo(w)
		}
		if s.Mark != nil {
			w.in("metadata", "", func() { s.Mark.render(w) })
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
		reboot := "restart"
		if s.Kernel != "" {
			reboot = "destroy"
		}
		w.line("<on_reboot>%s</on_reboot>", reboot)
		w.line("<on_crash>destroy</on_crash>")
		w.in("devices", "", func() { s.devices(w) })
	})
	return w.b.String()
}

// osinfo marks the guest as Windows in libosinfo's terms, which virt-manager and mpps read.
func (s Description) osinfo(w *writer) {
	w.in("metadata", "", func() {
		w.in("libosinfo:libosinfo", ` xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0"`, func() {
			w.line(`<libosinfo:os id="http://microsoft.com/win/10"/>`)
		})
	})
}

func (s Description) firmware(w *writer) {
	attributes := ""
	if s.UEFI {
		attributes = " firmware='efi'"
	}
	w.in("os", attributes, func() {
		w.line("<type arch='x86_64' machine='%s'>hvm</type>", cmp.Or(s.Machine, "q35"))
		if s.Kernel == "" {
			w.line("<boot dev='hd'/>")
			return
		}
		w.line("<kernel>%s</kernel>", s.Kernel)
		w.line("<initrd>%s</initrd>", s.Initrd)
		w.line("<cmdline>%s</cmdline>", s.Arguments)
	})
}

func (s Description) devices(w *writer) {
	for i, path := range s.Disks {
		disk(w, i, path)
	}
	for _, n := range s.NICs {
		n.render(w)
	}
	if s.Console == "" {
		w.line("<serial type='pty'/>")
		w.line("<console type='pty'/>")
	} else {
		w.in("serial", " type='file'", func() { w.line("<source path='%s'/>", s.Console) })
	}
	w.in("channel", " type='unix'", func() { w.line("<target type='virtio' name='org.qemu.guest_agent.0'/>") })
	if s.Windows {
		w.line("<input type='tablet' bus='usb'/>")
		w.line("<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>")
		w.in("video", "", func() { w.line("<model type='vga'/>") })
	}
	balloon := "virtio"
	if s.Realtime || s.HugePages != "" || len(s.HostDevs) > 0 {
		balloon = "none" // locked or huge-page memory cannot be reclaimed
	}
	w.line("<memballoon model='%s'/>", balloon)
	w.in("rng", " model='virtio'", func() { w.line("<backend model='random'>/dev/urandom</backend>") })
}

// disk writes a virtio disk. Block devices bypass the host's page cache.
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

// diskName returns vda … vdz, vdaa …, as libvirt counts.
func diskName(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('a'+(i-1)%26)) + name
	}
	return "vd" + name
}

func (n NICDescription) render(w *writer) {
	if n.VF != "" {
		w.in("interface", " type='hostdev' managed='yes'", func() {
			w.in("source", "", func() {
				w.line("<address type='pci' domain='0x0000' bus='0x00' slot='0x00' function='0x0'/>")
			})
		})
		return
	}
	typ, source, name := "bridge", "<source bridge='%s'/>", n.Bridge
	switch {
	case n.Direct != "":
		typ, source, name = "direct", "<source dev='%s' mode='bridge'/>", n.Direct
	case n.Network != "":
		typ, source, name = "network", "<source network='%s'/>", n.Network
	}
	w.in("interface", " type='"+typ+"'", func() { w.line(source, name) })
}

// defaultQueues is the number of queue pairs for a NIC that does not say: up to 4. More, up to one per vCPU, is worth
// trying, but each is a host thread.
func defaultQueues(vcpus int) int { return min(vcpus, 4) }

// changes lists the values for Set, in an order in which each is allowed.
func (s Description) changes() []Change {
	var all []Change
	set := func(path, value string) { all = append(all, Change{Path: path, Value: value}) }
	for i, n := range s.NICs {
		n.changes(set, "interface/"+strconv.Itoa(i)+"/", s.VCPUs)
	}
	for _, address := range s.HostDevs {
		set("hostdev/"+address, "managed")
	}
	set("cpu/cache.mode", "passthrough")
	cpus, _ := s.cpus()
	for i, cpu := range cpus {
		set("vcpupin/"+strconv.Itoa(i), strconv.Itoa(cpu))
	}
	if s.Emulator != "" {
		set("emulatorpin", s.Emulator)
	}
	if s.HugePages != "" {
		set("memoryBacking/hugepages", s.HugePages)
	}
	s.memory(set)
	if s.Windows {
		all = append(all, hypervDefaults...)
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

// memory binds the guest's memory to host nodes. With several nodes, the guest gets one cell per node, each with a
// share of vCPUs and memory.
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

func (n NICDescription) changes(set func(path, value string), at string, vcpus int) {
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
	model := cmp.Or(n.Model, "virtio")
	set(at+"model", model)
	if strings.HasPrefix(model, "virtio") {
		set(at+"driver.name", cmp.Or(n.Driver, "vhost"))
		if n.Queues == 0 && vcpus > 1 {
			n.Queues = defaultQueues(vcpus)
		}
	}
	number("driver.queues", n.Queues)
	number("driver.rx_queue_size", n.RxQueueSize)
	number("coalesce.rx.frames.max", n.Coalesce)
	number("mtu", n.MTU)
}
