package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// state is the file in a lab's run folder for later processes: enough to use the lab and to end it.
type state struct {
	Boot     string // boot ID of L0; the rest is void under another one
	Owner    Proc   // the process that started it
	Detached bool   // outlives its owner
	Config   Config
	Cache    string
	Tree     string // folder of its tree; empty: the name is taken, and nothing has been started
	Accel    Accel
	Release  string // kernel release that L1 last booted
	Procs    []Proc
	Hung     int // boots and guest starts that hung and were tried again
}

func stateFile(name string) string { return filepath.Join(runDir(name), "state.json") }

func (s *state) write() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := stateFile(s.Config.Name)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readState(name string) (*state, error) {
	b, err := os.ReadFile(stateFile(name))
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile(name), err)
	}
	if s.Config.Name != name {
		return nil, fmt.Errorf("%s: found the lab %q, want %q", stateFile(name), s.Config.Name, name)
	}
	return s, nil
}

// orphaned reports whether the process that should end this lab is gone.
func (s *state) orphaned() bool {
	if s.Boot != bootID() {
		return true
	}
	if s.Detached {
		return !s.running()
	}
	return !s.Owner.Alive()
}

// proc returns the lab's process with a role; its PID is 0 if there is none.
func (s *state) proc(role string) Proc {
	at := slices.IndexFunc(s.Procs, func(p Proc) bool { return p.Role == role })
	if at < 0 {
		return Proc{}
	}
	return s.Procs[at]
}

// running reports whether L1's QEMU is alive.
func (s *state) running() bool {
	if s.Boot != bootID() {
		return false
	}
	return slices.ContainsFunc(s.Procs, func(p Proc) bool { return p.Role == roleQEMU && p.Alive() })
}

// ours reports whether this process started or reserved the lab.
func (s *state) ours() bool {
	me, _ := readProc("owner", os.Getpid())
	return s.Boot == bootID() && s.Owner == me
}

// clean ends every process of the lab, and with them its network namespace, and removes its run folder and, unless it
// is persistent, its data. A name that this process has reserved stays reserved.
func (s *state) clean() error {
	var errs []error
	if s.Boot == bootID() {
		errs = append(errs, killAll(s.Procs))
	}
	if !s.Config.Persist && s.Tree != "" {
		errs = append(errs, os.RemoveAll(dataDir(s.Cache, s.Config.Name)))
	}
	// Last, so that after a failure it can be tried again.
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.RemoveAll(runDir(s.Config.Name)); err != nil || !s.Config.Held || !s.ours() {
		return err
	}
	if err := os.Mkdir(runDir(s.Config.Name), 0o755); err != nil {
		return err
	}
	return (&state{Boot: s.Boot, Owner: s.Owner, Config: s.Config, Accel: s.Accel}).write()
}

// Info describes a lab.
type Info struct {
	Name     string `json:"name"`
	Mode     Mode   `json:"mode"`
	Accel    Accel  `json:"accel"`
	Running  bool   `json:"running"`
	Orphaned bool   `json:"orphaned"`        // nobody will end it; the next start or down does
	Owner    int    `json:"owner,omitempty"` // process ID, unless the lab outlives its owner
}

// List returns the labs that have a state file.
func List() ([]Info, error) {
	names, err := runNames()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, name := range names {
		s, err := readState(name)
		if err != nil {
			continue // being removed, or a leftover
		}
		i := Info{Name: name, Mode: s.Config.Mode, Accel: s.Accel, Running: s.running(), Orphaned: s.orphaned()}
		if !s.Detached {
			i.Owner = s.Owner.PID
		}
		out = append(out, i)
	}
	return out, nil
}

// runNames lists the labs that have a run folder.
func runNames() ([]string, error) {
	entries, err := os.ReadDir(runRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Unused lists the cache's folders that no lab and no build uses: unfinished builds and saved states of killed
// processes, and the data of labs that are not up, including persistent ones. Clean removes them.
func Unused(cache string) ([]string, error) {
	patterns := []string{"tree-*/saved/" + unfinished + "*", "labs/*"}
	unlock, err := tryLock(buildLock(cache))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // there is no cache
	case err == nil:
		defer unlock()
		patterns = append(patterns, "build-*", "tree-*/build-*")
	case !errors.Is(err, unix.EWOULDBLOCK):
		return nil, err
	}
	var out []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return slices.DeleteFunc(out, func(dir string) bool {
		if strings.HasPrefix(filepath.Base(dir), unfinished) {
			return !abandoned(dir)
		}
		_, err := readState(filepath.Base(dir))
		return filepath.Base(filepath.Dir(dir)) == "labs" && err == nil
	}), nil
}

// Reap cleans up the labs whose owner is gone (and detached ones whose QEMU is), and returns their names.
func Reap(ctx context.Context) ([]string, error) {
	names, err := runNames()
	if err != nil {
		return nil, err
	}
	var done []string
	var errs []error
	for _, name := range names {
		cleaned, err := reapOne(ctx, name)
		errs = append(errs, err)
		if cleaned {
			done = append(done, name)
		}
	}
	return done, errors.Join(errs...)
}

// reapOne decides and cleans up under the lab's lock, so that reapers and starters do not collide. It skips a lab whose
// lock another process holds.
func reapOne(ctx context.Context, name string) (bool, error) {
	if s, err := readState(name); err == nil && !s.orphaned() {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	unlock, err := lockName(limited, name, cancel)
	if limited.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	s, err := readState(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // its process was killed before it wrote one
		return false, os.RemoveAll(runDir(name))
	case err != nil:
		return false, err
	case !s.orphaned():
		return false, nil
	}
	return true, s.clean()
}

// bootID returns the ID of L0's current boot.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
