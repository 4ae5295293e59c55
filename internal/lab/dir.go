package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// DefaultDir is the lab's cache if MPPS_LAB is not set.
const DefaultDir = "/var/cache/mpps-lab"

// runRoot has a folder of sockets, logs and state for each running lab. It is short because the path of a Unix socket
// is limited to 107 bytes (unix(7)), and it is on a file system that a reboot empties. Tests change it.
var runRoot = "/run/mpps-lab"

// Dir returns the lab's cache folder: $MPPS_LAB, else DefaultDir.
func Dir() string {
	if d := os.Getenv("MPPS_LAB"); d != "" {
		if abs, err := filepath.Abs(d); err == nil {
			return abs
		}
	}
	return DefaultDir
}

// nameRE matches names that are usable as file names and as names of network namespaces.
var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ErrName: no lab can have this name.
var ErrName = errors.New("not the name of a lab")

func checkName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("%q is %w: expected 1 to 32 characters of a-z, 0-9 and -", name, ErrName)
	}
	return nil
}

func runDir(name string) string { return filepath.Join(runRoot, name) }

// dataDir holds what a lab shares with its host: the share folder and the upper layer.
func dataDir(cache, name string) string { return filepath.Join(cache, "labs", name) }
