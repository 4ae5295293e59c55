package kernel

import (
	"context"
	"fmt"
	"path"
	"strings"

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

// sysfsFile reads and writes plain sysfs files.
type sysfsFile struct{ m *tree.Tree }

func (s sysfsFile) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.Sys, a.Path, func(text string) (string, error) {
		return setting.Kinds[setting.Sysfs].Canonical(choice(text))
	})
}

func (s sysfsFile) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error { return s.m.SetValue(ctx, tree.Sys, a.Path, value) })
}

// choice returns the word in brackets of a list of choices ("always [madvise] never"), or else the whole text.
func choice(text string) string {
	words := strings.Fields(text)
	choice, brackets := "", 0
	for _, word := range words {
		if len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' {
			choice = word[1 : len(word)-1]
			brackets++
		}
	}
	if brackets != 1 || len(words) < 2 {
		return text
	}
	return choice
}

// sysfsMask reads and writes sysfs files with a CPU mask: XPS, RPS, workqueues. A device with one transmit queue has no
// XPS: it reads as a missing file.
type sysfsMask struct{ m *tree.Tree }

func (s sysfsMask) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.Value(tree.Sys, a.Path, func(text string) (string, error) {
		set, err := setting.ParseCPUMask(text)
		return set.String(), err
	})
}

func (s sysfsMask) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		set, err := setting.ParseCPUs(value)
		if err != nil {
			return err
		}
		return s.m.SetValue(ctx, tree.Sys, a.Path, set.Mask())
	})
}

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
