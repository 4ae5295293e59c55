package sriov

import (
	"fmt"
	"path"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// LinkFile is the systemd .link file that applies to a device.
type LinkFile struct {
	Systemd int    // version; 0: unknown
	Path    string // ID_PATH: pci-0000:01:00.0
	File    string // ID_NET_LINK_FILE: the active file, with its leading slash
	Text    string // of that file
}

// linkSince is the first systemd version whose .link files can create VFs (systemd.link(5), SR-IOVVirtualFunctions=).
const linkSince = 251

// defaultLink is the .link file of systemd that applies if there is no other.
const defaultLink = "99-default.link"

func linkFile(pf string) setting.Address {
	return setting.Of(setting.File, "etc/systemd/network", "70-mpps-"+pf+".link")
}

// link plans the .link file and returns its path. Only the first file that matches a device applies, so this one
// repeats the contents of the default file, and is not written if another one applies.
func (b *builder) link(udev LinkFile, count int) (kept string, err error) {
	at := linkFile(b.nic.Name)
	found := b.h.Readings.At(at)
	ours := found.State == setting.Known && strings.Contains(found.Value, mark)
	base := udev.Text
	switch {
	case udev.Systemd == 0:
		return "", &Refused{Why: "the version of systemd is not known: .link files make virtual functions from " +
			"version 251 on", Advice: "use --persist unit"}
	case udev.Systemd < linkSince:
		return "", refuse("use --persist unit", "systemd %d: .link files make virtual functions from version %d on",
			udev.Systemd, linkSince)
	case found.State == setting.Known && !ours:
		return "", refuse("", "/%s is there and was not written by mpps", at.Path)
	case ours:
		base = found.Value
	case udev.Path == "" || udev.File == "":
		return "", &Refused{Why: "udev tells nothing of " + b.nic.Name, Advice: "use --persist unit"}
	case path.Base(udev.File) != defaultLink:
		return "", refuse(
			fmt.Sprintf("add SR-IOVVirtualFunctions=%d to its [Link] section, or use --persist unit", count), "%s is "+
				"set up by %s, which a file of mpps would hide", b.nic.Name, udev.File)
	}
	if !ours {
		base = fmt.Sprintf(linkHead, udev.File, udev.Path) + linkSection(base)
	}
	b.folder(path.Dir(at.Path))
	b.add(plan.Change{}, "sriov.link", "Virtual functions are made by udev", at, setting.Exact(withCount(base, count)),
		goal.None, "they come back when the card appears")
	return "/" + at.Path, nil
}

const linkHead = `# Written by mpps: 'mpps sriov create --persist link' has udev make virtual functions when this card appears. The other lines
# are those of %s, which this file hides for the card.
# Undo: 'mpps rollback', or 'mpps sriov destroy'.
[Match]
Path=%s

[Link]
`

// linkSection returns the section [Link] of a file without comments.
func linkSection(text string) string {
	var lines strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "["):
			inside = line == "[Link]"
		case inside && line != "" && line[0] != '#' && line[0] != ';':
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}

// countKey is the option of a .link file.
const countKey = "SR-IOVVirtualFunctions="

// withCount returns a file of mpps with another number of VFs, which is its last line.
func withCount(text string, count int) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, countKey) {
			lines.WriteString(line)
		}
	}
	return fmt.Sprintf("%s%s%d\n", lines.String(), countKey, count)
}

// noLink plans the removal of the file if mpps wrote one.
func (b *builder) noLink() {
	at := linkFile(b.nic.Name)
	if found := b.h.Readings.At(at); found.State == setting.Known && strings.Contains(found.Value, mark) {
		b.add(plan.Change{}, "sriov.link", "Virtual functions are not made by udev", at, setting.NotThere(), goal.None,
			"asked for by name")
	}
}
