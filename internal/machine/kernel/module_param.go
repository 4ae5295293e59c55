package kernel

import (
	"context"
	"fmt"
	"path"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// moduleParam reads the parameters of loaded modules and writes those that can be changed while the module is in use.
// Most are read only when the module is loaded.
type moduleParam struct{ m *tree.Tree }

func (p moduleParam) file(a setting.Address) (string, error) {
	module, parameter, found := strings.Cut(a.Path, "/")
	if !found || module == "" || parameter == "" || strings.Contains(parameter, "/") {
		return "", fmt.Errorf("expected MODULE/PARAMETER, found %q", a.Path)
	}
	return path.Join("module", module, "parameters", parameter), nil
}

func (p moduleParam) Read(_ context.Context, a setting.Address) setting.Reading {
	file, err := p.file(a)
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	r := p.m.Value(tree.Sys, file, setting.Kinds[setting.ModuleParam].Canonical)
	switch {
	case r.ReadOnly:
		r.Why = "a load-time parameter: " + a.Object() + " must be reloaded with it (modprobe.d), and whatever " +
			"uses it ended first: of kvm and vhost all guests shut down"
	case r.State == setting.Absent && !p.m.Exists(path.Join(tree.Sys, "module", a.Object())):
		r.Why = "module " + a.Object() + " is not loaded"
	case r.State == setting.Absent:
		r.Why = "module " + a.Object() + " of this kernel has no such parameter"
	}
	return r
}

func (p moduleParam) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		file, err := p.file(a)
		if err != nil {
			return err
		}
		return p.m.SetValue(ctx, tree.Sys, file, value)
	})
}
