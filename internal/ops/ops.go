// Package ops is the layer between the command line and the machine. It opens the host that a verb works on; its
// subpackages implement the verbs. They parse no flags and print nothing.
package ops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mpps/internal/advise/site"
	"mpps/internal/machine"
	"mpps/internal/outcome"
)

// Env is what every verb works with.
type Env struct {
	Root    string // directory that holds the machine's files; "/" is the live machine
	Version string // of mpps
	Out     Listener
	Libvirt site.Libvirt // as the command line has it; empty fields are the site file's
	Trial   func()       // called when a trial of a measurement begins; may be nil
}

// Listener receives reports on long work in progress.
type Listener interface {
	Progress(format string, args ...any) // replaces the last progress line
	Step(format string, args ...any)     // something is finished, or worth mentioning
	Failure(err error, hint string)      // something went wrong and the work continues
}

// Deaf is a Listener that ignores everything.
type Deaf struct{}

func (Deaf) Progress(string, ...any) {}

func (Deaf) Step(string, ...any) {}

func (Deaf) Failure(error, string) {}

// RootHint is the hint for a root that holds no machine.
const RootHint = "--root takes a directory that holds proc/ and sys/ of a machine"

// Open opens the machine below the root.
func (e *Env) Open() (*machine.Machine, error) {
	m, err := machine.Open(e.Root)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("root directory of the machine %w", outcome.FolderError(err)), RootHint)
	}
	way := e.Libvirt
	if local, err := site.Load(e.Root); err == nil && local != nil { // who reads its entries says what is wrong with it
		way = way.Or(local.Libvirt)
	}
	m.Libvirt.Virsh, m.Libvirt.URI = way.Virsh, way.Connect
	return m, nil
}

// With opens the machine below the root, calls do and closes it.
func (e *Env) With(do func(*machine.Machine) error) error {
	m, err := e.Open()
	if err != nil {
		return err
	}
	return errors.Join(do(m), m.Close())
}

// Live reports whether the root is this running machine, which can be measured and watched.
func (e *Env) Live() bool { return filepath.Clean(e.Root) == "/" }

// NeedsRoot returns an error if what needs root on the live machine and mpps does not run as root.
func (e *Env) NeedsRoot(what string) error {
	if e.Live() && os.Geteuid() != 0 {
		return outcome.Failed(fmt.Errorf("%s changes the machine: expected to run as root", what), "repeat with sudo")
	}
	return nil
}

// Count returns a number with its noun: "1 value", "2 values".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Elapsed returns how much of a time is over, or since when it runs where beginning and end take longer.
func Elapsed(since, whole time.Duration) string {
	if since > whole+time.Second {
		return fmt.Sprintf("%v, begun %v ago", whole, since.Truncate(time.Second))
	}
	return fmt.Sprintf("%v of %v", since.Truncate(time.Second), whole)
}

// Countdown shows the progress of something that takes a known time, until done is called. Nothing else may be printed
// meanwhile.
func (e *Env) Countdown(what string, whole time.Duration) (done func()) {
	e.Out.Progress("%s for %v", what, whole)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for began := time.Now(); ; {
			select {
			case <-ticks.C:
				e.Out.Progress("%s: %s", what, Elapsed(time.Since(began), whole))
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
