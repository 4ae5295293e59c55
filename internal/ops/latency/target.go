package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"mpps/internal/machine"
	"mpps/internal/machine/place"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// target is what is measured: where the tool runs, on which CPUs there, and the physical CPUs that are watched.
type target struct {
	machine  *machine.Machine
	facts    *facts.Host
	place    *place.Place
	guest    *wakeup.Guest  // nil: this host
	cpus     setting.CPUSet // where the tool runs
	idle     setting.CPUSet // the other CPUs of the place, for a load
	physical setting.CPUSet // CPUs of this host below cpus
	pid      int            // of QEMU
	vcpus    []int          // thread IDs
	warnings []measure.Warning
	env      *ops.Env
}

// findTarget resolves the guest and the CPUs to measure.
func findTarget(ctx context.Context, env *ops.Env, o *Options) (*target, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	if !m.Live() {
		return nil, errors.Join(outcome.Failed(errors.New("--root: only a running machine can be measured"),
			"leave --root out"), m.Close())
	}
	m.Inside.Select(cmp.Or(o.Guest, ops.NoGuest))
	t := &target{env: env, machine: m, facts: m.Inventory(ctx)}
	switch err = ops.Complete(ctx); {
	case err != nil:
	case o.Guest == "":
		err = t.onHost(o)
	default:
		err = t.inGuest(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return t, nil
}

// chooseCPUs returns the CPUs asked for, or at most 64 isolated ones, or the last CPU.
func chooseCPUs(asked, isolated, online setting.CPUSet, where string) (setting.CPUSet, error) {
	if len(asked) == 0 {
		if both := isolated.And(online); len(both) > 0 {
			return both[:min(len(both), 64)], nil
		}
		return setting.CPUs(online[len(online)-1]), nil
	}
	if strange := asked.Minus(online); len(strange) > 0 {
		return nil, outcome.Failed(fmt.Errorf("no CPU %s in %s", strange, where), "CPUs there: "+online.String())
	}
	return asked, nil
}

func (t *target) onHost(o *Options) error {
	online := t.facts.Topology.Online
	if len(online) == 0 {
		return outcome.Failed(errors.New("there is no machine to measure: not one CPU was found"), "")
	}
	var err error
	if t.cpus, err = chooseCPUs(o.CPUs, t.facts.Topology.Isolated, online, "this host"); err != nil {
		return err
	}
	t.physical, t.idle = t.cpus, online.Minus(t.cpus)
	if t.place, err = place.Here(t.machine.Tree); err != nil {
		return outcome.Failed(err, "")
	}
	if os.Geteuid() != 0 {
		return outcome.Failed(errors.New("a thread of realtime priority needs root"), "run it as root")
	}
	return nil
}

func (t *target) inGuest(ctx context.Context, o *Options) error {
	if err := ops.CheckGuest(t.facts, o.Guest); err != nil {
		return err
	}
	g := &t.facts.Guests[slices.IndexFunc(t.facts.Guests, func(g facts.Guest) bool { return g.Name == o.Guest })]
	if g.State != "running" {
		verb := "start"
		if g.State == "paused" {
			verb = "resume"
		}
		return outcome.Failed(fmt.Errorf("guest %s does not run: it is %s", g.Name, g.State),
			"'virsh "+verb+" "+g.Name+"'")
	}
	var err error
	if t.place, err = place.InGuest(ctx, t.machine.Tree, g.Name); err != nil {
		return outcome.Failed(fmt.Errorf("guest %s cannot be measured: %w", g.Name, err),
			"with mpps in the guest: 'mpps latency' there")
	}
	t.guest = &wakeup.Guest{Name: g.Name}
	online := setting.CPUs()
	for cpu := range g.VCPUs {
		online = append(online, cpu)
	}
	var isolated setting.CPUSet
	if in := g.Inside; in != nil {
		t.guest.Kernel = in.Release
		if in.Host != nil {
			t.guest.Realtime, isolated = in.Host.Kernel.Realtime, in.Host.Topology.Isolated
			if len(in.Host.Topology.Online) > 0 {
				online = in.Host.Topology.Online
			}
		}
	}
	if t.cpus, err = chooseCPUs(o.CPUs, isolated, online, "guest "+g.Name); err != nil {
		return err
	}
	t.idle, t.pid = online.Minus(t.cpus), g.PID
	for _, cpu := range t.cpus {
		at := slices.IndexFunc(g.Threads, func(th facts.Thread) bool { return th.Role == "vcpu" && th.Index == cpu })
		if at < 0 {
			t.warn("no-thread", fmt.Sprintf("the thread of vCPU %d was not found: what disturbs it is not counted",
				cpu), "")
			continue
		}
		th := g.Threads[at]
		where := th.Affinity
		if len(where) != 1 {
			t.warn("not-pinned", fmt.Sprintf("vCPU %d may run on %s: counters are those of CPU %d, where it was at "+
				"the beginning", cpu, th.Affinity.Words(), th.CPU), "pin it: 'mpps explain domain.vcpupin'")
			where = setting.CPUs(th.CPU)
		}
		t.guest.VCPUs = append(t.guest.VCPUs, wakeup.MeasuredV{VCPU: cpu, Thread: th.TID, CPUs: th.Affinity})
		t.vcpus = append(t.vcpus, th.TID)
		t.physical = t.physical.Or(where)
	}
	return nil
}

func (t *target) warn(code, text, hint string) {
	t.warnings = append(t.warnings, measure.Warning{Code: code, Text: text, Hint: hint})
}

// where names the place where the tool runs.
func (t *target) where() string {
	if t.guest != nil {
		return "guest " + t.guest.Name
	}
	return "this host"
}
