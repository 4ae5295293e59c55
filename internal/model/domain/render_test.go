package domain

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/must"
)

// descriptions are of every kind of guest; TestRenderedIsValid asks libvirt's schema about each.
var descriptions = map[string]Description{
	"least": {Name: "a", VCPUs: 1, MemoryKiB: 1024},
	"usual": {Name: "web", UUID: "5f2d1c1a-0c3b-4a55-9e5e-3e1d2c4b5a01", VCPUs: 8, MemoryKiB: 16 << 20,
		Disks: []string{"/var/lib/a.qcow2", "/dev/vg/b", "/c.img"},
		NICs: []NICDescription{{Bridge: "br0", MAC: "52:54:00:00:00:01", MTU: 9000, Coalesce: 32, RxQueueSize: 1024},
			{Network: "default", Queues: 8}, {Direct: "eth0", Model: "e1000e"},
			{Bridge: "b", Model: "virtio", Driver: "qemu", VLAN: 7}}},
	"realtime": {Name: "rt", VCPUs: 4, MemoryKiB: 4 << 20, CPUs: "2-5", Emulator: "0-1", Nodes: "0", HugePages: "1GiB",
		Realtime: true,
		NICs:     []NICDescription{{VF: "0000:01:10.0", MAC: "52:54:00:00:00:01", VLAN: 7}},
		HostDevs: []string{"0000:02:00.0", "3:0.1"}},
	"nodes": {Name: "two", VCPUs: 5, MemoryKiB: 3<<20 + 1024, Nodes: "0,2"},
	"windows": {Name: "win & <co>", VCPUs: 2, MemoryKiB: 4 << 20, Windows: true, UEFI: true, Machine: "pc-q35-7.2",
		Disks: []string{"/it's.qcow2"}},
	"booted": {Name: "mpps-vhost", VCPUs: 2, MemoryKiB: 512 << 10, NICs: []NICDescription{{Bridge: "br0"}},
		Kernel: "/run/it's/kernel", Initrd: "/run/initrd", Arguments: "console=ttyS0 a=<b>", Console: "/run/a & b",
		Mark: &Mark{Namespace: "urn:a&b", Name: "guest", Fields: map[string]string{"run": "5<6"}}},
	"both": {Name: "rtwin", VCPUs: 2, MemoryKiB: 4 << 20, Windows: true, Realtime: true, CPUs: "4-5", Emulator: "0"},
}

