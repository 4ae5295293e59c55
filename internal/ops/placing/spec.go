package placing

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mpps/internal/advise/placement"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Bounds that no host reaches, against typing errors.
const (
	maxVCPUs = 4096
	maxNICs  = 32
)

// parseFields reads "key=value,key=value" by the parser of each key. Commas in a CPU list after "cpus=" belong to the
// list.
func parseFields(text string, keys map[string]func(value string) error) error {
	seen := map[string]bool{}
	parts := strings.Split(text, ",")
	for i := 0; i < len(parts); i++ {
		key, value, _ := strings.Cut(parts[i], "=")
		for key == "cpus" && i+1 < len(parts) && isCPUs(parts[i+1]) {
			i++
			value += "," + parts[i]
		}
		set, known := keys[key]
		switch {
		case !known:
			return fmt.Errorf("unknown %q", parts[i])
		case seen[key]:
			return fmt.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if err := set(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func isCPUs(text string) bool {
	_, err := setting.ParseCPUs(text)
	return err == nil && text != ""
}

func parseCount(into *int, least, most int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("expected %d to %d, found %q", least, most, text)
		}
		*into = n
		return nil
	}
}

// parseMemory reads an amount in bytes, such as 16G, 512M or 1T, in powers of 1024.
func parseMemory(into *uint64) func(string) error {
	return func(text string) error {
		factor := uint64(1)
		digits := strings.TrimSuffix(strings.TrimSuffix(text, "B"), "i")
		for i, unit := range []string{"Kk", "Mm", "Gg", "Tt"} {
			if number := strings.TrimRight(digits, unit); len(number) == len(digits)-1 {
				digits, factor = number, 1<<(10*(i+1))
				break
			}
		}
		v, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || v == 0 || v > math.MaxInt64/factor {
			return fmt.Errorf("expected an amount of memory such as 16G, found %q", text)
		}
		*into = v * factor
		return nil
	}
}

func parseName(into *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("expected a name, found nothing")
		}
		*into = value
		return nil
	}
}

func parseFlag(into *bool) func(string) error {
	return func(value string) error {
		if value != "" {
			return fmt.Errorf("expected no value, found %q", value)
		}
		*into = true
		return nil
	}
}

// ParseGuest reads a hypothetical guest: "name=vm9,vcpus=8,memory=16G".
func ParseGuest(line string) (placement.Guest, error) {
	var g placement.Guest
	var nic string
	var vf bool
	nics, queues := 1, 0
	err := parseFields(line, map[string]func(string) error{
		"name": parseName(&g.Name), "vcpus": parseCount(&g.VCPUs, 1, maxVCPUs), "memory": parseMemory(&g.Memory),
		"queues": parseCount(&queues, 1, placement.TapQueues), "nics": parseCount(&nics, 0, maxNICs),
		"nic":       parseName(&nic),
		"hugepages": parseFlag(&g.Hugepages), "vf": parseFlag(&vf),
		"pps": func(value string) (err error) {
			g.Rate, err = goal.ParseRate(value)
			return err
		},
		"cpus": func(value string) (err error) {
			g.Allowed, err = setting.ParseCPUs(value)
			return err
		},
		"latency": func(value string) error {
			d, err := time.ParseDuration(value)
			if err == nil && d <= 0 {
				err = fmt.Errorf("expected a time such as 20us, found %q", value)
			}
			g.Realtime = true
			return err
		},
	})
	switch {
	case err != nil:
		return g, err
	case g.Name == "":
		return g, errors.New("expected name=NAME")
	case g.VCPUs == 0:
		return g, errors.New("expected vcpus=N")
	case g.Memory == 0:
		return g, errors.New("expected memory=SIZE, such as memory=16G")
	}
	g.Passthrough = vf
	for i := range nics {
		g.NICs = append(g.NICs, placement.Interface{
			MAC: fmt.Sprintf("new:%d", i), NIC: nic, Queues: queues, VF: vf, Node: -1,
		})
	}
	return g, nil
}

// ParseReserve reads what is reserved for the host on a node: "node=1,cpus=2,memory=8G".
func ParseReserve(line string) (placement.Reserve, error) {
	r := placement.Reserve{Node: -1}
	err := parseFields(line, map[string]func(string) error{
		"node": parseCount(&r.Node, 0, maxVCPUs), "cpus": parseCount(&r.CPUs, 1, maxVCPUs),
		"memory": parseMemory(&r.Memory),
	})
	if err == nil && (r.Node < 0 || r.CPUs == 0 && r.Memory == 0) {
		err = errors.New("expected node=N and cpus=N or memory=SIZE")
	}
	return r, err
}

// ParseDaemon reads another load of the host: "name=osd,cpus=4,node=0".
func ParseDaemon(line string) (placement.Daemon, error) {
	var d placement.Daemon
	err := parseFields(line, map[string]func(string) error{
		"name": parseName(&d.Name), "node": parseCount(&d.Node, 0, maxVCPUs), "cpus": parseCount(&d.CPUs, 1, maxVCPUs),
		"memory": parseMemory(&d.Memory),
	})
	if err == nil && (d.Name == "" || d.CPUs == 0) {
		err = errors.New("expected name=NAME and cpus=N")
	}
	return d, err
}
