package traffic

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// refusedCounter counts the frames that a device refused, with the tracepoints of bpf/refused.bpf.c.
type refusedCounter struct {
	coll  *ebpf.Collection
	links []link.Link
}

func newRefusedCounter(dev Device) (*refusedCounter, error) {
	fail := func(err error) error {
		return fmt.Errorf("cannot count frames that %s does not take: %w", dev.Endpoint, err)
	}
	var ns unix.Stat_t
	if err := dev.Do(func() error { return unix.Stat("/proc/thread-self/ns/net", &ns) }); err != nil {
		return nil, fail(err)
	}
	spec, err := loadRefused()
	if err != nil {
		return nil, fail(err)
	}
	if err = spec.Variables[refusedVarCfg].Set(refusedConfig{Ifindex: uint32(dev.Index), Netns: uint32(ns.Ino),
		Tgid: uint32(os.Getpid())}); err != nil {
		return nil, fail(err)
	}
	coll, err := loadCollection(spec)
	if err != nil {
		return nil, fail(err)
	}
	r := &refusedCounter{coll: coll}
	for _, name := range []string{refusedProgFull, refusedProgFailed} {
		l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
		if err != nil {
			return nil, errors.Join(fail(err), r.close())
		}
		r.links = append(r.links, l)
	}
	return r, nil
}

// watch adds one of the generator's programs.
func (r *refusedCounter) watch(prog *ebpf.Program) error {
	info, err := prog.Info()
	if err != nil {
		return err
	}
	id, _ := info.ID()
	return r.coll.Maps[refusedMapPrograms].Put(uint32(id), uint8(1))
}

// errFull is the reason for refusing a frame if the device gives none.
var errFull = errors.New("its ring was full")

// read returns the number of refused frames so far, and why the last one was.
func (r *refusedCounter) read() (n uint64, why error, err error) {
	var cpus []refusedCount
	if err := r.coll.Maps[refusedMapRefused].Lookup(uint32(0), &cpus); err != nil {
		return 0, nil, fmt.Errorf("read the count of refused frames: %w", err)
	}
	why = errFull
	for _, c := range cpus {
		n += c.Frames
		if c.Err < 0 {
			why = unix.Errno(-c.Err)
		}
	}
	return n, why, nil
}

func (r *refusedCounter) close() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	r.coll.Close()
	return errors.Join(errs...)
}
