package vf

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// VFs exist once their links do, but are not ready yet: udev loads their driver, the driver creates their network
// devices, and udev renames these. A guest or a network that is started meanwhile gets a half-made VF.

// settlePatience is how long that may take: 63 VFs of an X520 take about 10 s. If a driver never binds, the wait ends
// settleQuiet after the last change.
const (
	settlePatience = 90 * time.Second
	settleQuiet    = 2 * time.Second
	countPause     = 50 * time.Millisecond
)

// progress is the state of a PF's VFs.
type progress struct {
	links   int  // VFs that exist
	drivers int  // of those, with a driver
	names   int  // of those, with a device that udev has named, or with a driver that creates none
	queued  bool // udev has pending events
}

// settle waits until all VFs exist and, if the host's drivers probe them, have a driver and a name, or until nothing
// has changed for a while: not every VF has a driver here (vfio, a blacklist, a module that is not installed).
func (p physical) settle(ctx context.Context, patience time.Duration) error {
	ctx, cancel := setting.WithPatience(ctx, patience, fmt.Errorf("they have not settled within %v", patience))
	defer cancel()
	if p.m.Number(path.Join(p.dir, "sriov_totalvfs"), -1) < 0 {
		return nil // not PCI: the VFs are not devices
	}
	probes := p.m.Line(path.Join(p.dir, "sriov_drivers_autoprobe")) != "0"
	var last progress
	since, reported := time.Now(), time.Now()
	for {
		now := p.progress()
		if now != last {
			last, since = now, time.Now()
		}
		quiet := time.Since(since) >= settleQuiet
		ready := !probes || now.names == p.count
		switch {
		case now.links < p.count, p.count == 0 && now.links > 0:
		case ready && !now.queued, quiet && !now.queued, ready && quiet: // udev may be busy with other devices
			return nil
		}
		if time.Since(reported) >= time.Second {
			p.m.ReportProgress("%s: %d of %s there, %d named", p.name, now.links, functionCount(p.count), now.names)
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%s)", context.Cause(ctx), now.missing(p.count, probes))
		case <-time.After(countPause):
		}
	}
}

// missing returns a sentence about what is still missing.
func (s progress) missing(count int, probes bool) string {
	parts := []string{fmt.Sprintf("%d of %d are there", s.links, count)}
	if probes {
		parts = append(parts, fmt.Sprintf("%d have a driver", s.drivers), fmt.Sprintf("%d have a name", s.names))
	}
	if s.queued {
		parts = append(parts, "udev is still at work")
	}
	return strings.Join(parts, ", ")
}

// progress reads the state of the VFs.
func (p physical) progress() progress {
	s := progress{queued: p.m.Exists("run/udev/queue")}
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
// (/run/udev/data/nINDEX; src/libsystemd/sd-device/device-private.c, device_update_db). Without udev it is true for
// every device.
func Named(m *tree.Tree, device string) bool {
	index := m.Line(path.Join(tree.ClassNet, device, "ifindex"))
	if index == "" {
		return false
	}
	return !m.Exists("run/udev/control") || m.Exists("run/udev/data/n"+index)
}
