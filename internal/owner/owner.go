// Package owner answers whether a file may be believed: only root or this user may be able to change it. Whoever writes
// the files that mpps acts on acts as root.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Program refuses a program that others can change, or put another in its place: Check fails for it or for a directory
// above it. path is absolute and without symbolic links, as os.Executable returns it.
func Program(path string) error {
	for name := path; ; name = filepath.Dir(name) {
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		if err := Check(info); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name == filepath.Dir(name) {
			return nil
		}
	}
}

// ForAll refuses a program that an account without privileges cannot start. The folders above it may be closed:
// CAP_DAC_READ_SEARCH opens them, and no file for starting.
func ForAll(program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o001 == 0 {
		return fmt.Errorf("others than its owner cannot start it (mode %04o)", mode)
	}
	return nil
}

// Check refuses files and directories that belong to anybody but root or this user, or that others may write.
func Check(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner cannot be determined")
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, expected %d", uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others than its owner may write it (mode %04o)", mode)
	}
	return nil
}

// Either reports whether a file belongs to root, to this user or to the owner of its folder.
func Either(file, folder fs.FileInfo) bool {
	own, known := file.Sys().(*syscall.Stat_t)
	above, also := folder.Sys().(*syscall.Stat_t)
	return known && also && (own.Uid == 0 || int(own.Uid) == os.Geteuid() || own.Uid == above.Uid)
}

// Links returns how many names a file has; 0 if that cannot be determined.
func Links(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 0
}
