// Package fleet reads the snapshots of many hosts, audits each and compares them.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mpps/internal/advise/fleet"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
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

// source is a file that is meant: one that was named, or one of a directory that was.
type source struct{ name, folder string }

// expand returns the files that are meant, each once, with the *.json files of directories.
func expand(names []string) ([]source, error) {
	var files []source
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, outcome.Failed(fmt.Errorf("fleet: %w", outcome.FileError(err)),
				"name snapshot files, or a directory of them")
		case !info.IsDir():
			files = append(files, source{name: filepath.Clean(name)})
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("fleet: %w", outcome.FolderError(err)), "")
		}
		n := len(files)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
				files = append(files, source{filepath.Join(name, e.Name()), name})
			}
		}
		if len(files) == n {
			return nil, outcome.Failed(fmt.Errorf("fleet: %s: no *.json file in it", name),
				"make snapshots with 'mpps snapshot -o FILE'")
		}
	}
	slices.SortFunc(files, func(a, b source) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(b.folder, a.folder))
	})
	files = slices.CompactFunc(files, func(a, b source) bool { return a.name == b.name })
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
func read(ctx context.Context, env *ops.Env, files []source, g goal.Goal, f *fleet.Fleet) error {
	next := make(chan source)
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
func readOne(file source, g goal.Goal, f *fleet.Fleet, alone *sync.RWMutex) {
	r, size, err := file.open()
	if err != nil {
		f.Refuse(file.name, outcome.FileCause(err).Error())
		return
	}
	defer r.Close()
	switch {
	case size > facts.MaxFleetSnapshot:
		f.Refuse(file.name, fmt.Sprintf("larger than %d MiB", facts.MaxFleetSnapshot>>20))
		return
	case size > large:
		alone.Lock()
		defer alone.Unlock()
	default:
		alone.RLock()
		defer alone.RUnlock()
	}
	h, err := facts.ReadFleetSnapshot(ops.JSON(r))
	if err != nil {
		f.Refuse(file.name, err.Error())
		return
	}
	judge(file.name, h, g, f)
}

// judge adds a host and its audit. A host that crashes the audit costs only itself, and so does a file of
// 'mpps diagnose -o', which has no settings.
func judge(file string, h *facts.Host, g goal.Goal, f *fleet.Fleet) {
	defer func() {
		if crash := recover(); crash != nil {
			f.Refuse(file, fmt.Sprintf("what it holds crashed the audit (%.200v): please report this", crash))
		}
	}()
	if h.Load != nil && len(h.Readings) == 0 {
		f.Refuse(file, "it holds what 'mpps diagnose' watched and no settings; 'mpps snapshot -o FILE' records these")
		return
	}
	f.Add(file, h, judging.Audit(h, g, nil))
}

// open opens a file and returns its size in bytes. That of a directory must be in it: a link that leaves it is an
// error.
func (s source) open() (r *os.File, size int64, err error) {
	if s.folder == "" {
		r, err = ops.OpenFile(s.name)
	} else {
		r, err = ops.OpenIn(s.folder, filepath.Base(s.name))
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := r.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, r.Close())
	}
	return r, info.Size(), nil
}
