package boot

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// backupFolder holds backups of the boot loader's files from before mpps first changed them, below their own paths, and
// the list of arguments that mpps has changed since. Once the last argument has its original value, the files are
// restored byte for byte.
const (
	backupFolder     = "var/lib/mpps/boot"
	changedArguments = backupFolder + "/arguments"
	formerDefault    = backupFolder + "/default"    // the default kernel before mpps chose another
	unfinishedList   = backupFolder + "/unfinished" // arguments whose change is under way
)

// addUnfinished records the arguments that are about to be changed. A change takes several files and a program: if it
// is interrupted, the entry that is booted next does not show what the next boot gets.
func addUnfinished(m *tree.Tree, arguments []string) error {
	names := unfinished(m)
	for _, name := range arguments {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := m.MakeFolder(backupFolder); err != nil {
		return err
	}
	return m.Replace(unfinishedList, strings.Join(names, "\n")+"\n")
}

// unfinished returns the arguments whose change is under way or was interrupted.
func unfinished(m *tree.Tree) []string {
	text, err := m.Read(unfinishedList)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}

// restoreEmptied restores files that a power loss during one of these changes has left empty: the boot loaders'
// programs sync nothing.
func restoreEmptied(m *tree.Tree, unfinished []string) error {
	if len(unfinished) == 0 {
		return nil
	}
	var problems []error
	for _, name := range backups(m, backupFolder) {
		now, err := m.Read(name)
		if err != nil || strings.Trim(now, "\x00 \n") != "" {
			continue
		}
		before, err := m.Read(backupFolder + "/" + name)
		if err == nil && before != now {
			err = m.Replace(name, before)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// removeUnfinished removes arguments from the list of unfinished changes.
func removeUnfinished(m *tree.Tree, arguments []string) error {
	names := slices.DeleteFunc(unfinished(m), func(name string) bool { return slices.Contains(arguments, name) })
	if len(names) > 0 {
		return m.Replace(unfinishedList, strings.Join(names, "\n")+"\n")
	}
	if err := m.Remove(unfinishedList); err != nil {
		return err
	}
	return removeEmptyFolder(m)
}

// backUp backs up a file before its first change.
func backUp(m *tree.Tree, name string) error {
	copied := backupFolder + "/" + name
	if m.Exists(copied) {
		return nil
	}
	if err := m.MakeFolder(path.Dir(copied)); err != nil {
		return err
	}
	return m.Copy(name, copied)
}

// settleBackups records changed arguments. Once every argument has its original value it restores the backups and
// removes them.
func settleBackups(m *tree.Tree, changes []argumentChange) error {
	files := backups(m, backupFolder)
	switch {
	case len(files) > 0:
	case m.Exists(formerDefault):
		return nil
	default: // folders, if a change ended before its first copy
		return removeBackups(m)
	}
	noted, err := m.Read(changedArguments)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := strings.Fields(noted)
	known := len(names)
	for _, c := range changes {
		if !slices.Contains(names, c.argument) {
			names = append(names, c.argument)
		}
	}
	if len(names) > known {
		if err := m.Replace(changedArguments, strings.Join(names, "\n")+"\n"); err != nil {
			return err
		}
	}
	for _, name := range unfinished(m) {
		if !slices.ContainsFunc(changes, func(c argumentChange) bool { return c.argument == name }) {
			return nil // an interrupted change is still to be undone
		}
	}
	back := map[string]string{}
	for _, name := range files {
		before, err := m.Read(backupFolder + "/" + name)
		if err != nil {
			return err
		}
		now, err := m.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel was removed since
		}
		if err != nil {
			return err
		}
		frameBefore, lineBefore := commandLineIn(name, before)
		frameNow, lineNow := commandLineIn(name, now)
		for _, argument := range names {
			if isMenu(m, name) && !lineBefore.Get(argument).Same(lineNow.Get(argument)) {
				return nil // a change of ours is still in effect
			}
		}
		if frameBefore == frameNow && lineBefore.Without(names...).SameWords(lineNow.Without(names...)) {
			back[name] = before
		}
	}
	for _, name := range files {
		if text, ours := back[name]; ours {
			if err := m.Replace(name, text); err != nil {
				return err
			}
		}
	}
	if m.Exists(formerDefault) {
		return nil
	}
	return removeBackups(m)
}

// isMenu reports whether the next boot takes its arguments from a file: the entry itself, the environment block whose
// variable it uses, or the grub.cfg that holds it.
func isMenu(m *tree.Tree, name string) bool {
	if path.Base(name) == "grubenv" {
		return true
	}
	l, err := readLoader(m)
	if err != nil {
		return false
	}
	next, err := l.nextEntry()
	return err == nil && (next.file == name || l.kind == grub && l.config == name)
}

// backups returns the original names of the backed-up files.
func backups(m *tree.Tree, dir string) []string {
	var files []string
	for _, name := range m.List(dir) {
		full := dir + "/" + name
		info, err := m.Stat(full)
		switch {
		case err != nil || full == changedArguments || full == unfinishedList || full == formerDefault:
		case info.IsDir():
			files = append(files, backups(m, full)...)
		default:
			files = append(files, strings.TrimPrefix(full, backupFolder+"/"))
		}
	}
	return files
}

// removeUnusedBackups removes the backups after a failed change, unless an earlier change is in effect.
func removeUnusedBackups(m *tree.Tree) error {
	if m.Exists(changedArguments) || m.Exists(formerDefault) {
		return nil
	}
	return removeBackups(m)
}

// removeBackups removes the backups but not the list of unfinished changes, which removeUnfinished removes last: an
// interrupted removal is then repeated.
func removeBackups(m *tree.Tree) error {
	if !m.Exists(backupFolder) {
		return nil
	}
	for _, name := range m.List(backupFolder) {
		if full := backupFolder + "/" + name; full != unfinishedList {
			if err := m.RemoveAll(full); err != nil {
				return err
			}
		}
	}
	return removeEmptyFolder(m)
}

// removeEmptyFolder removes the folder if it is empty.
func removeEmptyFolder(m *tree.Tree) error {
	if !m.Exists(backupFolder) || len(m.List(backupFolder)) > 0 {
		return nil
	}
	return m.Remove(backupFolder)
}

// commandLineIn splits a file into the kernel's arguments (line) and everything else (frame).
func commandLineIn(name, text string) (frame string, line setting.CommandLine) {
	if name == kernelCmdline {
		return "", setting.ParseCommandLine(text)
	}
	var b strings.Builder
	for part := range strings.Lines(text) {
		switch key, value := splitKey(part); {
		case strings.Contains(name, "loader/entries/") && key == "options":
			line = append(line, setting.ParseCommandLine(value)...)
		case strings.HasPrefix(part, "GRUB_CMDLINE_LINUX="):
			_, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			line = append(line, setting.ParseCommandLine(strings.Trim(value, `"'`))...)
		case path.Base(name) == "grub.cfg" && (key == "linux" || key == "linux16" || key == "linuxefi"):
			file, args, _ := strings.Cut(value, " ")
			b.WriteString(key + " " + file + "\n")
			line = append(line, setting.ParseCommandLine(args)...)
		case path.Base(name) == "grubenv" && strings.HasPrefix(part, savedEntry+"="):
			line = append(line, strings.TrimSuffix(part, "\n")) // the default kernel
		case strings.HasPrefix(part, "kernelopts="):
			line = append(line, setting.ParseCommandLine(strings.TrimPrefix(part, "kernelopts="))...)
		case strings.Trim(part, "#\n") == "": // padding of an environment block
		default:
			b.WriteString(strings.TrimSuffix(part, "\n") + "\n")
		}
	}
	return b.String(), line
}
