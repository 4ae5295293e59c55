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

	"mpps/internal/initramfs"
)

// agentPrograms are the programs of the tree in /bin of a guest with an agent: the agent, and what it is asked to run.
var agentPrograms = []string{"usr/sbin/qemu-ga", "usr/bin/busybox", "usr/sbin/ethtool", "usr/bin/cyclictest"}

// applets are the links to busybox in such a guest.
var applets = []string{"cat", "chmod", "cp", "dd", "find", "grep", "kill", "ls", "mkdir", "mkswap", "mv", "pidof", "ps",
	"readlink", "rm", "rmdir", "sh", "sleep", "swapoff", "swapon", "sync", "tar", "tee", "true"}

// libraryFolder is where Debian's loader finds libraries, loaderFolder where programs find the loader.
const (
	libraryFolder = "usr/lib/x86_64-linux-gnu"
	loaderFolder  = "lib64"
)

// addAgent adds the programs, their libraries and the busybox links: about 11 MB, read for each guest, which takes some
// ten milliseconds.
func addAgent(c *initramfs.Writer, tree string) error {
	dirs := []string{"bin", loaderFolder, "var", "var/run", "var/lib"}
	for at := ""; at != libraryFolder; {
		rest, _, _ := strings.Cut(strings.TrimPrefix(libraryFolder[len(at):], "/"), "/")
		at = path.Join(at, rest)
		dirs = append(dirs, at)
	}
	for _, d := range dirs {
		if err := c.Dir(d); err != nil {
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
		if err := c.File(at, filepath.Join(tree, name), 0o755); err != nil {
			return fmt.Errorf("guest agent: %w", err)
		}
	}
	for _, name := range applets {
		if err := c.Link("bin/"+name, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// withLibraries lists programs of a tree with their loader and, recursively, the libraries they need (DT_NEEDED), each
// once.
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

// dependencies returns the loader and libraries that an ELF file names; a static program has neither.
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

// libraryIn returns the path of a library in a tree.
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
