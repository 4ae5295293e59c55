package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestNestable(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sys/module/kvm_amd/parameters")
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Say(t, nestable(root, "processor : 0\nflags\t: fpu sse2\n"), "neither vmx nor svm", "neither svm nor vmx")
	must.Say(t, nestable(root, "flags : fpu vmx\n"), "kvm_intel", "kvm_intel is not loaded")
	for value, want := range map[string]bool{"0\n": false, "1\n": true, "Y\n": true, "N\n": false} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "nested"), []byte(value), 0o644))
		must.Equal(t, nestable(root, "flags : fpu svm\n") == nil, want, "nested=%q", value)
	}
	missing := filepath.Join(root, "kvm")
	must.Say(t, createsVM(missing), missing, "no device")
	must.Do(t, os.WriteFile(missing, nil, 0o644))
	must.Say(t, createsVM(missing), "creates no machine", "no device of KVM")
}

func TestArgvNamesABusForEveryDevice(t *testing.T) {
	m := machine{Tree: &Tree{Dir: "/t"}, Kernel: "/t/vmlinuz", Run: "/r", Accel: TCG, CPUs: 4, MemoryMiB: 2048,
		Mode: Shell, Persist: true, Args: []string{"isolcpus=3"}}
	argv := m.argv()
	for i, a := range argv {
		if a == "-device" && !strings.Contains(argv[i+1], "bus=") && !strings.HasPrefix(argv[i+1], "intel-iommu") {
			t.Errorf("device without a bus: %s", argv[i+1])
		}
	}
	if a := argv[len(argv)-1]; !strings.Contains(a, "lab.upper=virtiofs:upper") ||
		!strings.HasSuffix(a, " isolcpus=3") {
		t.Errorf("kernel arguments: %s", a)
	}
	m.Disk = "/d/upper.img"
	onDisk := m.argv()
	if a := strings.Join(onDisk, " "); !strings.Contains(a, "file=/d/upper.img,") ||
		!strings.Contains(a, "lab.upper=/dev/vda") || strings.Contains(a, "tag=upper") {
		t.Errorf("with a disk: %s", a)
	}
	must.Hold(t, slices.Contains(argv, "tcg,thread=multi,tb-size=512"), "not emulated")
	m.Accel = KVM
	if a := m.argv(); !slices.Contains(a, "q35,kernel-irqchip=split") || !slices.Contains(a, "host") {
		t.Errorf("KVM: %v", a)
	}
}

func TestDigestIsStable(t *testing.T) {
	if a, b := digest(), digest(); a != b || len(a) != 12 {
		t.Errorf("found %q and %q", a, b)
	}
}
