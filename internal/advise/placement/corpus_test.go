package placement

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
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestRecordedMachines places guests on every recorded machine (MPPS_CORPUS has more than the tree): as few as one, as
// many as fill it, and more than it holds.
func TestRecordedMachines(t *testing.T) {
	folders := []string{"../../machine/cpu/testdata/topology"}
	if corpus := os.Getenv("MPPS_CORPUS"); corpus != "" {
		folders = append(folders, filepath.Join(corpus, "topology"))
	}
	machines := 0
	for _, folder := range folders {
		archives := must.Get(filepath.Glob(filepath.Join(folder, "*.tar.bz2")))(t)
		for _, archive := range archives {
			machines++
			t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.bz2"), func(t *testing.T) {
				m := must.Get(machine.Open(unpacked(t, archive)))(t)
				defer m.Close()
				onMachine(t, m.Inventory(t.Context()))
			})
		}
	}
	if machines == 0 {
		t.Error("no recorded machine, not even those of the tree")
	}
}

func onMachine(t *testing.T, h *facts.Host) {
	bare := From(h, goal.Unlimited())
	if len(bare.CPUs) == 0 {
		t.Fatal("no CPU online")
	}
	for _, r := range []*Result{Place(bare), Place(From(h, goal.Goal{Latency: 20000}))} {
		if len(r.Housekeeping) == 0 {
			t.Errorf("without guests the host keeps %q", r.Housekeeping)
		}
	}
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		ask := bare
		ask.NICs = []NIC{{Name: "eth0", Node: ask.Nodes[rnd.IntN(len(ask.Nodes))].ID}}
		demand := len(ask.CPUs) * (1 + 40*int(seed)) / 100 // up to 121 %
		for i := 0; demand > 0 && i < 64; i++ {
			vcpus := min(demand, 1+rnd.IntN(8), 64)
			demand -= vcpus
			ask = ask.guest(fmt.Sprintf("vm%02d", i), vcpus, 1+rnd.IntN(2))
			ask.Guests[i].Memory = uint64(1+rnd.IntN(3)) << 28
		}
		r := Place(ask)
		for _, problem := range Check(ask, r) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		t.Logf("%d CPUs, %d cells, %d guests: proved %v, %+v", len(ask.CPUs), len(newTable(ask).cells), len(ask.Guests),
			r.Proved, r.Cost)
	}
}

// aside matches folders with many files that the inventory does not need here.
var aside = regexp.MustCompile(`/(pci[^/]*|cpufreq|cpuidle|power|thermal_throttle|microcode|acpi_cppc)/`)

// unpacked extracts a recorded machine and returns the root of its tree.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	packed := must.Get(os.ReadFile(archive))(t)
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
