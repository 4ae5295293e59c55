package threads

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// holds makes a process of this test have nothing but threads, and keeps them off a CPU.
const (
	holds    = "MPPS_TEST_THREADS"
	holdsOff = "MPPS_TEST_THREADS_OFF" // a CPU
)

// TestHoldThreads is the process that BenchmarkObserve starts: threads that sleep until its input ends. One in ten
// wakes up every second.
func TestHoldThreads(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(holds))
	if err != nil {
		t.Skip("not started by BenchmarkObserve")
	}
	debug.SetMaxThreads(n + 100)
	if cpu, err := strconv.Atoi(os.Getenv(holdsOff)); err == nil {
		if rest, err := KeepOff(setting.CPUs(cpu)); err != nil || len(rest) == 0 {
			t.Fatalf("off CPU %d: %v, %v", cpu, rest, err)
		}
	}
	ready := make(chan bool)
	for i := range n {
		go func() {
			runtime.LockOSThread()
			ready <- true
			for every := unix.NsecToTimespec(int64(time.Hour)); ; {
				if i%10 == 0 {
					every = unix.NsecToTimespec(int64(time.Second))
				}
				_ = unix.Nanosleep(&every, nil) // a signal wakes it early
			}
		}()
	}
	for range n {
		<-ready
	}
	fmt.Println("threads")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the end of what started this
}

// BenchmarkObserve watches a CPU of this machine for 5 s next to 12,000 threads, of which 1,200 run every second. It
// may take at most 2 % of a CPU. If the threads are kept off the CPU, as on a well-tuned host, all of them must be read
// within that.
func BenchmarkObserve(b *testing.B) {
	last := runtime.NumCPU() - 1
	if last < 1 {
		b.Skip("there is one CPU")
	}
	for name, kept := range map[string]bool{"kept off": true, "anywhere": false} {
		b.Run(name, func(b *testing.B) { observe(b, last, kept) })
	}
}

func observe(b *testing.B, cpu int, kept bool) {
	const processes, threads = 12, 1000
	for range processes {
		c := exec.Command(os.Args[0], "-test.run=^TestHoldThreads$", "-test.v")
		c.Env = append(os.Environ(), holds+"="+strconv.Itoa(threads))
		if kept {
			c.Env = append(c.Env, holdsOff+"="+strconv.Itoa(cpu))
		}
		in, errIn := c.StdinPipe()
		out, errOut := c.StdoutPipe()
		if errIn != nil || errOut != nil {
			b.Fatal(errIn, errOut)
		}
		if err := c.Start(); err != nil {
			b.Skip(err)
		}
		b.Cleanup(func() {
			_ = in.Close()
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "threads" {
				break
			}
		}
	}
	m := must.Get(tree.Open("/"))(b)
	defer m.Close()
	var online setting.CPUSet
	for n := range runtime.NumCPU() {
		online = append(online, n)
	}
	h := &facts.Host{Topology: facts.Topology{Online: online}}
	for b.Loop() {
		before := ProcessTime()
		o := Observe(b.Context(), m, h, setting.CPUs(cpu), 5*time.Second, Budget)
		percent := 100 * (ProcessTime() - before).Seconds() / o.Seconds
		b.ReportMetric(percent, "%CPU")
		b.ReportMetric(float64(o.Looked), "threads")
		b.ReportMetric(float64(len(o.Threads)), "named")
		if percent > 100*Budget {
			b.Errorf("watching took %.2f %% of a CPU", percent)
		}
		if kept && (o.Looked < processes*threads || len(o.Unseen) > 0) {
			b.Errorf("looked at %d threads; %v", o.Looked, o.Unseen)
		}
		for _, u := range o.Unseen {
			b.Logf("%s: %s", u.What, u.Why)
		}
	}
}
