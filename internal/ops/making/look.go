package making

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/initramfs"
	"mpps/internal/machine"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/measure/traffic/engine"
	"mpps/internal/outcome"
)

// bus is the module that finds virtio devices.
const bus = "virtio_pci"

// Kernel returns an error if the image of the running kernel cannot be read.
func Kernel() error {
	release, err := release()
	if err == nil {
		_, err = kernelOf(release)
	}
	return err
}

// Module returns an error if the running kernel lacks the module of a NIC or what that needs, or if it cannot be
// unpacked.
func Module(ctx context.Context, m *machine.Machine, name string) error {
	release, err := release()
	if err != nil {
		return err
	}
	modules, err := initramfs.ReadModules(modulesDir(release))
	if err != nil {
		return err
	}
	files, err := modules.Files(bus, name)
	for _, file := range files {
		if err == nil && filepath.Ext(file) != ".ko" {
			_, err = unpack(ctx, m.Tree, file)
		}
	}
	return err
}

// Device returns an error unless a character device can be opened.
func Device(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return unix.Close(fd)
}

// Libvirt returns an error unless libvirt can be asked.
func Libvirt(m *machine.Machine) error {
	_, err := libvirt.Open(m.Tree)
	return err
}

// Init returns an error unless this program can be a guest's init.
func Init() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return initramfs.CheckStatic(self)
}

// Server returns an error unless guests can have the server of an engine: this host's, with its libraries.
func Server(e engine.Name) error {
	servers, err := serversOf(e)
	if err == nil {
		err = initramfs.CheckPrograms("/", servers)
	}
	return err
}

// serversOf returns the paths of an engine's server below the root; none for no engine.
func serversOf(e engine.Name) ([]string, error) {
	if e == "" {
		return nil, nil
	}
	found, err := e.FindServer()
	return []string{strings.TrimPrefix(found, "/")}, err
}

// packers are the programs that unpack modules, by the ending of the file.
var packers = map[string]struct{ program, packages string }{
	".xz": {"xz", "xz-utils or xz"}, ".zst": {"zstd", "zstd"},
}

// unpack returns the content of a packed module.
func unpack(ctx context.Context, m *tree.Tree, file string) (string, error) {
	if filepath.Ext(file) == ".gz" {
		return gunzip(file)
	}
	p, known := packers[filepath.Ext(file)]
	if !known {
		return "", fmt.Errorf("%s: unknown packing", file)
	}
	text, err := m.Command(ctx, p.program, "-dc", "--", file)
	if err != nil {
		err = outcome.Failed(err, p.program+" unpacks it: is package "+p.packages+" installed?")
	}
	return text, err
}

func gunzip(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(z, most))
	return string(text), err
}
