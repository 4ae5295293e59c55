package golden

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

// Tree unpacks the archive of a recorded machine. "-> TARGET" is a symbolic link, and the command line of a process has
// one argument per line.
func Tree(archived, into string) error {
	archive, err := txtar.ParseFile(archived)
	if err != nil {
		return err
	}
	for _, f := range archive.Files {
		file := filepath.Join(into, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if strings.HasSuffix(f.Name, "/") {
			if err := os.MkdirAll(file, 0o755); err != nil {
				return err
			}
			continue
		}
		text := f.Data
		if target, isLink := bytes.CutPrefix(text, []byte("-> ")); isLink {
			if err := os.Symlink(strings.TrimSpace(string(target)), file); err != nil {
				return err
			}
			continue
		}
		if filepath.Base(file) == "cmdline" && filepath.Base(filepath.Dir(file)) != "proc" {
			text = bytes.ReplaceAll(text, []byte("\n"), []byte{0})
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
