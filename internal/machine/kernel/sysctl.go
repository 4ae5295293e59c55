package kernel

import (
	"context"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of kernel parameters and of files below /sys.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.Sysctl:      sysctl{m},
		setting.Sysfs:       sysfsFile{m},
		setting.SysfsCPUs:   sysfsMask{m},
		setting.ModuleParam: moduleParam{m},
		setting.KSM:         ksm{m},
		setting.Swap:        swap{m},
		setting.TraceEvents: traceEvents{m},
	}
}

// sysctl reads and writes kernel parameters. Those below net belong to the network namespace of the process.
type sysctl struct{ m *tree.Tree }

func (s sysctl) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.ProcSys, setting.SysctlPath(a.Path), setting.Kinds[setting.Sysctl].Canonical)
}

func (s sysctl) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		return s.m.SetValue(ctx, tree.ProcSys, setting.SysctlPath(a.Path), value)
	})
}
