package machine

import (
	"mpps/internal/machine/boot"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Writable tells why values of a kind cannot be written on this machine, whatever they are; nil where they can. On a
// recorded tree only what is a file can, and kernel arguments where the boot loader reads files that no program makes.
func (m *Machine) Writable(kind setting.Kind) error {
	if m.Live() {
		return nil
	}
	switch kind {
	case setting.Sysctl, setting.Sysfs, setting.SysfsCPUs, setting.IRQAffinity, setting.IRQCPUs,
		setting.ModuleParam, setting.KSM, setting.TraceEvents, setting.File, setting.Directory, setting.Unit,
		setting.VFCount:
		return nil
	case setting.BootKernel, setting.KernelArg:
		return boot.Writable(m.Tree, kind)
	}
	return tree.ErrNotLive
}
