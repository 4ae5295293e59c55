package domain

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestRandomDomains edits domains that nobody would write: elements empty, doubled, out of order, on one line or many,
// comments and white space anywhere.
func TestRandomDomains(t *testing.T) {
	for seed := range uint64(1500) {
		text := randomDomain(seed)
		d, err := Parse([]byte(text))
		must.Need(t, err == nil, "seed %d: %v\n%s", seed, err, text)
		if d.String() != text {
			t.Fatalf("seed %d: written other than read:\n%s", seed, lineDiff(text, d.String()))
		}
		if msg := shuffle(text, seed, 8); msg != "" {
			t.Fatalf("seed %d: %s\n%s", seed, msg, text)
		}
	}
}

// parts is what may be inside what; attributes have the values that follow them.
var parts = map[string][]string{
	"domain":  {"vcpu", "memoryBacking", "cputune", "numatune", "features", "cpu", "clock", "devices", "x:other", "os"},
	"devices": {"interface", "interface", "emulator"}, "interface": {"mac", "model", "driver", "coalesce", "vlan",
		"mtu", "source"},
	"coalesce": {"rx"}, "rx": {"frames"}, "vlan": {"tag"}, "memoryBacking": {"hugepages", "locked", "access"},
	"hugepages": {"page"},
	"cputune":   {"vcpupin", "vcpupin", "emulatorpin", "vcpusched", "shares"}, "numatune": {"memory", "memnode"},
	"features": {"hyperv", "acpi", "pmu"}, "hyperv": {"vapic", "synic"}, "cpu": {"cache", "topology", "numa"},
	"numa":  {"cell"},
	"clock": {"timer", "timer"}, "driver": {"host"},
}

var partAttrs = map[string][]string{
	"interface": {"type=bridge,vhostuser"}, "mac": {"address=52:54:00:00:00:01,52:54:00:00:00:02,52:54:0:0:0:A"},
	"model":  {"type=virtio,e1000"},
	"driver": {"name=vhost", "queues=4, 4", "rx_queue_size=512", "rss=on"}, "frames": {"max=128"}, "tag": {"id=5"},
	"mtu":     {"size=1500"},
	"vcpupin": {"vcpu=0,1,2", "cpuset=1,^2"}, "emulatorpin": {"cpuset=0-3"},
	"vcpusched": {"vcpus=0,0-1", "scheduler=fifo", "priority=1"},
	"memory":    {"mode=strict", "nodeset=0"}, "memnode": {"cellid=0,1", "nodeset=0", "mode=strict"},
	"vapic": {"state=on"}, "pmu": {"state=off"},
	"cpu": {"mode=host-model,custom", "check=none"}, "cache": {"mode=passthrough"},
	"timer": {"name=hpet,kvmclock", "present=no"},
	"page":  {"size=1,2048", "unit=GiB,M", "nodeset=0,1"}, "access": {"mode=shared"}, "clock": {"offset=utc"},
	"hyperv": {"mode=custom"},
	"cell":   {"id=0,1", "cpus=0-1"}, "vcpu": {"cpuset=0-7"},
}

func randomDomain(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	lines := r.IntN(3) // 0: one line; 1: neat; 2: anything
	space := func(depth int) {
		switch {
		case lines == 1 || lines == 2 && r.IntN(3) > 0:
			b.WriteString("\n" + strings.Repeat("  ", depth))
		case lines == 2:
			b.WriteString([]string{"", " ", "\n\n", "\t", "\r\n  "}[r.IntN(5)])
		}
		if lines == 2 && r.IntN(8) == 0 {
			b.WriteString([]string{"<!-- note -->", "<?pi x?>", "<![CDATA[]]>", "text", "&#32;"}[r.IntN(5)])
		}
	}
	var element func(name string, depth int)
	element = func(name string, depth int) {
		b.WriteString("<" + name)
		for _, a := range partAttrs[name] {
			if r.IntN(3) == 0 {
				continue
			}
			key, values, _ := strings.Cut(a, "=")
			all := strings.Split(values, ",")
			quote := []string{"'", `"`}[r.IntN(2)]
			b.WriteString([]string{" ", "  ", "\n\t"}[r.IntN(lines+1)] + key + "=" +
				quote + all[r.IntN(len(all))] + quote)
		}
		switch r.IntN(6) {
		case 0:
			b.WriteString("/>")
			return
		case 1:
			b.WriteString("></" + name + ">")
			return
		}
		b.WriteString(">")
		if name == "vcpu" {
			b.WriteString(strconv.Itoa(1 + r.IntN(4)))
		}
		for _, kid := range parts[name] {
			for range r.IntN(5) / 2 {
				space(depth + 1)
				element(kid, depth+1)
			}
		}
		space(depth)
		b.WriteString("</" + name + []string{">", " >"}[r.IntN(2)])
	}
	element("domain", 0)
	return b.String()
}
