//go:build netns

package lanes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure/trace"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// gain is a fault and its fix.
type gain struct {
	name   string
	vxlan  bool
	queues int // of each of the two guests
	plant  func(p Program, windows []setting.Lane) error
	mend   func(p Program, windows []setting.Lane) error
}

var gains = []gain{
	{"two guests on one queue", false, 1, without, Program.Write},
	{"single-queue tunnel", true, 4, without, Program.Write},
	{"all XPS on one queue", false, 1, func(Program, []setting.Lane) error { return xps(func(int) int { return 0 }) },
		func(Program, []setting.Lane) error { return xps(func(cpu int) int { return cpu % nicQueues }) }},
	{"one discipline for all queues", false, 1, func(p Program, windows []setting.Lane) error {
		return errors.Join(p.Write(windows), disciplines("root pfifo"))
	}, func(Program, []setting.Lane) error { return disciplines(eachQueue()...) }},
}

func without(p Program, _ []setting.Lane) error { return p.Remove() }

// xps makes each CPU send by a queue of the NIC.
func xps(queue func(cpu int) int) error {
	sets := make([][]int, nicQueues)
	for cpu := range runtime.NumCPU() {
		sets[queue(cpu)] = append(sets[queue(cpu)], cpu)
	}
	for q, set := range sets {
		mask := "0"
		if len(set) > 0 {
			mask = setting.CPUs(set...).Mask()
		}
		if err := os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte(mask),
			0); err != nil {
			return err
		}
	}
	return nil
}

func noXPS() error {
	for q := range nicQueues {
		if err := os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte("0"),
			0); err != nil {
			return err
		}
	}
	return nil
}

// onCPU keeps the calling goroutine on a CPU (the last if there are fewer) until the returned function is called.
func onCPU(t *testing.T, cpu int) func() {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	one.Set(min(cpu, runtime.NumCPU()-1))
	must.Do(t, errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &one)))
	return func() {
		must.Try(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	}
}

// disciplines sets the NIC's qdiscs.
func disciplines(all ...string) error {
	for _, one := range all {
		words := strings.Fields("qdisc replace dev nic0 " + one)
		if out, err := exec.Command("tc", words...).CombinedOutput(); err != nil {
			return fmt.Errorf("tc %q: %w: %s", words, err, out)
		}
	}
	return nil
}

// eachQueue is a qdisc with a lock for each queue of the NIC.
func eachQueue() []string {
	all := []string{"root handle 1: mq"}
	for q := range nicQueues {
		all = append(all, fmt.Sprintf("parent 1:%x pfifo", q+1))
	}
	return all
}

// TestGains: each fault of the benchmark can be planted and fixed repeatedly, and is what its name says.
func TestGains(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, false, 4, 4)
	had := map[[3]int]bool{}
	prog := program(t, false)
	must.Do(t, disciplines(eachQueue()...))
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
	for _, one := range gains {
		for range 2 {
			used := map[bool]map[int]bool{false: {}, true: {}}
			for _, mended := range []bool{false, true} {
				if err := map[bool]func(Program, []setting.Lane) error{false: one.plant, true: one.mend}[mended](prog,
					windows); err != nil {
					t.Fatalf("%s, mended %v: %v", one.name, mended, err)
				}
				restore := onCPU(t, 1)
				for key := range p.run(had, 50) {
					used[mended][key[2]] = true
				}
				restore()
			}
			switch {
			case one.name == "all XPS on one queue" && (len(used[false]) != 1 || !used[false][0] ||
				runtime.NumCPU() > 1 && used[true][0]):
				t.Errorf("%s: planted %v, mended %v", one.name, used[false], used[true])
			case one.name == "two guests on one queue" && (len(used[false]) != 4 || len(used[true]) != 8):
				t.Errorf("%s: planted %v, mended %v", one.name, used[false], used[true])
			}
		}
		must.Do(t, errors.Join(prog.Remove(), noXPS()))
	}
	nothingLeft(t)
}

