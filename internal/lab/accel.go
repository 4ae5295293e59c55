package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Accel is how L1's CPUs run.
type Accel string

const (
	TCG Accel = "tcg" // emulated in software
	KVM Accel = "kvm" // by the processor's virtualisation
)

// BestAccel returns the accelerator for a lab with guests, and why. /dev/kvm is not enough: L1's guests need svm or vmx
// on L0's CPU and nested KVM.
func BestAccel() (Accel, string) {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return TCG, err.Error()
	}
	if accel, why := nestable("/", string(b)); accel == TCG {
		return TCG, why
	}
	if err := createVM("/dev/kvm"); err != nil {
		return TCG, err.Error()
	}
	return KVM, "KVM with nested guests"
}

// nestable checks what needs no device: the CPU flags and KVM's nested parameter.
func nestable(root, cpuinfo string) (Accel, string) {
	flags := cpuFlags(cpuinfo)
	for _, v := range []struct{ flag, module string }{{"vmx", "kvm_intel"}, {"svm", "kvm_amd"}} {
		if !slices.Contains(flags, v.flag) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, "sys/module", v.module, "parameters/nested"))
		if err != nil {
			return TCG, fmt.Sprintf("%s is not loaded", v.module)
		}
		if s := strings.TrimSpace(string(b)); s != "Y" && s != "1" {
			return TCG, fmt.Sprintf("%s has nested=%s", v.module, s)
		}
		return KVM, ""
	}
	return TCG, "the processor offers neither vmx nor svm, so that guests inside the lab could not run"
}

// cpuFlags returns the flags of the first CPU in /proc/cpuinfo.
func cpuFlags(cpuinfo string) []string {
	for line := range strings.Lines(cpuinfo) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "flags" {
			return strings.Fields(v)
		}
	}
	return nil
}

// createVM creates and drops a virtual machine, which tests permission and hardware at once.
func createVM(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	const kvmCreateVM = 0xae01 // KVM_CREATE_VM, include/uapi/linux/kvm.h
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmCreateVM, 0)
	if errno != 0 {
		return fmt.Errorf("%s: create a machine: %w", path, errno)
	}
	return unix.Close(int(fd))
}
