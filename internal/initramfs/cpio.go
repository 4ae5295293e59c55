package initramfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Writer writes the "newc" format that the kernel unpacks as an initramfs
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type Writer struct {
	w   *bufio.Writer
	n   int64
	ino int
}

func newWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<20)} }

// File types of a mode, include/uapi/linux/stat.h.
const (
	modeDir  = 0o040000
	modeChar = 0o020000
	modeFile = 0o100000
	modeLink = 0o120000
)

// entry writes a header and its data. rdevMajor and rdevMinor only matter for device files.
func (c *Writer) entry(name string, mode uint32, rdevMajor, rdevMinor int, size int64, data io.Reader) error {
	if size < 0 || size > 0xffffffff {
		return fmt.Errorf("cpio %s: size %d: want less than 4 GiB", name, size)
	}
	c.ino++
	links := 1
	if mode&0o170000 == modeDir {
		links = 2
	}
	h := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, mode, 0, 0, links, 0, size, 0, 0, rdevMajor, rdevMinor, len(name)+1, 0, name)
	if err := c.padded(h); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	m, err := io.CopyN(c.w, data, size)
	c.n += m
	if err != nil {
		return fmt.Errorf("cpio %s: %w", name, err)
	}
	return c.padded("")
}

// padded writes s and pads to a multiple of four.
func (c *Writer) padded(s string) error {
	for (c.n+int64(len(s)))%4 != 0 {
		s += "\x00"
	}
	n, err := c.w.WriteString(s)
	c.n += int64(n)
	return err
}

// Dir writes a directory.
func (c *Writer) Dir(name string) error { return c.entry(name, modeDir|0o755, 0, 0, 0, nil) }

// Link writes a symbolic link.
func (c *Writer) Link(name, target string) error {
	return c.entry(name, modeLink|0o777, 0, 0, int64(len(target)), strings.NewReader(target))
}

// Text writes a file with this content.
func (c *Writer) Text(name, content string, permissions uint32) error {
	return c.entry(name, modeFile|permissions, 0, 0, int64(len(content)), strings.NewReader(content))
}

// File writes a copy of a file.
func (c *Writer) File(name, source string, permissions uint32) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return c.entry(name, modeFile|permissions, 0, 0, st.Size(), f)
}

// close writes the trailer.
func (c *Writer) close() error {
	return errors.Join(c.entry("TRAILER!!!", 0, 0, 0, 0, nil), c.w.Flush())
}
