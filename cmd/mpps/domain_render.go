package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"mpps/internal/domain"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// domainRendered is the answer of mpps domain render.
type domainRendered struct {
	Name    string       `json:"name"`
	Guest   domain.Guest `json:"guest"`             // what the definition says
	Written string       `json:"written,omitempty"` // the file that was written
	XML     string       `json:"xml,omitempty"`     // the definition, where it was written to no file
}

// describedGuest is a description as it stands in a file.
type describedGuest struct {
	Name      string         `yaml:"name"`
	UUID      string         `yaml:"uuid"`
	VCPUs     int            `yaml:"vcpus"`
	Memory    string         `yaml:"memory"`
	NICs      []describedNIC `yaml:"nics"`
	Disks     []string       `yaml:"disks"`
	HostDevs  []string       `yaml:"hostdevs"`
	Node      string         `yaml:"node"`
	CPUs      string         `yaml:"cpus"`
	Emulator  string         `yaml:"emulator_cpus"`
	HugePages string         `yaml:"hugepages"`
	Machine   string         `yaml:"machine"`
	UEFI      bool           `yaml:"uefi"`
	Realtime  bool           `yaml:"realtime"`
	Windows   bool           `yaml:"windows"`
}

type describedNIC struct {
	Bridge      string `yaml:"bridge"`
	Network     string `yaml:"network"`
	Direct      string `yaml:"direct"`
	VF          string `yaml:"vf"`
	MAC         string `yaml:"mac"`
	Model       string `yaml:"model"`
	Driver      string `yaml:"driver"`
	Queues      int    `yaml:"queues"`
	RxQueueSize int    `yaml:"rx_queue_size"`
	Coalesce    int    `yaml:"coalesce_rx"`
	MTU         int    `yaml:"mtu"`
	VLAN        int    `yaml:"vlan"`
}

func (a *app) domainRenderCommand() *cobra.Command {
	var g describedGuest
	var nics []string
	var output string
	cmd := &cobra.Command{
		Use:   "render [FILE]",
		Short: "a complete good definition from a short description",
		Long: `Writes a definition from flags, or from a YAML file with the same names (- for
standard input). NICs are virtio with vhost and several queues, the guest sees
the host's CPU and caches, and has a channel for its agent. Realtime guests get
locked memory, no balloon, no kvmclock and a realtime scheduler; Windows guests
the enlightenments of Hyper-V.

A NIC is where it leads, and what else it has: br0, bridge=br0,queues=8,
network=default, direct=eth0, vf=0000:01:10.0,mac=52:54:00:00:00:01,vlan=7; with
mac, model, driver, queues, rx_queue_size, coalesce_rx, mtu, vlan.

  mpps domain render --name vm1 --vcpus 4 --memory 8GiB --nic br0 -o vm1.xml
  mpps domain render guest.yaml | virsh define /dev/stdin`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			described := &g
			if len(given) > 0 {
				if name := firstChanged(cmd, renderFlags); name != "" {
					return usage(fmt.Errorf("a file and --%s: expected one of them", name), "the file has all of it")
				}
				var err error
				if described, err = a.readDescription(given[0]); err != nil {
					return err
				}
			} else if err := g.addNICs(nics); err != nil {
				return err
			}
			d, err := described.render()
			var wrong *domain.DescriptionError
			switch {
			case err == nil:
			case len(given) == 0:
				return usage(err, outcome.HintOf(err, ""))
			case errors.As(err, &wrong):
				return outcome.Failed(fmt.Errorf("%s: %w", given[0], err), wrong.Hint())
			default:
				return outcome.Failed(fmt.Errorf("%s: %w", given[0], err), outcome.HintOf(err, ""))
			}
			return a.writeRendered(d, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&g.Name, "name", "", "the guest's name")
	f.StringVar(&g.UUID, "uuid", "", "its UUID (default: libvirt makes one)")
	f.IntVar(&g.VCPUs, "vcpus", 1, "virtual CPUs")
	f.StringVar(&g.Memory, "memory", "", "its memory, such as 8GiB")
	f.StringArrayVar(&nics, "nic", nil, "a NIC, such as br0 or vf=0000:01:10.0,vlan=7; may be repeated")
	f.StringArrayVar(&g.Disks, "disk", nil, "a disk: a file or a block device; may be repeated")
	f.StringArrayVar(&g.HostDevs, "hostdev", nil, "a PCI function, such as 0000:02:00.0; may be repeated")
	f.StringVar(&g.Node, "node", "", "host nodes of its memory; several make a cell of the guest for each")
	f.StringVar(&g.CPUs, "cpus", "", "a CPU for each vCPU, such as 2-5")
	f.StringVar(&g.Emulator, "emulator-cpus", "", "CPUs of QEMU's own threads")
	f.StringVar(&g.HugePages, "hugepages", "", "page size of its memory: 1G, 2M, or on")
	f.StringVar(&g.Machine, "machine", "", "machine type (default q35)")
	f.BoolVar(&g.UEFI, "uefi", false, "UEFI instead of BIOS")
	f.BoolVar(&g.Realtime, "realtime", false, "a realtime guest")
	f.BoolVar(&g.Windows, "windows", false, "a Windows guest")
	f.StringVarP(&output, "output", "o", "", "write the definition to this file; - is standard output")
	return cmd
}

var renderFlags = []string{"name", "uuid", "vcpus", "memory", "nic", "disk", "hostdev", "node", "cpus", "emulator-cpus", "hugepages", "machine", "uefi", "realtime", "windows"}

func firstChanged(cmd *cobra.Command, names []string) string {
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			return n
		}
	}
	return ""
}

