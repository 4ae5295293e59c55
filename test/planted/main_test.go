package planted

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// wanderVariable has a process take its main thread away from whoever is not bound to it.
const wanderVariable = "MPPS_PLANTED_WANDER"

// run runs the tests; those of the emulated host end it too.
var run = (*testing.M).Run

func TestMain(m *testing.M) {
	if os.Getenv(wanderVariable) != "" {
		wander()
	}
	ActIfAsked()
	os.Exit(run(m))
}

// wander waits until another goroutine has the main thread, or a second, where none gets it.
func wander() {
	for end := time.Now().Add(time.Second); unix.Gettid() == os.Getpid() && time.Now().Before(end); {
		for range 8 {
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() == os.Getpid() {
					select {}
				}
				time.Sleep(time.Millisecond)
				runtime.UnlockOSThread()
			}()
		}
		time.Sleep(time.Millisecond)
	}
}

// TestNameOfProcess: an actor's process has its name, also where goroutines wander between threads before it is given
// one.
func TestNameOfProcess(t *testing.T) {
	t.Setenv(wanderVariable, "1")
	a := must.Get(startActor(t.Context(), "hog", part{Comm: "a name", Hog: &hogPart{}}))(t)
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(a.process.Process.Pid) + "/comm")
	must.Hold(t, err == nil && string(comm) == "a name\n",
		"the process is called %q, %v; expected \"a name\"", comm, err)
	must.Try(t, a.stop())
}
