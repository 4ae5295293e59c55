package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reserve does every check of Start that needs no root tree, and takes the name: from then on other processes that want
// it get ErrRunning, while this one may start and stop labs of that name. The returned function frees it; so does the
// end of this process.
func Reserve(ctx context.Context, c Config) (func() error, error) {
	c.Held = true
	unlock, err := reserve(ctx, &c)
	if err != nil {
		return nil, err
	}
	unlock()
	return func() error {
		unlock, err := lockName(context.WithoutCancel(ctx), c.Name, func() {})
		if err != nil {
			return err
		}
		defer unlock()
		return release(c.Name, false)
	}, nil
}

// release ends what this process has of the lab of a name, and frees the name, unless keepReserved and Reserve holds
// it.
func release(name string, keepReserved bool) error {
	s, err := readState(name)
	if err != nil || !s.ours() {
		return nil
	}
	s.Config.Held = s.Config.Held && keepReserved
	return s.clean()
}

// reserve is Reserve, but it keeps the lock of the name.
func reserve(ctx context.Context, c *Config) (unlock func(), err error) {
	c.fill()
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := checkNeeds(); err != nil {
		return nil, err
	}
	if s, err := readState(c.Name); err == nil && s.ours() {
		c.Held = c.Held || s.Config.Held
	}
	unlock, err = claim(ctx, *c)
	if err != nil {
		return nil, err
	}
	if err := checkMemory("/", c.MemoryMiB); err != nil {
		err = errors.Join(err, release(c.Name, false))
		unlock()
		return nil, err
	}
	return unlock, nil
}

// claimLimit is how long claim waits for a process that ends or examines a lab of that name. It does not wait for one
// that starts a lab: that one is in the state file.
const claimLimit = 5 * time.Second

// claim takes the lock of a name and writes this process into its state file; ErrRunning if another process has it.
func claim(ctx context.Context, c Config) (unlock func(), err error) {
	taken := fmt.Errorf("lab %s: %w", c.Name, ErrRunning)
	me, _ := readProc("owner", os.Getpid())
	available := func() (*state, bool) {
		s, err := readState(c.Name)
		return s, err != nil || s.orphaned() || s.ours() && s.Tree == ""
	}
	if _, ok := available(); !ok {
		return nil, taken
	}
	limited, cancel := context.WithTimeoutCause(ctx, claimLimit, taken)
	defer cancel()
	unlock, err = lockName(limited, c.Name, func() {})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	s, ok := available()
	if !ok {
		return nil, taken
	}
	if s != nil && s.orphaned() {
		c.Log("cleaned a lab whose owner is gone: " + c.Name)
		if err := s.clean(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(runDir(c.Name), 0o755); err != nil {
		return nil, err
	}
	return unlock, (&state{Boot: bootID(), Owner: me, Config: c, Accel: c.Accel}).write()
}
