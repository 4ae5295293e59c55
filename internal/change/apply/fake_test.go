package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestMain(m *testing.M) {
	readBackPauses = []time.Duration{time.Millisecond, 2 * time.Millisecond}
	if mode := os.Getenv("MPPS_VICTIM"); mode != "" {
		n, err := strconv.Atoi(os.Getenv("MPPS_VICTIM_DIES"))
		if err != nil {
			panic(err)
		}
		os.Exit(victim(mode, os.Getenv("MPPS_VICTIM_ROOT"), n))
	}
	os.Exit(m.Run())
}

// fake is a machine in memory whose writes can be made to go wrong.
type fake struct {
	mu     sync.Mutex // hanging writes outlive the call that began them
	values map[setting.Address]setting.Reading
	writes []string // in their order

	refuse   map[setting.Address]error             // every write of it
	refuseTo map[setting.Address]map[string]error  // writes of one value
	becomes  map[setting.Address]map[string]string // what a write of a value really sets
	hang     map[setting.Address]bool              // writes never return
	moves    map[setting.Address]func(f *fake)     // what else a write of it changes
	after    func(a setting.Address)               // after every write
	released chan struct{}                         // ends hanging writes
}

func newFake(t *testing.T, n int) *fake {
	f := &fake{
		values: map[setting.Address]setting.Reading{}, refuse: map[setting.Address]error{},
		refuseTo: map[setting.Address]map[string]error{}, becomes: map[setting.Address]map[string]string{},
		hang: map[setting.Address]bool{}, moves: map[setting.Address]func(*fake){}, released: make(chan struct{}),
	}
	for i := range n {
		f.values[address(i)] = setting.Value("old")
	}
	t.Cleanup(func() { close(f.released) })
	return f
}

func address(i int) setting.Address { return setting.Of(setting.Sysctl, fmt.Sprintf("net.v%02d", i)) }

func (f *fake) Read(_ context.Context, a setting.Address) setting.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.values[a]; ok {
		return r
	}
	return setting.Missing("no such value")
}

func (f *fake) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hang[a] {
		f.mu.Unlock()
		<-f.released
		f.mu.Lock()
		return errors.New("released")
	}
	if err := f.refuse[a]; err != nil {
		return err
	}
	if err := f.refuseTo[a][to.Value]; err != nil {
		return err
	}
	f.writes = append(f.writes, a.Path+"="+to.String())
	if real, ok := f.becomes[a][to.Value]; ok {
		to = setting.Value(real)
	}
	f.values[a] = to
	if move := f.moves[a]; move != nil {
		move(f)
	}
	if f.after != nil {
		f.after(a)
	}
	return nil
}

func (f *fake) mechanisms() setting.Mechanisms {
	all := setting.Mechanisms{}
	for kind := range setting.Kinds {
		all[kind] = f
	}
	return all
}

// snapshot is the values now, to be compared with later.
func (f *fake) snapshot() map[setting.Address]setting.Reading { return maps.Clone(f.values) }

func (f *fake) same(before map[setting.Address]setting.Reading) bool {
	return maps.EqualFunc(f.values, before, setting.Reading.Same)
}

func engine(t *testing.T, f *fake) *Engine {
	t.Helper()
	return on(t, t.TempDir(), f.mechanisms())
}

func on(t *testing.T, root string, m setting.Mechanisms) *Engine {
	t.Helper()
	j := must.Get(journal.Open(root))(t)
	t.Cleanup(func() { j.Close() })
	return &Engine{Mechanisms: m, Journal: j, Host: "box", BootID: "boot-1", Version: "test", Deadline: 5 * time.Second}
}

// changes is a plan that makes "new" of the first n values.
func changes(n int) *plan.Plan {
	p := &plan.Plan{Digest: "d1", Goal: goal.Unlimited()}
	for i := range n {
		p.Changes = append(p.Changes, plan.Change{
			ID: fmt.Sprintf("test.v%02d", i), Address: address(i), From: setting.Value("old"), To: setting.Value("new"),
			Want: setting.Exact("new"), Risk: "none", Lasts: setting.UntilReboot,
		})
	}
	return p
}

func state(t *testing.T, e *Engine) Summary {
	t.Helper()
	s := must.Get(e.Status(t.Context()))(t)
	return s.State
}
