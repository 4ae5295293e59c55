package tuning

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mpps/internal/advise/tune"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// effectsPath is where what runs found is kept, below the root directory.
const effectsPath = "var/lib/mpps/effects.json"

// hostClass is what hosts have in common whose knobs are likely to act alike: the maker of the CPU, the kernel's
// version, the drivers
// of the NICs, and whether it is all emulated.
func hostClass(h *facts.Host) string {
	release := strings.SplitN(h.Kernel.Release, ".", 3)
	parts := []string{h.Topology.Vendor, "linux " + strings.Join(release[:min(2, len(release))], ".")}
	var drivers []string
	for _, n := range h.NICs {
		if n.Driver != "" && n.PhysFn == "" && (n.Bus == "pci" || n.Bus == "virtio") &&
			!slices.Contains(drivers, n.Driver) {
			drivers = append(drivers, n.Driver)
		}
	}
	slices.Sort(drivers)
	parts = append(parts, strings.Join(drivers, ","))
	if h.Emulated {
		parts = append(parts, "emulated")
	}
	return strings.Join(parts, " / ")
}

// learned reads what earlier runs found here, and what other hosts' files say. The first is what is added to; the
// second, both
// together, is for this run.
func learned(env *ops.Env, files []string) (own, all tune.Effects, err error) {
	own, err = readEffects(filepath.Join(env.Root, effectsPath))
	if errors.Is(err, fs.ErrNotExist) {
		own, err = tune.Effects{}, nil
	}
	if err != nil {
		return own, own, outcome.Failed(err, "it is kept for speed alone: move it away")
	}
	all = own
	for _, name := range files {
		other, err := readEffects(name)
		if err != nil {
			return own, all, outcome.Failed(fmt.Errorf("--learned: %w", err),
				"a file such as another host's /"+effectsPath)
		}
		all = all.Import(other)
	}
	return own, all, nil
}

func readEffects(name string) (tune.Effects, error) {
	f, err := ops.OpenFile(name)
	if err != nil {
		return tune.Effects{}, err
	}
	defer f.Close()
	e, err := tune.ReadEffects(f)
	if err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// learn keeps what a run found.
func learn(env *ops.Env, own tune.Effects, class string, r *tune.Result) error {
	var text bytes.Buffer
	if err := own.Learn(class, r).Write(&text); err != nil {
		return err
	}
	name := filepath.Join(env.Root, effectsPath)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return ops.ReplaceFile(name, text.Bytes())
}
