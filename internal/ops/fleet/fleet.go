// Package fleet reads the snapshots of many hosts, audits each and compares them.
package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/fleet"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// MaxHosts is the most snapshots that are compared.
const MaxHosts = 5000

// Audit compares the hosts of snapshot files, or of the *.json files of directories, and audits each for a goal. A file
// that is no snapshot is named in the report and does not end it. It fails if no file could be used.
func Audit(ctx context.Context, env *ops.Env, names []string, g goal.Goal) (*fleet.Report, error) {
	files, err := expand(names)
	if err != nil {
		return nil, err
	}
	f := fleet.New()
	if err := read(ctx, env, files, g, f); err != nil {
		return nil, err
	}
	r := f.Report()
	if len(r.Hosts) == 0 {
		return nil, outcome.Failed(fmt.Errorf("%s: %s", r.Refused[0].File, r.Refused[0].Why),
			"none of the files is a snapshot; make them with 'mpps snapshot -o FILE'")
	}
	return &r, nil
}

// expand returns the files that are meant, each once, with the *.json files of directories.
func expand(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, outcome.Failed(fmt.Errorf("fleet: %w", err), "name snapshot files, or a directory of them")
		case !info.IsDir():
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("fleet: %w", err), "")
		}
		n := len(files)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
		if len(files) == n {
			return nil, outcome.Failed(fmt.Errorf("fleet: %s: no *.json file in it", name),
				"make snapshots with 'mpps snapshot -o FILE'")
		}
	}
	for i := range files {
		files[i] = filepath.Clean(files[i])
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > MaxHosts {
		return nil, outcome.Failed(fmt.Errorf("fleet: %d files, expected at most %d", len(files), MaxHosts), "")
	}
	return files, nil
}

// workers is how many files are read at a time. More would only need more memory: reading is bound by the CPU.
const workers = 2

// large is the size in bytes from which a file is read alone.
const large = 4 << 20

// read adds the hosts of files to a fleet.
func read(ctx context.Context, env *ops.Env, files []string, g goal.Goal, f *fleet.Fleet) error {
	next := make(chan string)
	var alone sync.RWMutex
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for file := range next {
				readOne(file, g, f, &alone)
			}
		})
	}
	for i, file := range files {
		env.Out.Progress("%d of %d snapshots", i, len(files))
		if ctx.Err() != nil {
			break
		}
		next <- file
	}
	close(next)
	group.Wait()
	if ctx.Err() != nil {
		return outcome.Failed(fmt.Errorf("fleet: %w", context.Cause(ctx)), "")
	}
	return nil
}

// readOne adds the host of a file, or the reason why it could not be used.
func readOne(file string, g goal.Goal, f *fleet.Fleet, alone *sync.RWMutex) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		f.Refuse(file, ops.Cause(err).Error())
		return
	case info.Size() > facts.MaxFleetSnapshot:
		f.Refuse(file, fmt.Sprintf("larger than %d MiB", facts.MaxFleetSnapshot>>20))
		return
	case info.Size() > large:
		alone.Lock()
		defer alone.Unlock()
	default:
		alone.RLock()
		defer alone.RUnlock()
	}
	h, err := open(file)
	if err != nil {
		f.Refuse(file, err.Error())
		return
	}
	f.Add(file, h, audit.Run(h, g, knob.Catalogue()))
}

func open(file string) (*facts.Host, error) {
	r, err := ops.OpenFile(file)
	if err != nil {
		return nil, ops.Cause(err)
	}
	defer r.Close()
	return facts.ReadFleetSnapshot(ops.JSON(r))
}