// TestRender: what was described is what the definition says.
func TestRender(t *testing.T) {
	for name, s := range descriptions {
		d, err := Render(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := parse(t, d.String())
		g := again.Guest()
		must.Hold(t, g.Name == s.Name && g.UUID == s.UUID && g.VCPUs.Max == s.VCPUs && g.MemoryKiB == s.MemoryKiB &&
			len(g.Interfaces) == len(s.NICs) && len(g.HostDevs) == len(s.HostDevs) && g.Agent && len(g.Unclear) <= 0 &&
			g.CPU.Mode == "host-passthrough" && g.CPU.Cache == "passthrough", "%s reads as %+v", name, g)
		var total uint64
		for _, c := range g.CPU.Cells {
			total += c.KiB
		}
		if len(g.CPU.Cells) > 0 && total != s.MemoryKiB {
			t.Errorf("%s: cells have %d KiB together, expected %d", name, total, s.MemoryKiB)
		}
		if twice, _ := Render(s); twice == nil || twice.String() != d.String() {
			t.Errorf("%s is rendered otherwise the second time", name)
		}
	}
}

func TestRenderedValues(t *testing.T) {
	cases := []struct{ of, path, want string }{
		{"usual", "interface/0/driver.queues", "4"}, {"usual", "interface/0/driver.name", "vhost"},
		{"usual", "interface/1/driver.queues", "8"},
		{"usual", "interface/2/driver.queues", ""}, {"usual", "interface/3/vlan", "7"},
		{"least", "numatune/memory.nodeset", ""},
		{"realtime", "vcpupin/3", "5"}, {"realtime", "vcpusched/3", "fifo:1"},
		{"realtime", "memoryBacking/locked", "yes"},
		{"realtime", "clock/timer/kvmclock.present", "no"}, {"realtime", "interface/0/source.pci", "0000:01:10.0"},
		{"realtime", "hostdev/0000:03:00.1", "managed"}, {"realtime", "numatune/memory.mode", "strict"},
		{"nodes", "cpu/numa/cells", "0-1:1537MiB 2-4:1536MiB"}, {"nodes", "numatune/memnode/1.nodeset", "2"},
		{"windows", "features/hyperv/spinlocks.retries", "8191"}, {"windows", "clock/timer/kvmclock.present", ""},
	}
	for _, c := range cases {
		d := must.Get(Render(descriptions[c.of]))(t)
		if got, _, err := d.Get(c.path); got != c.want || err != nil {
			t.Errorf("%s: %s is %q (%v), expected %q", c.of, c.path, got, err, c.want)
		}
	}
}

// TestRenderedMark: the mark that a program writes is the one that is read, and no other.
func TestRenderedMark(t *testing.T) {
	s := descriptions["booted"]
	d := must.Get(Render(s))(t)
	marks := d.Guest().Marks
	must.Hold(t, len(marks) == 1 && s.Mark.SameAs(marks[0]), "marks %+v in\n%s", marks, d)
	for _, other := range []Mark{{}, {Namespace: s.Mark.Namespace, Name: s.Mark.Name},
		{Namespace: s.Mark.Namespace, Name: s.Mark.Name, Fields: map[string]string{"run": "6"}}} {
		must.Hold(t, !s.Mark.SameAs(other), "taken for %+v", other)
	}
	for _, want := range []string{"<cmdline>console=ttyS0 a=&lt;b&gt;</cmdline>", "<on_reboot>destroy</on_reboot>"} {
		must.Hold(t, strings.Contains(d.String(), want), "there is no %s in\n%s", want, d)
	}
}

func TestRenderRefuses(t *testing.T) {
	good := Description{Name: "a", VCPUs: 2, MemoryKiB: 1 << 20}
	cases := []struct {
		change  func(*Description)
		problem string
	}{
		{func(s *Description) { s.Name = "" }, "expected the guest's name"},
		{func(s *Description) { s.Name = "a/b" }, "without slashes"},
		{func(s *Description) { s.Name = ".." }, "without slashes"},
		{func(s *Description) { s.Name = "a\x01" }, "does not have"},
		{func(s *Description) { s.VCPUs = 0 }, "1 to 4096"},
		{func(s *Description) { s.VCPUs = 100000 }, "1 to 4096"},
		{func(s *Description) { s.MemoryKiB = 12 }, "at least 1 MiB"},
		{func(s *Description) { s.CPUs = "1" }, "found 1 (1), expected 2"},
		{func(s *Description) { s.CPUs = "x" }, "not a number"},
		{func(s *Description) { s.CPUs, s.Emulator = "1-2", "2-3" }, "overlap"},
		{func(s *Description) { s.Realtime = true }, "no dedicated CPUs"},
		{func(s *Description) { s.NICs = []NICDescription{{}} }, "leads to 0 places"},
		{func(s *Description) { s.NICs = []NICDescription{{Bridge: "a", VF: "0000:01:10.0"}} }, "leads to 2 places"},
		{func(s *Description) { s.NICs = []NICDescription{{VF: "eth0"}} }, "PCI address"},
		{func(s *Description) { s.NICs = []NICDescription{{Bridge: "a", Queues: 257}} }, "1 to 256"},
		{func(s *Description) { s.NICs = []NICDescription{{Bridge: "a", Model: "e1000", Queues: 2}} },
			"nothing on an interface of model e1000"},
		{func(s *Description) {
			s.NICs = []NICDescription{{Bridge: "a", MAC: "52:54:00:00:00:01"}, {Bridge: "b", MAC: "52:54:00:00:00:01"}}
		}, "no other interface has"},
		{func(s *Description) { s.NICs = []NICDescription{{Bridge: "a", MAC: "zz"}} }, "a MAC address such as"},
		{func(s *Description) { s.Disks = []string{"a.img"} }, "a path from / on"},
		{func(s *Description) { s.Disks = []string{"/a\xff"} }, "does not have"},
		{func(s *Description) { s.UUID = "x" }, "expected a UUID"},
		{func(s *Description) { s.Nodes = "a" }, "such as strict:0"},
		{func(s *Description) { s.HostDevs = []string{"eth0"} }, "a PCI address"},
	}
	for _, c := range cases {
		s := good
		c.change(&s)
		_, err := Render(s)
		var described *DescriptionError
		var value *ValueError
		var path *PathError
		if !errors.As(err, &described) && !errors.As(err, &value) && !errors.As(err, &path) ||
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("expected %q, got %v", c.problem, err)
		}
	}
	must.Try(t, must.Err(Render(good)))
}

func TestDiskNames(t *testing.T) {
	for i, want := range map[int]string{0: "vda", 25: "vdz", 26: "vdaa", 701: "vdzz", 702: "vdaaa"} {
		must.Equal(t, diskName(i), want, "disk %d", i)
	}
}

// FuzzRender: whatever is described, what comes out is read as it was described.
func FuzzRender(f *testing.F) {
	f.Add("a", "br0", "/x", "52:54:00:00:00:01", 2, uint64(1<<20), false, false)
	f.Fuzz(func(t *testing.T, name, bridge, disk, mac string, vcpus int, kib uint64, windows, uefi bool) {
		s := Description{Name: name, VCPUs: vcpus, MemoryKiB: kib, Windows: windows, UEFI: uefi, Disks: []string{disk},
			NICs: []NICDescription{{Bridge: bridge, MAC: mac}}}
		d, err := Render(s)
		if err != nil {
			return
		}
		g := parse(t, d.String()).Guest()
		must.Need(t, g.Name == strings.TrimSpace(name) && g.Interfaces[0].Bridge == bridge && g.VCPUs.Max == vcpus &&
			g.MemoryKiB == kib && len(g.Unclear) <= 0, "%+v reads as %+v", s, g)
	})
}
