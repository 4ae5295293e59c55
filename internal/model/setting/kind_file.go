package setting

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kinds of what makes values last: files as an administrator would write them, and the unit that puts values back.
const (
	// File: "file:etc/sysctl.d/90-mpps.conf", the path of a file without its leading slash; CheckFile says which files
	// these may be. The whole text, byte for byte; absent where there is no such file. Owner and mode of a file that
	// is there are kept, a new one is root's and readable by all.
	File Kind = "file"
	// Directory: "directory:etc/modprobe.d", a directory that a file of mpps needs. "present" where nothing but files
	// of mpps is in it, "shared" where others' are; absent. Removing it is refused while it holds anything.
	Directory Kind = "directory"
	// Unit: "unit:mpps-restore.service", a unit of mpps that multi-user.target starts. "enabled" (and running where
	// systemd runs), "idle" (enabled, not running), absent.
	Unit Kind = "unit"
)

// AcrossReboot is how long a value stays that a file sets again at every boot.
const AcrossReboot Lasting = "across reboots"

// MaxFile bounds the text of a File, in bytes: 20,000 values to be put back take about half of it.
const MaxFile = 2 << 20

// Whole is what the values of these kinds are: texts of many lines that messages do not repeat.
func (k Kind) Whole() bool { return k == File || k == RuleSet }

// own are the directories in which mpps has files of its own: those whose name says so.
var own = []string{
	"etc/sysctl.d", "etc/modprobe.d", "etc/systemd/system", "etc/systemd/network", "etc/default/grub.d", "etc/kernel",
	"etc/udev/rules.d", "var/lib/mpps",
}

// WantsFolder is where the units are linked that multi-user.target starts (systemd.unit(5)).
const WantsFolder = "etc/systemd/system/multi-user.target.wants"

// shared are files of the system that are edited, because there is no directory for a file of one's own.
var shared = []string{"var/lib/mpps/desired.json", "etc/kernel/cmdline", "etc/default/grub"}

// Reservations is the folder in which mpps notes to which guest a virtual function was given: a file PCI.json for each
// function (0000:01:10.0.json), and network-NAME.json for each of libvirt's networks that is a pool of functions.
const Reservations = "var/lib/mpps/vfs"

var reservation = regexp.MustCompile(
	`^([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|network-[A-Za-z0-9][A-Za-z0-9._-]{0,100})\.json$`)

// CheckFile refuses the path of a file that is none of those which mpps writes.
func CheckFile(name string) error {
	dir, base := path.Split(name)
	switch {
	case name != path.Clean(name):
		return fmt.Errorf("file %q: expected a clean path without a leading slash", name)
	case slices.Contains(shared, name):
		return nil
	case dir == Reservations+"/":
		if !reservation.MatchString(base) {
			return fmt.Errorf("file /%s: expected a name such as 0000:01:10.0.json or network-NAME.json", name)
		}
		return nil
	case !slices.Contains(own, strings.TrimSuffix(dir, "/")):
		return fmt.Errorf("file /%s: mpps writes files only in /%s", name, strings.Join(own, ", /"))
	case !strings.Contains(base, "mpps") || strings.HasPrefix(base, "."):
		return fmt.Errorf("file /%s: expected a name with mpps in it, or one of /%s", name, strings.Join(shared, ", /"))
	}
	return nil
}

// CheckDirectory refuses the path of a directory that is none of those in which mpps writes files.
func CheckDirectory(name string) error {
	if !slices.Contains(own, name) && name != WantsFolder {
		return fmt.Errorf("directory %q: expected one of %s", name, strings.Join(own, ", "))
	}
	return nil
}

// CheckUnit refuses the name of a unit that is not of mpps.
func CheckUnit(name string) error {
	base, suffixed := strings.CutSuffix(name, ".service")
	if !suffixed || !strings.HasPrefix(base, "mpps-") || strings.Trim(base, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return fmt.Errorf("unit %q: expected the name of a service of mpps, such as mpps-restore.service", name)
	}
	return nil
}

// canonicalFile is the text itself. JSON, which journals and plans are, holds no text that is not UTF-8.
func canonicalFile(raw string) (string, error) {
	switch {
	case !utf8.ValidString(raw):
		return "", errors.New("expected text, found bytes that are not UTF-8")
	case len(raw) > MaxFile:
		return "", fmt.Errorf("text of %d bytes; expected at most %d", len(raw), MaxFile)
	}
	return raw, nil
}

func canonicalWord(words ...string) func(string) (string, error) {
	return func(raw string) (string, error) {
		if word := strings.TrimSpace(raw); slices.Contains(words, word) {
			return word, nil
		}
		return "", fmt.Errorf("expected %s, found %q", strings.Join(words, " or "), raw)
	}
}
