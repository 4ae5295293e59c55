package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// store is a host in memory: a card with so many functions and so many guests, and the values that were written to it.
// Everybody who looks at it sees what stands there at that moment.
type store struct {
	mu                sync.Mutex
	functions, guests int
	values            map[setting.Address]setting.Reading
	refuses           map[string]error // guests whose definition libvirt does not take
}

func (s *store) Read(_ context.Context, a setting.Address) setting.Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, known := s.values[a]; known {
		return r
	}
	if a.Kind == setting.VFAttr {
		return setting.Value(facts.VFDefaults("igb")[a.Path[strings.LastIndexByte(a.Path, '/')+1:]])
	}
	return setting.Missing("not there")
}

func (s *store) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuses[a.Object()]; a.Kind == setting.Domain && to.State == setting.Known && err != nil {
		return err
	}
	s.values[a] = to
	return nil
}

func functionPCI(n int) string { return fmt.Sprintf("0000:01:10.%d", n) }

// look is what there is to be seen.
func (s *store) look() *facts.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &facts.Host{Name: "box", Readings: facts.Readings{}, NICs: []facts.NIC{
		{Name: "eth0", Driver: "igb", Up: true, Carrier: "up", Speed: 1000, Node: -1,
			SRIOV: &facts.SRIOV{Total: 7, Enabled: s.functions}},
	}}
	for i := range s.functions {
		h.VFs = append(h.VFs, facts.VF{PF: "eth0", Index: i, PCI: functionPCI(i), Group: 20 + i, MAC: facts.NoMAC,
			SpoofCheck: true})
	}
	for i := range s.guests {
		g := facts.Guest{Name: "vm" + strconv.Itoa(i), UUID: "uuid" + strconv.Itoa(i), Managed: true, State: "shut off",
			Definition: "<domain/>"}
		for a, r := range s.values {
			if a.Kind == setting.Domain && a.Object() == g.Name && r.State == setting.Known {
				_, pci, _ := strings.Cut(r.Value, "pci=")
				pci, _, _ = strings.Cut(pci, " ")
				g.Hostdevs = append(g.Hostdevs, pci)
				g.Interfaces = append(g.Interfaces, facts.Interface{MAC: strings.TrimPrefix(a.Rest(), "interface/"),
					Type: "hostdev", Source: pci})
			}
		}
		h.Guests = append(h.Guests, g)
	}
	for a, r := range s.values {
		if a.Kind == setting.File && r.State == setting.Known {
			given, err := facts.ParseReservations(a, r.Value)
			if err != nil {
				panic(err)
			}
			h.Reservations = append(h.Reservations, given...)
		}
	}
	return h
}

// assign is what 'mpps sriov assign GUEST' does, with a journal opened for itself as each process has it.
func (s *store) assign(t *testing.T, root, guest string) error {
	return s.assignWith(t, root, guest, nil)
}

func (s *store) engine(j *journal.Dir) *apply.Engine {
	mechanisms := setting.Mechanisms{setting.File: s, setting.Domain: s, setting.VFAttr: s}
	return &apply.Engine{Mechanisms: mechanisms, Journal: j, Host: "box", BootID: "boot", Version: "test"}
}

// assignWith tells of every record of the journal.
func (s *store) assignWith(t *testing.T, root, guest string, appended func(tx string, r journal.Record)) error {
	return retryConflicts(t.Context(), time.Minute, func(string, int) {}, func() error {
		j, err := journal.Open(root)
		if err != nil {
			return err
		}
		defer j.Close()
		j.Appended = appended
		ledger, err := j.Ledger()
		if err != nil {
			return err
		}
		newest := ledger.Newest()
		h := s.look()
		gift, err := sriov.Choose(h, sriov.Request{Guest: guest, Form: facts.ByInterface})
		if err != nil {
			return err
		}
		for _, a := range gift.Addresses() {
			h.Readings[a] = s.Read(t.Context(), a)
		}
		changes, err := gift.Changes(h, func(setting.Address) bool { return false })
		if err != nil {
			return err
		}
		_, err = s.engine(j).Run(t.Context(), plan.OfChanges(h, goal.Goal{}, changes), apply.Options{Newest: &newest})
		return err
	})
}

