package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// diskSize is the size of the disk; the image is sparse.
const diskSize = 4 << 30

// makeDisk creates an image with an empty ext4 file system unless it exists. A virtiofs layer keeps whatever was
// written, because writes go through to L0; a disk loses what L1 only had in memory.
func makeDisk(ctx context.Context, image string) error {
	if _, err := os.Stat(image); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.Create(image + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(diskSize), f.Close()); err != nil {
		return err
	}
	if _, err := output(ctx, nil, "mkfs.ext4", "-q", "-F", image+".new"); err != nil {
		return err
	}
	return os.Rename(image+".new", image)
}
