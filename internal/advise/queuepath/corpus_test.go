package queuepath

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestSteerRecordedMachines steers 16 guests of 8 queues onto 64 NIC queues, and random others, on the CPUs and nodes
// of every recorded machine (MPPS_CORPUS has more than the tree): no queue of the NIC is shared while one is idle, by
// either means.
func TestSteerRecordedMachines(t *testing.T) {
	folders := []string{"../../machine/cpu/testdata/topology"}
	if corpus := os.Getenv("MPPS_CORPUS"); corpus != "" {
		folders = append(folders, filepath.Join(corpus, "topology"))
	}
	machines := 0
	for _, folder := range folders {
		archives, err := filepath.Glob(filepath.Join(folder, "*.tar.bz2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, archive := range archives {
			machines++
			t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.bz2"), func(t *testing.T) {
				m, err := machine.Open(unpacked(t, archive))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				topology := m.Inventory(t.Context()).Topology
				steerOn(t, topology, 16, 8, 64, false)
				steerOn(t, topology, 16, 8, 64, true)
				for seed := range uint64(20) {
					r := rand.New(rand.NewPCG(seed, 8))
					steerOn(t, topology, 1+r.IntN(40), 1<<r.IntN(5), 2+r.IntN(127), r.IntN(2) == 0)
				}
			})
		}
	}
	if machines == 0 {
		t.Error("no recorded machine, not even those of the tree")
	}
}

// steerOn steers guests on a machine's CPUs, where their vhost threads have a CPU each as far as there are enough, or
// float.
func steerOn(t *testing.T, topology facts.Topology, guests, queues, nicQueues int, floating bool) {
	t.Helper()
	h := steerHost(guests, queues, nicQueues)
	h.Topology = topology
	through(h, 1, true)
	for q := range nicQueues {
		cpu := topology.Online[q%len(topology.Online)]
		h.NICs[0].IRQs = append(h.NICs[0].IRQs, facts.IRQ{Number: 100 + q, On: fmt.Sprintf("TxRx-%d", q),
			Effective: setting.CPUs(cpu)})
	}
	next, own := 0, len(topology.Online) >= guests*queues && !floating
	for i := range h.Guests {
		for j := range h.Guests[i].Threads {
			h.Guests[i].Threads[j].Affinity = setting.CPUs(topology.Online...)
			if own {
				h.Guests[i].Threads[j].Affinity = setting.CPUs(topology.Online[next])
				next++
			}
		}
	}
	s := mustSteer(t, h, nil, SteerOptions{})
	g := s.Groups[0]
	senders := make([]Sender, len(g.Lanes))
	for i, l := range g.Lanes {
		senders[i] = Sender{Tap: l.Tap, Queues: queues}
	}
	sound(t, senders, nicQueues, g.Lanes)
	if len(topology.Online) == 1 && queues*guests == 1 {
		return // a thread that floats over one CPU has it
	}
	if want := map[bool]Means{true: ByXPS, false: ByProgram}[own]; g.Means != want {
		t.Fatalf("%d guests of %d queues on %d CPUs: %s (%s), expected %s", guests, queues, len(topology.Online),
			g.Means, g.Why, want)
	}
	if !own {
		return
	}
	load := make([]int, nicQueues)
	for cpu := range guests * queues {
		load[queueOfCPU(t, s.Changes, "eth0", topology.Online[cpu])]++
	}
	idle, shared := 0, 0
	for _, n := range load {
		switch {
		case n == 0:
			idle++
		case n > 1:
			shared++
		}
	}
	if idle > 0 && shared > 0 {
		t.Fatalf("%d queues serve several vhost threads while %d serve none", shared, idle)
	}
}

// aside is what recorded trees hold many files of that the inventory does not need here.
var aside = regexp.MustCompile(`/(pci[^/]*|cpufreq|cpuidle|power|thermal_throttle|microcode|acpi_cppc)/`)

// unpacked extracts a recorded machine and returns the root of its tree.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	folder, top := t.TempDir(), ""
	reader := tar.NewReader(bzip2.NewReader(bytes.NewReader(packed)))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(folder, top)
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			t.Fatalf("%s: %q: %v", archive, header.Name, err)
		}
		target := filepath.Join(folder, header.Name)
		top, _, _ = strings.Cut(filepath.Clean(header.Name), "/")
		if aside.MatchString(header.Name) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o755)
		case tar.TypeSymlink:
			err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.Symlink(header.Linkname, target))
		case tar.TypeReg:
			text, readErr := io.ReadAll(reader)
			err = errors.Join(readErr, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, text, 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
