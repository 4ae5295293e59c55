package tuning

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mpps/internal/advise/tune"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// effectsPath is the file, below the root, with the effects that runs have measured.
const effectsPath = "var/lib/mpps/effects.json"

// hostClass returns the class of hosts on which knobs are likely to have the same effect: CPU vendor, kernel version,
// NIC drivers, and whether the host is emulated.
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

// readLearned reads the effects of earlier runs on this host (own), and those merged with other hosts' files (all). A
// run uses all and adds its effects to own.
func readLearned(env *ops.Env, files []string) (own, all tune.Effects, err error) {
	own, err = readEffects(env.OpenState(effectsPath))
	if errors.Is(err, fs.ErrNotExist) {
		own, err = tune.Effects{}, nil
	}
	if err != nil {
		return own, own, outcome.Failed(err, "it is kept for speed alone: move it away")
	}
	all = own
	for _, name := range files {
		other, err := readEffects(ops.OpenFile(name))
		if err != nil {
			return own, all, outcome.Failed(fmt.Errorf("--learned: %w", err),
				"a file such as another host's /"+effectsPath)
		}
		all = all.Import(other)
	}
	return own, all, nil
}

// readEffects reads and closes a file that was opened.
func readEffects(f *os.File, err error) (tune.Effects, error) {
	if err != nil {
		return tune.Effects{}, err
	}
	defer f.Close()
	e, err := tune.ReadEffects(f)
	if err != nil {
		return e, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return e, nil
}

// writeLearned adds a run's effects to the host's file.
func writeLearned(env *ops.Env, own tune.Effects, class string, r *tune.Result) error {
	var text bytes.Buffer
	if err := own.Learn(class, r).Write(&text); err != nil {
		return err
	}
	return env.WriteState(effectsPath, text.Bytes())
}
