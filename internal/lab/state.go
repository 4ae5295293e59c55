package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// state is what a lab leaves in its run folder for later processes: enough to use it and to end it.
type state struct {
	Boot     string // boot ID of L0; the rest means nothing under another one
	Owner    Proc   // the process that started it
	Detached bool   // it may outlive its owner
	Config   Config
	Cache    string
	Tree     string // folder of its tree
	Accel    Accel
	Release  string // of the kernel that L1 was last booted with
	Procs    []Proc
	Hung     int // boots and guest starts that were ended and tried again
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

// orphaned reports whether nobody will ever end this lab.
func (s *state) orphaned() bool {
	if s.Boot != bootID() {
		return true
	}
	if s.Detached {
		return !s.running()
	}
	return !s.Owner.Alive()
}

// running reports whether L1's QEMU is alive.
func (s *state) running() bool {
	if s.Boot != bootID() {
		return false
	}
	for _, p := range s.Procs {
		if p.Role == roleQEMU && p.Alive() {
			return true
		}
	}
	return false
}

// clean ends every process of the lab, and with them its network namespace, and removes its run folder and, unless it
// is persistent, its data. It goes on past errors.
func (s *state) clean() error {
	var errs []error
	if s.Boot == bootID() {
		for _, p := range s.Procs {
			errs = append(errs, p.kill())
		}
	}
	if !s.Config.Persist {
		errs = append(errs, os.RemoveAll(dataDir(s.Cache, s.Config.Name)))
	}
	// Last, so that a failure before leaves the means to try again.
	if errors.Join(errs...) == nil {
		errs = append(errs, os.RemoveAll(runDir(s.Config.Name)))
	}
	return errors.Join(errs...)
}

// bootID names this boot of L0.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Info describes a lab to people.
type Info struct {
	Name    string `json:"name"`
	Mode    Mode   `json:"mode"`
	Accel   Accel  `json:"accel"`
	Running bool   `json:"running"`
	Owner   int    `json:"owner,omitempty"` // process ID, unless the lab may outlive its owner
}

// List gives the labs that have a state file.
func List() ([]Info, error) {
	entries, err := os.ReadDir(runRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, e := range entries {
		s, err := readState(e.Name())
		if err != nil {
			continue // being made or being removed
		}
		i := Info{Name: e.Name(), Mode: s.Config.Mode, Accel: s.Accel, Running: s.running()}
		if !s.Detached {
			i.Owner = s.Owner.PID
		}
		out = append(out, i)
	}
	return out, nil
}

// Reap cleans the labs whose owner is gone (and detached ones whose QEMU is), exactly those, and gives
// their names.
func Reap(ctx context.Context) ([]string, error) {
	infos, err := List()
	if err != nil {
		return nil, err
	}
	var done []string
	var errs []error
	for _, i := range infos {
		name, err := reapOne(ctx, i.Name)
		errs = append(errs, err)
		if name != "" {
			done = append(done, name)
		}
	}
	return done, errors.Join(errs...)
}

// reapOne decides and cleans under the lab's lock, so that two reapers, or a reaper and a starter, do
// not meet.
func reapOne(ctx context.Context, name string) (string, error) {
	unlock, err := lockName(ctx, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	s, err := readState(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !s.orphaned() {
		return "", nil
	}
	return name, s.clean()
}
