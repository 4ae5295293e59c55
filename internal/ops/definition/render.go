package definition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/words"

	"go.yaml.in/yaml/v3"
)

// RenderResult is a rendered definition.
type RenderResult struct {
	Name    string       `json:"name"`
	Guest   domain.Guest `json:"guest"`             // what the definition says
	Written string       `json:"written,omitempty"` // the file that was written
	XML     string       `json:"xml,omitempty"`     // the definition, where it was written to no file
}

// Description describes a guest, as written in a YAML file.
type Description struct {
	Name      string   `yaml:"name"`
	UUID      string   `yaml:"uuid"`
	VCPUs     int      `yaml:"vcpus"`
	Memory    string   `yaml:"memory"`
	NICs      []NIC    `yaml:"nics"`
	Disks     []string `yaml:"disks"`
	HostDevs  []string `yaml:"hostdevs"`
	Node      string   `yaml:"node"`
	CPUs      string   `yaml:"cpus"`
	Emulator  string   `yaml:"emulator_cpus"`
	HugePages string   `yaml:"hugepages"`
	Machine   string   `yaml:"machine"`
	UEFI      bool     `yaml:"uefi"`
	Realtime  bool     `yaml:"realtime"`
	Windows   bool     `yaml:"windows"`
}

type NIC struct {
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

// Read reads a description from a file, or from standard input if the name is "-". It refuses more than 1 MiB.
func Read(name string, from io.Reader) (*Description, error) {
	const most = 1 << 20
	if name != "-" {
		f, err := ops.OpenFile(name)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("description %w", err),
				"expected a YAML file, or flags such as --name and --vcpus")
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && len(text) > most {
		err = errors.New("larger than 1 MiB")
	}
	described := &Description{VCPUs: 1}
	if err == nil {
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		err = decoder.Decode(described)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("found nothing, expected name, vcpus, memory …")
	}
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("description %s: %s", name, yamlProblem(outcome.FileCause(err))),
			"see 'mpps domain render --help' for what it may hold")
	}
	return described, nil
}

// yamlProblem words a YAML error in one line, without Go's type names.
func yamlProblem(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	for _, of := range []string{"Description", "NIC"} {
		text = strings.ReplaceAll(text, " not found in type definition."+of, " is not known")
	}
	return strings.Join(strings.Fields(text), " ")
}

// AddNICs adds the NICs of --nic flags, each a bridge or KEY=VALUE pairs, separated by commas.
func (g *Description) AddNICs(all []string) error {
	for _, text := range all {
		var n NIC
		words := map[string]*string{
			"bridge": &n.Bridge, "network": &n.Network, "direct": &n.Direct, "vf": &n.VF, "mac": &n.MAC,
			"model": &n.Model, "driver": &n.Driver,
		}
		numbers := map[string]*int{
			"queues": &n.Queues, "rx_queue_size": &n.RxQueueSize, "coalesce_rx": &n.Coalesce, "mtu": &n.MTU,
			"vlan": &n.VLAN,
		}
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
				err = fmt.Errorf("%s is not known", strconv.Quote(key))
			}
			if err != nil {
				return outcome.Usage(fmt.Errorf("--nic %s: %s: %w", text, strconv.Quote(part), err),
					"such as br0,queues=4 or vf=0000:01:10.0,mac=52:54:00:00:00:01")
			}
		}
		g.NICs = append(g.NICs, n)
	}
	return nil
}

// Render returns the definition as a document.
func (g *Description) Render() (*domain.Doc, error) {
	s := domain.Description{Name: g.Name, UUID: g.UUID, VCPUs: g.VCPUs, Disks: g.Disks, HostDevs: g.HostDevs,
		Nodes: g.Node, CPUs: g.CPUs,
		Emulator: g.Emulator, Machine: g.Machine, UEFI: g.UEFI, Realtime: g.Realtime, Windows: g.Windows}
	var ok bool
	if s.MemoryKiB, ok = domain.ParseSize(g.Memory); !ok {
		return nil, &domain.DescriptionError{
			What: "memory",
			Problem: fmt.Sprintf("found %s, expected an amount with its unit", words.Either(g.Memory == "", "nothing",
				strconv.Quote(g.Memory))),
			Advice: "such as 8GiB or 512MiB",
		}
	}
	if g.HugePages != "" {
		pages, err := domain.PageChanges(g.HugePages)
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
