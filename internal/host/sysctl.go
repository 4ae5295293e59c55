package host

import (
	"context"

	"mpps/internal/machine/tree"
	"mpps/internal/setting"
)

// sysctl reads and writes kernel parameters. Those below net belong to the network namespace of the process.
type sysctl struct{ m *Machine }

func (s sysctl) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.ProcSys, setting.SysctlPath(a.Path), setting.Kinds[setting.Sysctl].Canonical)
}

func (s sysctl) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	if err := s.m.SetValue(ctx, tree.ProcSys, setting.SysctlPath(a.Path), value); err != nil {
		return tree.Refused(a, value, err)
	}
	return nil
}