// TestAssignAtOnce has more guests want a function at once than there are functions, some of whose definitions libvirt
// refuses. Each function is some guest's, no function is two guests', who gets none is told that there is none, and of
// a refused one nothing is left.
func TestAssignAtOnce(t *testing.T) {
	t.Parallel()
	const guests, functions = 9, 5
	s := &store{functions: functions, guests: guests, values: map[setting.Address]setting.Reading{},
		refuses: map[string]error{
			"vm2": errors.New("libvirt: no"), "vm7": errors.New("libvirt: no"),
		}}
	root := t.TempDir()
	problems := make([]error, guests)
	var all sync.WaitGroup
	for i := range guests {
		all.Go(func() { problems[i] = s.assign(t, root, "vm"+strconv.Itoa(i)) })
	}
	all.Wait()
	for i, err := range problems { // the function that a refused guest gave back was taken when others asked
		if no := new(sriov.Refused); errors.As(err, &no) {
			problems[i] = s.assign(t, root, "vm"+strconv.Itoa(i))
		}
	}
	h := s.look()
	given := map[string]string{}
	for _, g := range h.Guests {
		must.Hold(t, len(g.Hostdevs) <= 1, "%s has %v", g.Name, g.Hostdevs)
		for _, pci := range g.Hostdevs {
			must.Hold(t, given[pci] == "", "%s is given to %s and to %s", pci, given[pci], g.Name)
			given[pci] = g.Name
		}
	}
	must.Hold(t, len(given) == functions && len(h.Reservations) == functions,
		"given: %v, reserved: %+v", given, h.Reservations)
	for _, r := range h.Reservations {
		must.Hold(t, given[r.PCI] == r.Guest, "%s is reserved for %s and %s has it", r.PCI, r.Guest, given[r.PCI])
	}
	none := 0
	for i, err := range problems {
		var failure *apply.Failure
		var no *sriov.Refused
		switch name := "vm" + strconv.Itoa(i); {
		case errors.As(err, &no) && strings.Contains(no.Why, "all 5 are taken"):
			none++ // also where libvirt would have refused it
		case s.refuses[name] != nil:
			must.Hold(t, errors.As(err, &failure) && failure.State == journal.FailedUndone, "%s: %v", name, err)
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Hold(t, none >= guests-functions-len(s.refuses), "%d were told that there is none: %v", none, problems)
	j := must.Get(journal.Open(root))(t)
	defer j.Close()
	ledger, err := j.Ledger()
	if err != nil || len(ledger.Unsettled()) > 0 {
		t.Errorf("unsettled: %v, %v", ledger.Unsettled(), err)
	}
}

// TestAssignGivesUp: somebody who is at work for longer than the time to wait is told.
func TestAssignGivesUp(t *testing.T) {
	t.Parallel()
	s := &store{functions: 1, guests: 1, values: map[setting.Address]setting.Reading{}}
	root := t.TempDir()
	j := must.Get(journal.Open(root))(t)
	defer j.Close()
	lock := must.Get(j.Lock("apply"))(t)
	tries := 0
	err := retryConflicts(t.Context(), 300*time.Millisecond, func(who string, try int) { tries = try }, func() error {
		_, err := j.Lock("apply")
		return err
	})
	var locked *journal.Locked
	must.Hold(t, errors.As(err, &locked) && tries >= 2, "after %d tries: %v", tries, err)
	must.Do(t, lock.Release())
	must.Try(t, s.assign(t, root, "vm0"))
}

// TestAssignKilled ends an assign at every record of its journal, also between a write and the record of it, as a kill
// does: the next one is told to put things in order first, a rollback leaves nothing of it, and then the function is
// given like any other.
func TestAssignKilled(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		for _, cut := range []bool{false, true} {
			s := &store{functions: 1, guests: 2, values: map[setting.Address]setting.Reading{}}
			root := t.TempDir()
			dead := make(chan string)
			go func() {
				at, name := 0, ""
				defer func() { dead <- name }()
				_ = s.assignWith(t, root, "vm0", func(tx string, _ journal.Record) {
					if at++; at == n {
						name = tx
						runtime.Goexit()
					}
				})
			}()
			tx := <-dead
			if tx == "" {
				must.Need(t, n >= 6, "an assign has %d records", n-1)
				return
			}
			if cut {
				cutRecord(t, root, tx)
			}
			j := must.Get(journal.Open(root))(t)
			defer j.Close()
			ledger := must.Get(j.Ledger())(t)
			e := s.engine(j)
			if len(ledger.Unsettled()) > 0 {
				var unsettled *apply.Unsettled
				if err := s.assign(t, root, "vm1"); !errors.As(err, &unsettled) {
					var no *sriov.Refused
					must.Hold(t, errors.As(err, &no), "record %d, cut %v: another assign: %v", n, cut, err)
				}
			}
			must.Pass(e.Rollback(t.Context(), apply.RollbackOptions{}))(t, "record %d, cut %v", n, cut)
			for a, r := range s.values {
				must.Hold(t, r.State == setting.Absent, "record %d, cut %v: %s is %s", n, cut, a, r)
			}
			must.Succeed(t, s.assign(t, root, "vm1"), "record %d, cut %v: afterwards", n, cut)
		}
	}
}

// cutRecord takes the last line from a journal: its process died before it had written it.
func cutRecord(t *testing.T, root, tx string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, journal.Path, "*"+tx+"*"))
	must.Need(t, err == nil && len(names) == 1, "journals of %s: %v, %v", tx, names, err)
	text := must.Get(os.ReadFile(names[0]))(t)
	text = bytes.TrimRight(text, "\n")
	must.Do(t, os.WriteFile(names[0], text[:bytes.LastIndexByte(text, '\n')+1], 0o600))
}
