// Package owner answers whether a file may be believed: only root or this user may be able to change it. Whoever writes
// the files that mpps acts on acts as root.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Check refuses files and directories that belong to anybody but root or this user, or that others may write.
func Check(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner cannot be told")
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, expected %d", uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others than its owner may write it (mode %04o)", mode)
	}
	return nil
}
