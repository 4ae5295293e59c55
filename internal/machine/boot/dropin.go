package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// dropIn is the file that changes GRUB's arguments on Debian and its derivatives: grub-mkconfig sources every *.cfg in
// dropInFolder after /etc/default/grub, as shell script.
const (
	dropInFolder = "etc/default/grub.d"
	dropIn       = dropInFolder + "/90-mpps.cfg"
)

// argumentEdit is one argument that mpps has changed; nil means that the argument is absent.
type argumentEdit struct {
	Argument string  `json:"argument"`
	Was      *string `json:"was"`
	Is       *string `json:"is"`
	Entry    string  `json:"entry,omitempty"` // of menuDefault: GRUB's ID of the entry
}

// menuDefault is the Argument of an edit of the default kernel; both its values are versions.
const menuDefault = "GRUB_DEFAULT"

// dropInHead is how a file of ours is known, also by other versions: it never changes.
const (
	dropInHead = "# Written by mpps; 'mpps rollback' takes it away. Do not edit: it is written anew with every " +
		"change.\n" +
		"# It takes some arguments out of what /etc/default/grub says, and adds those that mpps has set.\n"
	dropInMark   = "#: "
	dropInFolded = "# mpps made this folder.\n"
)

// parseDropIn returns the edits in our file, and an error if the file is not ours.
func parseDropIn(text string) (edits []argumentEdit, madeFolder bool, err error) {
	if text == "" {
		return nil, false, nil
	}
	if !strings.HasPrefix(text, dropInHead) {
		return nil, false, fmt.Errorf("/%s was not written by this version of mpps: move it away first", dropIn)
	}
	for line := range strings.Lines(text) {
		if line == dropInFolded {
			madeFolder = true
		}
		if record, ours := strings.CutPrefix(line, dropInMark); ours {
			var e argumentEdit
			if err := json.Unmarshal([]byte(record), &e); err != nil {
				return nil, false, fmt.Errorf("/%s: %w", dropIn, err)
			}
			edits = append(edits, e)
		}
	}
	return edits, madeFolder, nil
}

// dropInText returns the file for some edits: POSIX shell script that grub-mkconfig sources under "set -e". It contains
// only words that setting.CheckWord accepts. It removes arguments from all entries and adds them to the normal ones: a
// recovery entry never gets an argument that mpps has set.
func dropInText(edits []argumentEdit, madeFolder bool) (string, error) {
	var b strings.Builder
	b.WriteString(dropInHead)
	if madeFolder {
		b.WriteString(dropInFolded)
	}
	var patterns, added []string
	chosen := ""
	for _, e := range edits {
		record, err := json.Marshal(e)
		if err != nil {
			return "", err
		}
		b.WriteString(dropInMark + string(record) + "\n")
		if e.Argument == menuDefault {
			if strings.ContainsAny(e.Entry, "'\n") {
				return "", fmt.Errorf("the name of the menu entry %q cannot be written", e.Entry)
			}
			chosen = "GRUB_DEFAULT='" + e.Entry + "'\n"
			continue
		}
		for name := range strings.SplitSeq(e.Argument, "+") {
			if err := setting.CheckWord(name); err != nil {
				return "", err
			}
			pattern := "'" + strings.NewReplacer("-", "'[-_]'", "_", "'[-_]'").Replace(name) + "'"
			pattern = strings.ReplaceAll(pattern, "''", "")
			patterns = append(patterns, pattern, pattern+"=*")
		}
		if e.Is != nil {
			words, err := setting.Words(e.Argument, *e.Is)
			if err != nil {
				return "", err
			}
			added = append(added, words...)
		}
	}
	b.WriteString(chosen)
	if len(patterns) == 0 {
		return b.String(), nil
	}
	fmt.Fprintf(&b, `mpps_kept() {
	mpps_words=
	for mpps_word in $1; do
		case $mpps_word in
		%s) ;;
		*) mpps_words="$mpps_words${mpps_words:+ }$mpps_word" ;;
		esac
	done
}
set -f
mpps_kept "${GRUB_CMDLINE_LINUX-}"
GRUB_CMDLINE_LINUX=$mpps_words
mpps_kept "${GRUB_CMDLINE_LINUX_DEFAULT-}"
GRUB_CMDLINE_LINUX_DEFAULT=$mpps_words
set +f
`, strings.Join(patterns, " | "))
	for _, word := range added {
		fmt.Fprintf(&b, "GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT}${GRUB_CMDLINE_LINUX_DEFAULT:+ "+
			"}\"'%s'\n", word)
	}
	return b.String(), nil
}

