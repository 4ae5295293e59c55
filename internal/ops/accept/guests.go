package accept

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mpps/internal/measure/acceptance"
	"mpps/internal/measure/traffic/engine"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/making"
	"mpps/internal/outcome"
)

// guestPatience is how long guests may take to boot and answer: seconds, and on an emulated host minutes.
const guestPatience = 5 * time.Minute

// guestPoll is how often they are asked meanwhile.
const guestPoll = 500 * time.Millisecond

// inRoom runs a campaign that makes guests while no other one on this host does, and removes them after it.
func (x *Runner) inRoom(ctx context.Context, make bool, campaign func() error) (err error) {
	if !make {
		return campaign()
	}
	if x.room, err = making.Open(ctx, x.Env); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, x.room.Close(ctx))
		x.room = nil
	}()
	return campaign()
}

// lookAtMaking returns what this host has for guests that are to be made.
func (x *Runner) lookAtMaking(ctx context.Context, in acceptance.Inputs) (*acceptance.Making, error) {
	m, err := x.Env.Open()
	if err != nil {
		return nil, err
	}
	found := &acceptance.Making{Libvirt: making.Libvirt(m), Kernel: making.Kernel(), Init: making.Init(),
		KVM: making.Device("/dev/kvm"), Server: making.Server(engine.Name(in.Engine)), Modules: map[string]error{}}
	for _, g := range in.Made {
		_, driver, module := g.NIC()
		found.Modules[g.Mode] = making.Module(ctx, m, module)
		if driver == "vhost" {
			found.Vhost = making.Device("/dev/vhost-net")
		}
	}
	return found, m.Close()
}

// makeGuests makes the guests of an unfinished run, if it has any. The run records why that failed.
func (x *Runner) makeGuests(ctx context.Context, r *acceptance.Run) error {
	if len(r.Inputs.Made) == 0 || r.Next() == nil {
		return nil
	}
	err := x.makeAndWait(ctx, r.Inputs)
	if err == nil {
		return nil
	}
	_, hint := outcome.Of(err)
	r.State, r.Why, r.Hint = acceptance.Failed, "making guests failed: "+err.Error(), hint
	if ctx.Err() != nil {
		r.Why, r.Hint = "interrupted while guests were made", ""
	}
	return err
}

// makeAndWait makes guests and waits until all their agents answer.
func (x *Runner) makeAndWait(ctx context.Context, in acceptance.Inputs) error {
	secret, err := bench.Secret(in.SecretFile)
	if err != nil {
		return err
	}
	var guests []making.Guest
	var names []string
	for _, g := range in.Made {
		model, driver, module := g.NIC()
		guests = append(guests, making.Guest{Name: g.Name, Bridge: in.Via, Address: g.Address, Model: model,
			Driver: driver, Module: module, VCPUs: acceptance.MadeVCPUs, Memory: acceptance.MadeMemory})
		names = append(names, g.Name)
	}
	x.Env.Out.Step("making guests %s, each with %d vCPUs and %d MiB of memory", strings.Join(names, ", "),
		acceptance.MadeVCPUs, acceptance.MadeMemory>>20)
	if err := x.room.Make(ctx, guests, string(secret), engine.Name(in.Engine)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, guestPatience, fmt.Errorf("no answer within %v", guestPatience))
	defer cancel()
	for i, agent := range in.MadeAgents() {
		if err := x.answers(ctx, agent, in.SecretFile); err != nil {
			if words := x.room.LastWords(names[i]); words != "" {
				err = fmt.Errorf("%w; its console ends with: %s", err, words)
			}
			return outcome.Failed(fmt.Errorf("guest %s: %w", names[i], err), "is "+agent.At+" on the network of "+
				"--from, with this host's address there, and does nobody else have it?")
		}
	}
	return nil
}

// answers waits until an agent answers.
func (x *Runner) answers(ctx context.Context, a acceptance.Agent, secretFile string) error {
	for {
		err := x.reach(ctx, a, secretFile)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		case <-time.After(guestPoll):
		}
	}
}
