package planted

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// check says everything that is wrong with a scenario.
func (s *Scenario) check() error {
	var errs []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	cpus := func(what string, list []int) {
		for _, n := range list {
			wrong(n >= 0 && n < s.Needs.CPUs, "%s is CPU %d of %d: see needs.cpus", what, n, s.Needs.CPUs)
		}
	}
	wrong(s.Title != "", "no title")
	wrong(s.For >= 0.5 && s.For <= 60, "for %g seconds, expected 0.5 to 60", s.For)
	wrong(slices.Contains([]string{"bridge", "route"}, s.Path.Forward), "path.forward %q, expected bridge or route",
		s.Path.Forward)
	wrong(s.Path.Queues >= 1 && s.Path.Queues <= 16, "path.queues %d, expected 1 to 16", s.Path.Queues)
	wrong(s.Path.Tunnel == nil || s.Path.Forward == "bridge", "a tunnel ends in a bridge: path.forward %q",
		s.Path.Forward)
	if t := s.Path.Tunnel; t != nil {
		wrong(t.Queues >= 1 && t.Queues <= 16, "path.tunnel.queues %d, expected 1 to 16", t.Queues)
		wrong(t.SourcePorts >= 0 && t.SourcePorts <= 10_000, "path.tunnel.source_ports %d, expected at most 10000",
			t.SourcePorts)
	}
	cpus("path.steer", s.Path.Steer)
	wrong(len(s.Path.Ends) > 0, "no ends")
	for i, e := range s.Path.Ends {
		wrong(e.Name != "" && e.Name != wire && e.Name != host && len(e.Name) <= 8,
			"end %d has the name %q, expected one of 1 to 8 bytes", i, e.Name)
		wrong(!slices.ContainsFunc(s.Path.Ends[:i], func(o End) bool { return o.Name == e.Name }),
			"two ends are called %s", e.Name)
		wrong(slices.Contains([]string{"counter", "socket", "guest", "bare"}, e.Kind), "end %s is a %q, expected "+
			"counter, socket, guest or bare", e.Name, e.Kind)
		wrong(e.Kind == "guest" || e.Queues == 1 && e.VCPUs == 1 && e.VhostUS == 0 && e.VCPUUS == 0 &&
			len(e.VhostCPUs)+len(e.VCPUCPUs) == 0 && !e.Emulated && e.Node == nil,
			"end %s is no guest: it has no queues, vCPUs, vhost threads or memory", e.Name)
		wrong(!e.Plain || e.Emulated, "end %s is a plain program, which has no vhost: emulated is not set", e.Name)
		wrong(e.Node == nil || *e.Node >= 0 && *e.Node < 64, "end %s has its memory on a node that is not 0 to 63",
			e.Name)
		wrong(e.Kind == "socket" || e.ReadUS == 0 && e.PauseUS == 0 && e.Buffer == 0 && len(e.CPUs) == 0,
			"end %s is no socket: nobody reads it", e.Name)
		wrong(e.Kind != "guest" || s.Path.Forward == "bridge", "guest %s needs a bridge", e.Name)
		wrong(min(e.VhostUS, e.VCPUUS, e.ReadUS, e.PauseUS) >= 0, "end %s takes negative time", e.Name)
		cpus("end "+e.Name, slices.Concat(e.VhostCPUs, e.VCPUCPUs, e.CPUs))
	}
	for i, step := range s.Plant {
		errs = append(errs, s.checkStep(i, step))
		if step.Hog != nil {
			cpus("a hog", step.Hog.CPUs)
		}
		if step.Capture != nil {
			cpus("a capture", step.Capture.CPUs)
		}
	}
	for i, t := range s.Traffic {
		from, to := s.Path.end(t.From), s.Path.end(t.To)
		wrong(t.From == wire || from != nil && from.Kind == "guest", "traffic %d is from %q, expected wire or a guest",
			i, t.From)
		wrong(t.To == wire && t.From != wire || to != nil, "traffic %d from %s is to %q, expected an end", i, t.From,
			t.To)
		wrong(from == nil || to == nil, "traffic %d is from an end to an end", i)
		wrong(t.PPS > 0 && t.PPS <= 5_000_000, "traffic %d has %d packets per second, expected 1 to 5,000,000", i,
			t.PPS)
		wrong(t.Frame >= 64 && t.Frame <= 1518, "traffic %d has frames of %d bytes, expected 64 to 1518", i, t.Frame)
		wrong(t.Flows >= 1 && t.Flows <= 50_000, "traffic %d has %d flows, expected 1 to 50000", i, t.Flows)
		wrong(t.Burst >= 0 && t.Burst <= 100_000, "traffic %d has bursts of %d packets, expected at most 100000", i,
			t.Burst)
		wrong(net.ParseIP(t.Source+".0.0").To4() != nil, "traffic %d is from %q, expected two bytes of an address", i,
			t.Source)
		wrong(t.TTL >= 1 && t.TTL <= 255, "traffic %d has a TTL of %d, expected 1 to 255", i, t.TTL)
		wrong(slices.Contains([]string{"", "ip", "udp"}, t.BadSum), "traffic %d has a wrong checksum of %q, expected "+
			"ip or udp", i, t.BadSum)
		wrong(t.Targets >= 1 && t.Targets <= t.Flows, "traffic %d has %d destinations, expected 1 to its %d flows", i,
			t.Targets, t.Flows)
		wrong(t.From == wire || t.Targets == 1 && !t.Whole, "traffic %d is from a guest: whole and targets are the wire's",
			i)
		wrong(t.Burst == 0 || t.From == wire, "traffic %d is from a guest, which sends each millisecond: no bursts", i)
		cpus("a sender", []int{t.CPU})
	}
	d := s.Expect.Delivers
	most := float64(max(1, len(s.Path.Ends))) // a bridge floods copies
	wrong(d.Below >= 0 && d.Below <= most && d.Above >= 0 && d.Above <= 1, "expect.delivers is a share, 0 to 1; "+
		"below may be up to the number of ends")
	wrong(!s.Expect.Healthy() || s.Expect.Object+s.Expect.Stage+s.Expect.Reason == "", "expect: where nothing may be "+
		"named there is no object or stage")
	return errors.Join(errs...)
}