// addEdit returns the edits after one more. An argument that has its original value again is not an edit.
func addEdit(edits []argumentEdit, argument string, found, to setting.Reading) []argumentEdit {
	text := func(r setting.Reading) *string {
		if r.State != setting.Known {
			return nil
		}
		return &r.Value
	}
	i := slices.IndexFunc(edits, func(e argumentEdit) bool { return e.Argument == argument })
	edits = slices.Clone(edits)
	if i < 0 {
		if found.Same(to) {
			return edits
		}
		return append(edits, argumentEdit{Argument: argument, Was: text(found), Is: text(to)})
	}
	was, is := edits[i].Was, text(to)
	if was == nil && is == nil || was != nil && is != nil && *was == *is {
		return slices.Delete(edits, i, i+1)
	}
	edits[i].Is = is
	return edits
}

// regenerateUnfinished regenerates grub.cfg if a change of one of these names was interrupted: our file may already
// have other values. Afterwards the menu matches our file, so that addEdit can tell its values from the original ones.
func (k kernelArg) regenerateUnfinished(ctx context.Context, l *loader, unfinished, names []string) (*loader, error) {
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(unfinished, name) }) {
		return l, nil
	}
	err := backUp(k.m, l.config)
	if err == nil {
		err = k.updateGrub(ctx, l)
	}
	if err != nil {
		return l, err
	}
	return readLoader(k.m)
}

// writeDropIn changes our file and regenerates grub.cfg. If that fails, or the menu does not get the wanted arguments,
// it restores both.
func (k kernelArg) writeDropIn(ctx context.Context, l *loader, changes []argumentChange) (undone bool, err error) {
	return k.editDropIn(ctx, l, func(edits []argumentEdit) []argumentEdit {
		if next, err := l.nextEntry(); err == nil {
			for _, c := range changes {
				edits = addEdit(edits, c.argument, next.commandLine().Get(c.argument), c.to)
			}
		}
		return edits
	}, func() error { return k.verify(changes) })
}

// editDropIn changes the edits in our file and regenerates grub.cfg. It restores both if verify returns an error.
func (k kernelArg) editDropIn(ctx context.Context, l *loader, edit func([]argumentEdit) []argumentEdit,
	verify func() error) (undone bool, err error) {
	before, err := k.m.Read(dropIn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, err
	}
	edits, madeFolder, err := parseDropIn(before)
	if err != nil {
		return true, err
	}
	menu, err := k.m.Read(l.config)
	if err != nil {
		return true, err
	}
	if err := backUp(k.m, l.config); err != nil {
		return true, fmt.Errorf("keep a copy of /%s: %w", l.config, err)
	}
	after := edit(edits)
	if err = k.putDropIn(after, madeFolder); err == nil {
		err = k.updateGrub(ctx, l)
	}
	if err == nil {
		err = verify()
	}
	if err != nil {
		undo := k.putDropIn(edits, madeFolder)
		if now, failed := k.m.Read(l.config); undo == nil && (failed != nil || now != menu) {
			undo = k.m.Replace(l.config, menu)
		}
		if len(edits) == 0 && undo == nil {
			undo = removeBackups(k.m)
		}
		return undo == nil, errors.Join(err, undo)
	}
	if len(after) == 0 {
		return false, removeBackups(k.m)
	}
	return false, nil
}

// putDropIn writes our file, or removes it if there are no edits.
func (k kernelArg) putDropIn(edits []argumentEdit, madeFolder bool) error {
	if len(edits) == 0 {
		if err := k.m.Remove(dropIn); err != nil || !madeFolder || len(k.m.List(dropInFolder)) > 0 {
			return err
		}
		return k.m.Remove(dropInFolder)
	}
	if !k.m.Exists(dropInFolder) {
		madeFolder = true
		if err := k.m.MakeFolder(dropInFolder); err != nil {
			return err
		}
	}
	text, err := dropInText(edits, madeFolder)
	if err != nil {
		return err
	}
	return k.m.Replace(dropIn, text)
}

// updateGrub regenerates grub.cfg as update-grub does, but into another file which then replaces it: grub-mkconfig
// truncates the old file before it writes the new one, and syncs neither.
func (k kernelArg) updateGrub(ctx context.Context, l *loader) error {
	fresh := newMenu(l)
	if err := k.runProgram(ctx, "grub-mkconfig", "-o", "/"+fresh); err != nil {
		return errors.Join(err, k.m.Remove(fresh), k.m.Remove(fresh+".new"))
	}
	text, err := k.m.Read(fresh)
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("grub-mkconfig made an empty file")
	}
	if err == nil {
		err = k.m.Replace(l.config, text)
	}
	return errors.Join(err, k.m.Remove(fresh))
}

// newMenu returns the file that grub-mkconfig writes.
func newMenu(l *loader) string { return path.Dir(l.config) + "/.grub.cfg.mpps" }
