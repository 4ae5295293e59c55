package boot

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// keptFolder holds the boot loader's files as they were before mpps first changed them, below their own paths, and the
// list of arguments that mpps has changed since. When the last of these is back, so are the files, byte for byte.
const (
	keptFolder     = "var/lib/mpps/boot"
	keptArguments  = keptFolder + "/arguments"
	keptDefault    = keptFolder + "/default"    // the kernel that was booted by default before mpps chose another
	keptUnfinished = keptFolder + "/unfinished" // arguments of which a change is under way
)

// begin notes the arguments that are about to be changed. A change takes several files and a program: where it is cut
// short, what the next boot gets cannot be told from the entry that is booted next alone.
func begin(m *tree.Tree, arguments []string) error {
	names := unfinished(m)
	for _, name := range arguments {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := m.Root.MkdirAll(keptFolder, 0o755); err != nil {
		return err
	}
	return m.Replace(keptUnfinished, strings.Join(names, "\n")+"\n")
}

// unfinished lists the arguments of which a change is under way or was cut short.
func unfinished(m *tree.Tree) []string {
	text, err := m.Read(keptUnfinished)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}

// mend puts back kept files that a loss of power has left empty while one of these changes was under way: the programs
// of boot loaders bring nothing to disk.
func mend(m *tree.Tree, unfinished []string) error {
	if len(unfinished) == 0 {
		return nil
	}
	var problems []error
	for _, name := range kept(m, keptFolder) {
		now, err := m.Read(name)
		if err != nil || strings.Trim(now, "\x00 \n") != "" {
			continue
		}
		before, err := m.Read(keptFolder + "/" + name)
		if err == nil && before != now {
			err = m.Replace(name, before)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// finish takes arguments off that list.
func finish(m *tree.Tree, arguments []string) error {
	names := slices.DeleteFunc(unfinished(m), func(name string) bool { return slices.Contains(arguments, name) })
	if len(names) > 0 {
		return m.Replace(keptUnfinished, strings.Join(names, "\n")+"\n")
	}
	if m.Exists(keptUnfinished) {
		if err := m.Remove(keptUnfinished); err != nil {
			return err
		}
	}
	return forgetFolder(m)
}

// keep copies a file the first time that it is to be changed.
func keep(m *tree.Tree, name, text string) error {
	copied := keptFolder + "/" + name
	if m.Exists(copied) {
		return nil
	}
	if err := m.Root.MkdirAll(path.Dir(copied), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if info, err := m.Root.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	if err := m.Replace(copied, text); err != nil {
		return err
	}
	return m.Root.Chmod(copied, mode)
}

// keptSettle is called after changes of arguments. It notes them, and where every argument is as it was before the
// first change it puts the kept files back and forgets them.
func keptSettle(m *tree.Tree, changes []argumentChange) error {
	files := kept(m, keptFolder)
	if len(files) == 0 {
		return nil
	}
	noted, err := m.Read(keptArguments)
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
		if err := m.Replace(keptArguments, strings.Join(names, "\n")+"\n"); err != nil {
			return err
		}
	}
	for _, name := range unfinished(m) {
		if !slices.ContainsFunc(changes, func(c argumentChange) bool { return c.argument == name }) {
			return nil // one of which nobody knows how far it came, and that is still to be put right
		}
	}
	back := map[string]string{}
	for _, name := range files {
		before, err := m.Read(keptFolder + "/" + name)
		if err != nil {
			return err
		}
		now, err := m.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel that was removed since
		}
		if err != nil {
			return err
		}
		frameBefore, lineBefore := commandLineIn(name, before)
		frameNow, lineNow := commandLineIn(name, now)
		for _, argument := range names {
			if isMenu(m, name) && !lineBefore.Get(argument).Same(lineNow.Get(argument)) {
				return nil // something of ours still stands
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
	if m.Exists(keptDefault) {
		return nil
	}
	return forget(m)
}

// isMenu reports whether a kept file is one from which the arguments of the next boot come: the entry itself, or the
// environment block whose variable it names, or the grub.cfg that holds it.
func isMenu(m *tree.Tree, name string) bool {
	if path.Base(name) == "grubenv" {
		return true
	}
	l, err := readLoader(m)
	if err != nil {
		return false
	}
	next, _ := l.nextEntry()
	return next != nil && (next.file == name || l.kind == grub && l.config == name)
}

// kept lists the kept files by the names of the originals.
func kept(m *tree.Tree, dir string) []string {
	var files []string
	for _, name := range m.List(dir) {
		full := dir + "/" + name
		info, err := m.Root.Stat(full)
		switch {
		case err != nil || full == keptArguments || full == keptUnfinished || full == keptDefault:
		case info.IsDir():
			files = append(files, kept(m, full)...)
		default:
			files = append(files, strings.TrimPrefix(full, keptFolder+"/"))
		}
	}
	return files
}

// forgetUnused takes the kept files away after a change that did not come about, where no earlier one stands.
func forgetUnused(m *tree.Tree) error {
	if m.Exists(keptArguments) || m.Exists(keptDefault) {
		return nil
	}
	return forget(m)
}

// forget takes the kept files away. The list of unfinished changes goes last, by finish: where this is cut short, it is
// begun again.
func forget(m *tree.Tree) error {
	if !m.Exists(keptFolder) {
		return nil
	}
	for _, name := range m.List(keptFolder) {
		if full := keptFolder + "/" + name; full != keptUnfinished {
			if err := m.Root.RemoveAll(full); err != nil {
				return err
			}
		}
	}
	return forgetFolder(m)
}

// forgetFolder removes the folder where nothing is in it any more.
func forgetFolder(m *tree.Tree) error {
	if !m.Exists(keptFolder) || len(m.List(keptFolder)) > 0 {
		return nil
	}
	return m.Remove(keptFolder)
}

// commandLineIn takes the kernel's arguments out of a file that holds them: what is left, and the arguments.
func commandLineIn(name, text string) (frame string, line setting.CommandLine) {
	if name == kernelCmdline {
		return "", setting.ParseCommandLine(text)
	}
	var b strings.Builder
	for part := range strings.Lines(text) {
		switch key, value := loaderKey(part); {
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
			line = append(line, strings.TrimSuffix(part, "\n")) // the kernel that is booted by default
		case strings.HasPrefix(part, "kernelopts="):
			line = append(line, setting.ParseCommandLine(strings.TrimPrefix(part, "kernelopts="))...)
		case strings.Trim(part, "#\n") == "": // what fills up an environment block
		default:
			b.WriteString(strings.TrimSuffix(part, "\n") + "\n")
		}
	}
	return b.String(), line
}
