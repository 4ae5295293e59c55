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

// Kinds that make values last: files as an administrator would write them, and the unit that restores values.
const (
	// File: "file:etc/sysctl.d/90-mpps.conf", the path of a file without the leading slash; CheckFile says which files
	// are allowed. The whole text, byte for byte; absent if there is no such file. An existing file keeps owner and
	// mode, a new one belongs to root and is readable by all.
	File Kind = "file"
	// Directory: "directory:etc/modprobe.d", a directory for a file of mpps. "present" if it has only files of mpps,
	// "shared" if it has others; absent. Removing it is refused unless it is empty.
	Directory Kind = "directory"
	// Unit: "unit:mpps-restore.service", a unit of mpps that multi-user.target starts. "enabled" (and running if
	// systemd runs), "idle" (enabled, not running), absent.
	Unit Kind = "unit"
)

// AcrossReboot is how long a value stays that a file sets at every boot.
const AcrossReboot Lasting = "across reboots"

// MaxFile is the maximum size of a File in bytes. 20,000 desired values take about half of it.
const MaxFile = 2 << 20

// IsText reports whether values of the kind are texts of many lines, which messages do not repeat.
func (k Kind) IsText() bool { return k == File || k == RuleSet }

// ownDirs are the directories in which mpps has files of its own, with mpps in their names.
var ownDirs = []string{
	"etc/sysctl.d", "etc/modprobe.d", "etc/systemd/system", "etc/systemd/network", "etc/default/grub.d", "etc/kernel",
	"etc/udev/rules.d", "var/lib/mpps",
}

// WantsFolder has the links to units that multi-user.target starts (systemd.unit(5)).
const WantsFolder = "etc/systemd/system/multi-user.target.wants"

// sharedFiles are system files that mpps edits because no drop-in directory exists for them.
var sharedFiles = []string{"var/lib/mpps/desired.json", "etc/kernel/cmdline", "etc/default/grub"}

// Reservations is the folder in which mpps records which guest a VF was given to: a file PCI.json for each VF
// (0000:01:10.0.json), and network-NAME.json for each libvirt network that is a VF pool.
const Reservations = "var/lib/mpps/vfs"

var reservation = regexp.MustCompile(
	`^([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|network-[A-Za-z0-9][A-Za-z0-9._-]{0,100})\.json$`)

// CheckFile refuses the path of a file that mpps does not write.
func CheckFile(name string) error {
	dir, base := path.Split(name)
	switch {
	case name != path.Clean(name):
		return fmt.Errorf("file %q: expected a clean path without a leading slash", name)
	case slices.Contains(sharedFiles, name):
		return nil
	case dir == Reservations+"/":
		if !reservation.MatchString(base) {
			return fmt.Errorf("file /%s: expected a name such as 0000:01:10.0.json or network-NAME.json", name)
		}
		return nil
	case !slices.Contains(ownDirs, strings.TrimSuffix(dir, "/")):
		return fmt.Errorf("file /%s: mpps writes files only in /%s", name, strings.Join(ownDirs, ", /"))
	case !strings.Contains(base, "mpps") || strings.HasPrefix(base, "."):
		return fmt.Errorf("file /%s: expected a name with mpps in it, or one of /%s", name,
			strings.Join(sharedFiles, ", /"))
	}
	return nil
}

// CheckDirectory refuses the path of a directory in which mpps does not write files.
func CheckDirectory(name string) error {
	if !slices.Contains(ownDirs, name) && name != WantsFolder {
		return fmt.Errorf("directory %q: expected one of %s", name, strings.Join(ownDirs, ", "))
	}
	return nil
}

// CheckUnit refuses the name of a unit that does not belong to mpps.
func CheckUnit(name string) error {
	base, suffixed := strings.CutSuffix(name, ".service")
	if !suffixed || !strings.HasPrefix(base, "mpps-") || strings.Trim(base, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return fmt.Errorf("unit %q: expected the name of a service of mpps, such as mpps-restore.service", name)
	}
	return nil
}

// canonicalFile returns the text unchanged. It must be UTF-8, because journals and plans are JSON.
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
