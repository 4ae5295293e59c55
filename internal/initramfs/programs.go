package initramfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// libraryFolders are where the loaders of Debian and of RHEL find libraries without a cache (ld.so(8)).
var libraryFolders = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib"}

// Programs writes programs of a root file system into /bin. Their loaders and libraries (DT_NEEDED, of libraries too)
// come to where they are looked for, each once; static programs need none. Paths are relative to root.
func (c *Writer) Programs(root string, programs []string) error {
	files, err := withLibraries(root, programs)
	if err != nil {
		return err
	}
	for _, f := range files {
		for i, r := range f.at {
			if r != '/' {
				continue
			}
			if err := c.Dir(f.at[:i]); err != nil { // the kernel accepts a directory twice
				return err
			}
		}
		if err := c.File(f.at, filepath.Join(root, f.from), 0o755); err != nil {
			return fmt.Errorf("guest program: %w", err)
		}
	}
	return nil
}

// CheckPrograms returns an error unless programs and all that they need are in a root file system.
func CheckPrograms(root string, programs []string) error {
	_, err := withLibraries(root, programs)
	return err
}

// file is a file of an archive and where it comes from, relative to the root of either.
type file struct{ at, from string }

// withLibraries lists programs with their loaders and, recursively, the libraries that they need.
func withLibraries(root string, programs []string) ([]file, error) {
	var list []file
	for _, p := range programs {
		list = append(list, file{path.Join("bin", path.Base(p)), p})
	}
	for i := 0; i < len(list); i++ { // it grows
		loader, libraries, err := dependencies(filepath.Join(root, list[i].from))
		if err != nil {
			return nil, err
		}
		if loader != "" {
			libraries = append([]string{loader}, libraries...)
		}
		for _, name := range libraries {
			from, err := libraryIn(root, path.Base(name))
			if err != nil {
				return nil, fmt.Errorf("%s needs %s: %w", list[i].from, name, err)
			}
			f := file{from, from}
			if name == loader {
				f.at = loader
			}
			if !slices.ContainsFunc(list, func(o file) bool { return o.from == f.from }) { // libc names its loader
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// dependencies returns the loader, relative to the root, and the libraries that an ELF file names; a static program has
// neither.
func dependencies(name string) (loader string, libraries []string, err error) {
	f, err := elf.Open(name)
	if err != nil {
		return "", nil, fmt.Errorf("guest program: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err != nil {
			return "", nil, fmt.Errorf("guest program %s: %w", name, err)
		}
		loader = strings.Trim(string(text), "/\x00")
	}
	libraries, err = f.ImportedLibraries()
	if err != nil {
		return "", nil, fmt.Errorf("guest program %s: %w", name, err)
	}
	return loader, libraries, nil
}

// libraryIn returns the path of a library, or of a loader, in a root file system.
func libraryIn(root, library string) (string, error) {
	for _, folder := range libraryFolders {
		name := path.Join(folder, library)
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return name, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("not in %s", strings.Join(libraryFolders, ", "))
}
