package host

import (
	"context"
	"strings"

	"mpps/internal/setting"
)

// procSys is where sysctls are files.
const procSys = "proc/sys"

// sysctl reads and writes kernel parameters. Those below net belong to the network namespace of the process.
type sysctl struct{ m *Machine }

// sysctlFile is the path of a parameter below /proc/sys, as sysctl(8) finds it: dots separate, and a slash stands for a
// dot in a name ("net.ipv4.conf.eth0/100.rp_filter"); where the first separator is a slash it is the other way about.
func sysctlFile(name string) string {
	if at := strings.IndexAny(name, "./"); at >= 0 && name[at] == '/' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

func (s sysctl) Read(_ context.Context, a setting.Address) setting.Reading {
	return s.m.readFile(procSys, sysctlFile(a.Path), setting.Kinds[setting.Sysctl].Canonical)
}

func (s sysctl) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := written(a, to)
	if err != nil {
		return err
	}
	if err := s.m.writeFile(ctx, procSys, sysctlFile(a.Path), value); err != nil {
		return refused(a, value, err)
	}
	return nil
}
