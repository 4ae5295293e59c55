package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/model/domain"
	"mpps/internal/ops/definition"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) domainRenderCommand() *cobra.Command {
	var g definition.Description
	var nics []string
	var output string
	cmd := &cobra.Command{
		Use:   "render [FILE]",
		Short: "write a complete, tuned definition from a short description",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			described := &g
			if len(given) > 0 {
				if name := describingFlag(cmd); name != "" {
					return usage(fmt.Errorf("a file and --%s: expected one of them", name), "the file has all of it")
				}
				var err error
				if described, err = definition.Read(given[0], a.stdin); err != nil {
					return err
				}
			} else if err := g.AddNICs(nics); err != nil {
				return err
			}
			d, err := described.Render()
			switch {
			case err == nil:
			case len(given) == 0:
				return usage(err, outcome.HintOf(err, ""))
			default:
				return outcome.Failed(fmt.Errorf("%s: %w", given[0], err), outcome.HintOf(err, ""))
			}
			return a.writeRendered(d, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&g.Name, "name", "", "name of the guest")
	f.StringVar(&g.UUID, "uuid", "", "UUID of the guest (default: libvirt generates one)")
	f.IntVar(&g.VCPUs, "vcpus", 1, "number of vCPUs")
	f.StringVar(&g.Memory, "memory", "", "memory size, such as 8GiB")
	f.StringArrayVar(&nics, "nic", nil, "NIC, such as br0 or vf=0000:01:10.0,vlan=7; repeatable")
	f.StringArrayVar(&g.Disks, "disk", nil, "disk: a file or a block device; repeatable")
	f.StringArrayVar(&g.HostDevs, "hostdev", nil, "PCI device to pass through, such as 0000:02:00.0; repeatable")
	f.StringVar(&g.Node, "node", "", "host NUMA nodes of the memory; several give the guest one cell each")
	f.StringVar(&g.CPUs, "cpus", "", "host CPUs, one per vCPU, such as 2-5")
	f.StringVar(&g.Emulator, "emulator-cpus", "", "host CPUs of the emulator threads")
	f.StringVar(&g.HugePages, "hugepages", "", "huge page size: 1G, 2M, or on (the host's default)")
	f.StringVar(&g.Machine, "machine", "", "machine type (default: q35)")
	f.BoolVar(&g.UEFI, "uefi", false, "boot with UEFI instead of BIOS")
	f.BoolVar(&g.Realtime, "realtime", false, "tune for a realtime guest")
	f.BoolVar(&g.Windows, "windows", false, "tune for a Windows guest")
	f.StringVarP(&output, "output", "o", "", "write the definition to this file; - is standard output")
	return cmd
}

// describingFlag returns a flag on the command line that describes the guest; empty if there is none.
func describingFlag(cmd *cobra.Command) (name string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "output" {
			name = f.Name
		}
	})
	return name
}

func (a *app) writeRendered(d *domain.Doc, output string) error {
	text := d.Bytes()
	rendered := definition.RenderResult{Name: d.Guest().Name, Guest: d.Guest()}
	switch {
	case output != "" && output != "-":
		if err := a.writeFile(output, text); err != nil {
			return err
		}
		rendered.Written = output
	case !a.json || output == "-":
		return a.writeFile("-", text)
	default:
		rendered.XML = string(text)
	}
	return a.out.Answer(report.Answer{
		Verb: "domain-render", Result: rendered,
		Text: func(t *report.Text) {
			report.Domain(t, "", rendered.Guest, nil)
			t.Line("wrote %s", output)
		},
	})
}