// BenchmarkGain measures the packets per second of two guests that send as fast as they can, each from its own CPU,
// alternately with a fault and with its fix. The NIC has a qdisc with a lock for each queue (mq over pfifo), as a NIC
// has with fq_codel, and a lock for each ring.
func BenchmarkGain(b *testing.B) {
	for _, one := range gains {
		b.Run(one.name, func(b *testing.B) {
			const mark = "MPPS_BENCH_NAMESPACE"
			if os.Getenv(mark) == "" {
				cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkGain$/^"+
					strings.ReplaceAll(one.name, " ", "_")+"$", "-test.benchtime=1x")
				cmd.Env = append(os.Environ(), mark+"=1")
				cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
				out, err := cmd.CombinedOutput()
				b.Logf("%s", out)
				must.Do(b, err)
				return
			}
			for _, err := range []error{
				unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("sysfs", "/sys", "sysfs", 0, ""),
				unix.Mount("bpf", FileSystem, "bpf", 0, ""),
			} {
				must.Do(b, err)
			}
			measureGain(b, one)
		})
	}
}

func measureGain(b *testing.B, one gain) {
	p := newPath(b, one.vxlan, one.queues, one.queues)
	for _, fd := range p.far { // what counts is the counter of the far end
		unix.Close(fd)
	}
	_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0) // absent without br_netfilter
	must.Do(b, disciplines(eachQueue()...))
	prog := program(b, false)
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for i, g := range p.guests {
		senders.Go(func() {
			runtime.LockOSThread()
			var cpu unix.CPUSet
			cpu.Set(i % runtime.NumCPU())
			_ = unix.SchedSetaffinity(0, &cpu)
			frames := make([][]byte, len(g.queues))
			for q := range frames {
				frames[q] = g.frame(q)
				frames[q][22] = byte(q) // a flow of its own
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				for range 64 {
					for q, f := range g.queues {
						_, _ = unix.Write(int(f.Fd()), frames[q])
					}
				}
			}
		})
	}
	rate := func() float64 {
		time.Sleep(50 * time.Millisecond)
		began, before := time.Now(), arrivedAt(b)
		time.Sleep(300 * time.Millisecond)
		return float64(arrivedAt(b)-before) / time.Since(began).Seconds()
	}
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: one.queues},
		{Tap: "tap1", Base: one.queues, Count: one.queues}}
	var before, after, ratios []float64
	for range 12 {
		must.Do(b, one.plant(prog, windows))
		a := rate()
		must.Do(b, one.mend(prog, windows))
		s := rate()
		before, after, ratios = append(before, a), append(after, s), append(ratios, s/a)
	}
	waits := func() float64 {
		o, err := trace.Watch(b.Context(), trace.Config{For: time.Second, EveryPacket: true, Host: &facts.Host{}})
		must.Do(b, err)
		n := uint64(0)
		for _, c := range o.Contention {
			n += c.Waits
		}
		return float64(n) / o.Watched
	}
	must.Do(b, one.plant(prog, windows))
	b.ReportMetric(waits(), "waits/s-before")
	must.Do(b, one.mend(prog, windows))
	b.ReportMetric(waits(), "waits/s-after")
	must.Do(b, prog.Remove())
	close(stop)
	senders.Wait()
	for _, list := range [][]float64{before, after, ratios} {
		slices.Sort(list)
	}
	b.ReportMetric(float64(runtime.NumCPU()), "cores")
	b.ReportMetric(before[6], "pps-before")
	b.ReportMetric(after[6], "pps-after")
	b.ReportMetric(ratios[6], "ratio")
	b.ReportMetric(ratios[2], "ratio-low")
	b.ReportMetric(ratios[9], "ratio-high")
}

func arrivedAt(b *testing.B) uint64 {
	text := must.Get(os.ReadFile("/sys/class/net/far0/statistics/rx_packets"))(b)
	n := must.Get(strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64))(b)
	return n
}