func (s *Scenario) checkStep(i int, step Step) error {
	set := 0
	for _, is := range []bool{step.Run != nil, step.Write != nil, step.Hog != nil, step.Quota != nil,
		step.Capture != nil, step.Filter != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("step %d of plant is %d things, expected one", i, set)
	case step.Run != nil:
		in := step.Run.In
		if len(step.Run.Argv) == 0 {
			return fmt.Errorf("step %d runs nothing", i)
		}
		if in != "" && in != host && in != wire && s.Path.end(in) == nil {
			return fmt.Errorf("step %d runs in %q, which is no place of this path", i, in)
		}
		if step.Run.Lines.Count < 0 || step.Run.Lines.Count > 100_000 {
			return fmt.Errorf("step %d has %d lines, expected at most 100000", i, step.Run.Lines.Count)
		}
	case step.Write != nil:
		file := step.Write.File
		if strings.Contains(file, "..") || !strings.HasPrefix(file, "/proc/sys/") &&
			!strings.HasPrefix(file, "/sys/class/net/") {
			return fmt.Errorf("step %d writes %s, expected a file below /proc/sys or /sys/class/net", i, file)
		}
		if wholeKernel(file) && !s.Needs.OwnKernel {
			return fmt.Errorf("step %d writes %s, which is one value for the whole kernel: needs.own_kernel is not set",
				i, file)
		}
	case step.Filter != nil:
		f := step.Filter
		if !slices.Contains([]string{"xdp", "xdp-generic", "ingress", "egress"}, f.At) {
			return fmt.Errorf("step %d filters at %q, expected xdp, xdp-generic, ingress or egress", i, f.At)
		}
		if f.In != "" && f.In != host && s.Path.end(f.In) == nil || f.Device == "" {
			return fmt.Errorf("step %d filters at device %q in %q, which is no place of this path", i, f.Device, f.In)
		}
		if f.Drops < 0 || f.Drops > 1 {
			return fmt.Errorf("step %d drops a share of %g, expected 0 to 1", i, f.Drops)
		}
		if f.Turns < 0 || f.Turns > 200_000 {
			return fmt.Errorf("step %d takes %d turns, expected at most 200000", i, f.Turns)
		}
	case step.Quota != nil:
		e := s.Path.end(step.Quota.Of)
		if e == nil || e.Kind != "guest" && e.Kind != "socket" {
			return fmt.Errorf("step %d limits %q, expected an end that is a guest or a socket", i, step.Quota.Of)
		}
		if step.Quota.CPUs <= 0 || step.Quota.CPUs > 1024 {
			return fmt.Errorf("step %d allows %g CPUs", i, step.Quota.CPUs)
		}
	}
	return nil
}

// wholeKernel reports whether a file below /proc/sys is not one of the network namespace. Under net all is, but for
// most of net/core (net/core/sysctl_net_core.c, net_core_table), the size of conntrack's table
// (net/netfilter/nf_conntrack_standalone.c: nf_conntrack_max and nf_conntrack_buckets are read-only but in the first
// namespace) and the thresholds of neighbours' tables (net/core/neighbour.c, neigh_sysctl_register).
func wholeKernel(file string) bool {
	rest, sysctl := strings.CutPrefix(file, "/proc/sys/")
	if !sysctl {
		return false
	}
	own := []string{"net/core/somaxconn", "net/core/optmem_max", "net/core/txrehash"} // netns_core_table
	if strings.HasPrefix(rest, "net/core/") {
		return !slices.Contains(own, rest)
	}
	return !strings.HasPrefix(rest, "net/") || rest == "net/netfilter/nf_conntrack_max" ||
		rest == "net/netfilter/nf_conntrack_buckets" || strings.HasPrefix(rest, "net/ipv4/neigh/default/gc_thresh")
}
