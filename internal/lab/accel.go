package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Accel is how L1's CPUs run.
type Accel string

const (
	TCG Accel = "tcg" // emulated in software
	KVM Accel = "kvm" // by the processor's virtualisation
)

// BestAccel returns the accelerator for a lab with guests, and why it is not KVM. /dev/kvm is not enough: L1's guests
// need svm or vmx on L0's CPU and nested KVM. It looks once.
var BestAccel = sync.OnceValues(func() (best Accel, lack error) {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		err = cmp.Or(createsVM("/dev/kvm"), nestable("/", string(b)))
	}
	if err != nil {
		return TCG, err
	}
	return KVM, nil
})

// nestable checks what needs no device: the CPU flags and KVM's nested parameter.
func nestable(root, cpuinfo string) error {
	flags := cpuFlags(cpuinfo)
	for _, v := range []struct{ flag, module string }{{"vmx", "kvm_intel"}, {"svm", "kvm_amd"}} {
		if !slices.Contains(flags, v.flag) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, "sys/module", v.module, "parameters/nested"))
		if s := strings.TrimSpace(string(b)); err != nil || s != "Y" && s != "1" {
			return fmt.Errorf("module %s runs no nested guests", v.module)
		}
		return nil
	}
	return errors.New("the CPU has neither vmx nor svm")
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

// createsVM creates and drops a virtual machine, which tests permission and hardware at once.
func createsVM(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	const kvmCreateVM = 0xae01 // KVM_CREATE_VM, include/uapi/linux/kvm.h
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmCreateVM, 0)
	if errno != 0 {
		return fmt.Errorf("%s creates no machine: %w", path, errno)
	}
	return unix.Close(int(fd))
}
