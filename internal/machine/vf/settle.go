package vf

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"mpps/internal/machine/tree"
)

// Functions are there once their links are, but not yet of use: udev loads their driver, the driver names their
// devices, and udev names them again. Who starts a guest or a network with one meanwhile gets it half made.

// settlePatience is how long that may take: 63 functions of an X520 take about 10 s. A driver that is installed but
// never comes is waited for as long as functions go on changing, and settleQuiet beyond.
const (
	settlePatience = 90 * time.Second
	settleQuiet    = 2 * time.Second
	countPause     = 50 * time.Millisecond
)

// settled is how far functions are.
type settled struct {
	links   int  // functions that there are
	drivers int  // of those, with a driver
	names   int  // of those, with a device that udev has named, or with a driver that makes none
	queued  bool // udev has events to handle
}

// settle waits until all functions are there and, where drivers of the host look for them, have a driver and a name, or
// nothing has changed for a while: not every function has a driver here (vfio, a blacklist, a module that is not
// installed).
func (p physical) settle(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("they have not settled within %v", patience))
	defer cancel()
	if p.m.Number(path.Join(p.dir, "sriov_totalvfs"), -1) < 0 {
		return nil // not of PCI: they are no devices of their own
	}
	probes := p.m.Line(path.Join(p.dir, "sriov_drivers_autoprobe")) != "0"
	var last settled
	since, told := time.Now(), time.Now()
	for {
		now := p.settled()
		if now != last {
			last, since = now, time.Now()
		}
		quiet := time.Since(since) >= settleQuiet
		ready := !probes || now.names == p.count
		switch {
		case now.links < p.count, p.count == 0 && now.links > 0:
		case ready && !now.queued, quiet && !now.queued, ready && quiet: // udev may be at work for others
			return nil
		}
		if time.Since(told) >= time.Second {
			p.m.ReportProgress("%s: %d of %s there, %d named", p.name, now.links, functionCount(p.count), now.names)
			told = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%s)", context.Cause(ctx), now.lacks(p.count, probes))
		case <-time.After(countPause):
		}
	}
}

// lacks says what is still missing.
func (s settled) lacks(count int, probes bool) string {
	parts := []string{fmt.Sprintf("%d of %d are there", s.links, count)}
	if probes {
		parts = append(parts, fmt.Sprintf("%d have a driver", s.drivers), fmt.Sprintf("%d have a name", s.names))
	}
	if s.queued {
		parts = append(parts, "udev is still at work")
	}
	return strings.Join(parts, ", ")
}

// settled looks at the functions once.
func (p physical) settled() settled {
	s := settled{queued: p.m.Exists("run/udev/queue")}
	for i := range max(p.count, 1) { // virtfnN are numbered without gaps
		dir, pci := p.function(i)
		if pci == "" {
			break
		}
		s.links++
		driver := p.m.Target(path.Join(dir, "driver"))
		if driver == "" {
			continue
		}
		s.drivers++
		if nets := p.m.List(path.Join(dir, "net")); len(nets) > 0 && Named(p.m, nets[0]) || driver == "vfio-pci" ||
			driver == "pci-stub" {
			s.names++
		}
	}
	return s
}

// Named reports whether udev is done with a network device: it has its final name, and its properties are written
// (/run/udev/data/nINDEX; src/libsystemd/sd-device/device-private.c, device_update_db). Without udev every device is.
func Named(m *tree.Tree, device string) bool {
	index := m.Line(path.Join(tree.ClassNet, device, "ifindex"))
	if index == "" {
		return false
	}
	return !m.Exists("run/udev/control") || m.Exists("run/udev/data/n"+index)
}
