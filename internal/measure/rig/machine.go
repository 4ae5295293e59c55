package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic/counters"
)

// Machine is this machine, below a root directory: its CPU times, softnet and interface counters.
type Machine struct {
	Patient bool // its processor is emulated: an agent may be silent for seconds

	tree  *tree.Tree
	netns []string // network namespaces whose interfaces are counted; "" is the process's own
	watch threadWatch
}

// OpenMachine opens a machine. Close it after use.
func OpenMachine(root string) (*Machine, error) {
	opened, err := tree.Open(root)
	if err != nil {
		return nil, fmt.Errorf("root directory of the machine: %w", err)
	}
	return &Machine{tree: opened}, nil
}

// Close releases the root directory.
func (m *Machine) Close() error { return m.tree.Close() }

// count adds namespaces whose interfaces are counted.
func (m *Machine) count(namespaces ...string) {
	for _, ns := range namespaces {
		if !slices.Contains(m.netns, ns) {
			m.netns = append(m.netns, ns)
		}
	}
}

func (m *Machine) where() string { return "host" }

// open opens a regular file. It rejects anything else in a recorded tree, such as a pipe, without blocking on it.
func (m *Machine) open(name string) (*os.File, error) {
	f, err := m.tree.Root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: expected a file, found %s", name, info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// cpuTimes reads /proc/stat.
func (m *Machine) cpuTimes(context.Context) (measure.CPUTimes, error) {
	f, err := m.open("proc/stat")
	if err != nil {
		return measure.CPUTimes{}, err
	}
	defer f.Close()
	taken := time.Now()
	times, err := measure.ParseStat(f)
	times.Taken = taken
	return times, err
}

// read returns the text of a small file without surrounding white space.
func (m *Machine) read(name string) (string, error) {
	f, err := m.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return strings.TrimSpace(string(text)), err
}

// counters reads the softnet counters, and those of interfaces and UDP sockets in the namespaces on the path.
func (m *Machine) counters(context.Context) (measure.Counters, error) {
	all := measure.Counters{}
	text, err := m.read("proc/net/softnet_stat")
	if err != nil {
		return nil, err
	}
	softnet, err := counters.ParseSoftnet(text)
	if err != nil {
		return nil, err
	}
	for name, n := range softnet {
		all[measure.Counter{Where: m.where(), Name: name}] = n
	}
	for _, ns := range m.netns {
		interfaces, udp, err := counters.OfNamespace(ns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place(ns), err)
		}
		if unnamed(ns) { // its loopback and sockets are on no path
			interfaces = slices.DeleteFunc(interfaces, func(i counters.Interface) bool { return i.Name == "lo" })
			udp = nil
		}
		for _, i := range interfaces {
			for name, n := range i.Counters {
				all[measure.Counter{Where: place(ns), Interface: i.Name, Kind: i.Kind, Name: name}] = n
			}
		}
		for name, n := range udp {
			all[measure.Counter{Where: place(ns), Name: name}] = n
		}
	}
	return all, nil
}

// unnamed reports whether a namespace was made by traffic.NewNetns.
func unnamed(ns string) bool { return path.IsAbs(ns) }

// place returns the name of a namespace in results. An unnamed one belongs to the host.
func place(ns string) string {
	if ns == "" || unnamed(ns) {
		return "host"
	}
	return "netns:" + ns
}

// sysfs reads a file of an interface in this process's network namespace.
func (m *Machine) sysfs(iface, name string) (string, error) {
	return m.read(path.Join("sys/class/net", iface, name))
}
