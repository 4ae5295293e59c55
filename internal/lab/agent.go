package lab

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

// agentPrograms are the programs of the tree that a guest with an agent has in /bin: the agent and what it is asked to
// run.
var agentPrograms = []string{"usr/sbin/qemu-ga", "usr/bin/busybox", "usr/sbin/ethtool", "usr/bin/cyclictest"}

// applets are what busybox is called by in such a guest.
var applets = []string{"cat", "find", "grep", "kill", "ls", "mkswap", "pidof", "ps", "readlink", "sh", "sleep",
	"swapoff", "swapon", "tee", "true"}

// libraryFolder is where the loader of Debian looks for libraries, and loaderFolder where programs look for the loader.
const (
	libraryFolder = "usr/lib/x86_64-linux-gnu"
	loaderFolder  = "lib64"
)

// addAgent adds the programs, the libraries that they need and the links of busybox: about 11 MB, read again for each
// guest, which takes some ten milliseconds.
func addAgent(c *cpioWriter, tree string) error {
	dirs := []string{"bin", loaderFolder, "var", "var/run", "var/lib"}
	for at := ""; at != libraryFolder; {
		rest, _, _ := strings.Cut(strings.TrimPrefix(libraryFolder[len(at):], "/"), "/")
		at = path.Join(at, rest)
		dirs = append(dirs, at)
	}
	for _, d := range dirs {
		if err := c.dir(d); err != nil {
			return err
		}
	}
	files, err := withLibraries(tree, agentPrograms)
	if err != nil {
		return err
	}
	for _, name := range files {
		at := path.Join(libraryFolder, path.Base(name))
		switch {
		case slices.Contains(agentPrograms, name):
			at = path.Join("bin", path.Base(name))
		case strings.HasPrefix(path.Base(name), "ld-linux"):
			at = path.Join(loaderFolder, path.Base(name))
		}
		if err := addFile(c, at, filepath.Join(tree, name), 0o755); err != nil {
			return fmt.Errorf("guest agent: %w", err)
		}
	}
	for _, name := range applets {
		if err := c.link("bin/"+name, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// withLibraries lists programs of a tree with their loader and, to any depth, the libraries that they name (DT_NEEDED),
// each once.
func withLibraries(tree string, programs []string) ([]string, error) {
	list := slices.Clone(programs)
	for i := 0; i < len(list); i++ { // it grows
		loader, libraries, err := dependencies(filepath.Join(tree, list[i]))
		if err != nil {
			return nil, err
		}
		if loader != "" {
			libraries = append(libraries, path.Base(loader))
		}
		for _, library := range libraries {
			name, err := libraryIn(tree, library)
			if err != nil {
				return nil, fmt.Errorf("%s needs %s: %w", list[i], library, err)
			}
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list, nil
}

// dependencies are the loader and the libraries that an ELF file names; neither of a static program.
func dependencies(file string) (loader string, libraries []string, err error) {
	f, err := elf.Open(file)
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
			return "", nil, fmt.Errorf("guest program %s: %w", file, err)
		}
		loader = strings.TrimRight(string(text), "\x00")
	}
	libraries, err = f.ImportedLibraries()
	if err != nil {
		return "", nil, fmt.Errorf("guest program %s: %w", file, err)
	}
	return loader, libraries, nil
}

// libraryIn is where a tree has a library.
func libraryIn(tree, library string) (string, error) {
	for _, folder := range []string{libraryFolder, "usr/lib64", "usr/lib"} {
		name := path.Join(folder, library)
		if _, err := os.Stat(filepath.Join(tree, name)); err == nil {
			return name, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("not in %s of the tree", libraryFolder)
}