// readDescription reads a file; one that nobody would write by hand is refused by its size.
func (a *app) readDescription(name string) (*describedGuest, error) {
	const most = 1 << 20
	from := a.stdin
	if name != "-" {
		f, err := ops.OpenFile(name)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("description: %w", err), "expected a YAML file, or flags such as --name and --vcpus")
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && len(text) > most {
		err = errors.New("larger than 1 MiB")
	}
	described := &describedGuest{VCPUs: 1}
	if err == nil {
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		err = decoder.Decode(described)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("found nothing, expected name, vcpus, memory …")
	}
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("description %s: %s", name, yamlProblem(err)), "see 'mpps domain render --help' for what it may hold")
	}
	return described, nil
}

// yamlProblem is what is wrong with a file, in one line and without names of Go.
func yamlProblem(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	for _, of := range []string{"describedGuest", "describedNIC"} {
		text = strings.ReplaceAll(text, " not found in type main."+of, " is not known")
	}
	return strings.Join(strings.Fields(text), " ")
}

// addNICs reads NICs as flags have them: WHERE or KEY=VALUE, separated by commas.
func (g *describedGuest) addNICs(all []string) error {
	for _, text := range all {
		var n describedNIC
		words := map[string]*string{"bridge": &n.Bridge, "network": &n.Network, "direct": &n.Direct, "vf": &n.VF, "mac": &n.MAC, "model": &n.Model, "driver": &n.Driver}
		numbers := map[string]*int{"queues": &n.Queues, "rx_queue_size": &n.RxQueueSize, "coalesce_rx": &n.Coalesce, "mtu": &n.MTU, "vlan": &n.VLAN}
		for i, part := range strings.Split(text, ",") {
			key, value, found := strings.Cut(part, "=")
			if !found && i == 0 {
				key, value = "bridge", part
			}
			var err error
			switch {
			case value == "":
				err = errors.New("expected KEY=VALUE")
			case words[key] != nil:
				*words[key] = value
			case numbers[key] != nil:
				*numbers[key], err = strconv.Atoi(value)
			default:
				err = fmt.Errorf("%s is not known", quote(key))
			}
			if err != nil {
				return usage(fmt.Errorf("--nic %s: %s: %w", text, quote(part), err), "such as br0,queues=4 or vf=0000:01:10.0,mac=52:54:00:00:00:01")
			}
		}
		g.NICs = append(g.NICs, n)
	}
	return nil
}

// render makes the definition.
func (g *describedGuest) render() (*domain.Doc, error) {
	s := domain.Description{Name: g.Name, UUID: g.UUID, VCPUs: g.VCPUs, Disks: g.Disks, HostDevs: g.HostDevs, Nodes: g.Node, CPUs: g.CPUs,
		Emulator: g.Emulator, Machine: g.Machine, UEFI: g.UEFI, Realtime: g.Realtime, Windows: g.Windows}
	var ok bool
	if s.MemoryKiB, ok = domain.ParseSize(g.Memory); !ok {
		return nil, &domain.DescriptionError{What: "memory", Problem: fmt.Sprintf("found %s, expected an amount with its unit", quote(g.Memory)), Advice: "such as 8GiB or 512MiB"}
	}
	if g.HugePages != "" {
		pages, err := domain.WishPages(g.HugePages)
		if err != nil {
			return nil, err
		}
		s.HugePages = pages[0].Value
	}
	for _, n := range g.NICs {
		s.NICs = append(s.NICs, domain.NICDescription(n))
	}
	return domain.Render(s)
}

func (a *app) writeRendered(d *domain.Doc, output string) error {
	text := d.Bytes()
	rendered := domainRendered{Name: d.Guest().Name, Guest: d.Guest()}
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
