//go:build netns

package trace

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// BenchmarkWatching measures what watching costs a path that one core carries at its highest rate: generator, veth,
// bridge, veth, counter. What it costs to load the program is distinguished: that is done once, before.
func BenchmarkWatching(b *testing.B) {
	s := newScene(b, 0)
	from := s.guest("g0")
	ctx, stop := context.WithCancel(context.Background())
	cpus := allowed(b)
	g, err := traffic.NewGenerator(ctx, traffic.Config{
		Out: from, Method: traffic.XDP, CPUs: cpus[len(cpus)-1:],
		Frame: traffic.Frame{DstMAC: remote, SrcPort: traffic.PortRange{First: 10000, Count: 64}},
	})
	s.must(err)
	done := make(chan error, 1)
	start := func() {
		go func() {
			_, err := g.Run(ctx)
			done <- err
		}()
		time.Sleep(500 * time.Millisecond)
	}
	defer func() {
		stop()
		<-done
		g.Close()
	}()
	n, err := openNamespace(s.host)
	s.must(err)
	var loading []float64
	for range 5 { // while nothing is sent
		spent := spentCPU(b)
		p, err := load(n, Config{})
		s.must(err)
		s.must(p.close())
		loading = append(loading, float64((spentCPU(b) - spent).Milliseconds()))
	}
	start()
	tell(b, "load-CPU-ms", loading)
	turns(ctx, b, s)
}

// BenchmarkWatchingContended measures what watching costs where two CPUs take turns at one lock all the time: that of a
// queue discipline between two queues of a tap and the NIC. Waits are counted too then, and come to more than packets.
func BenchmarkWatchingContended(b *testing.B) {
	cpus := allowed(b)
	if len(cpus) < 2 {
		b.Skip("one CPU waits for nobody: it needs two")
	}
	s := newScene(b, 0)
	tap := s.tap("tap0", 2)
	s.must(s.on.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: s.nic.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	ctx, stop := context.WithCancel(context.Background())
	var senders sync.WaitGroup
	for i := range 2 {
		senders.Go(func() {
			restore := pin(b)
			defer restore()
			pinTo(b, i)
			for f := frame(i, byte(i)); ctx.Err() == nil; {
				for range 100 {
					_, _ = unix.Write(tap[i], f) // dropped frames had the lock too
				}
			}
		})
	}
	defer senders.Wait()
	defer stop()
	time.Sleep(500 * time.Millisecond)
	turns(ctx, b, s)
}

// turns makes rounds (-benchtime 30x makes thirty), each with a turn of each way to watch and one of none, in an order
// of its own; told are the medians of the rounds' ratios with their intervals.
func turns(ctx context.Context, b *testing.B, s *scene) {
	const turn = 2 * time.Second
	// A turn is judged by packets per second, and by packets per second of CPU time of all that generates, carries and
	// watches: what else the machine does takes from the first and not from the second.
	take := func(c *Config) (rate, perCPU float64) {
		var before uint64
		var began time.Time
		var spent time.Duration
		begun := func() { before, began, spent = read(b, s.counters.all, 0), time.Now(), spentCPU(b) }
		begun()
		if c == nil {
			time.Sleep(turn)
		} else {
			c.Netns, c.For, c.begun = s.host, turn, begun
			o, err := Watch(ctx, *c)
			s.must(err)
			must.Need(b, len(o.Rows) != 0, "nothing was seen")
			b.Logf("every packet %v: counted for %.3f of %.2f s", c.EveryPacket, o.Watched, o.Seconds)
		}
		packets := float64(read(b, s.counters.all, 0) - before)
		return packets / time.Since(began).Seconds(), packets / (spentCPU(b) - spent).Seconds()
	}
	told := map[string][]float64{}
	for b.Loop() {
		var rate, perCPU [3]float64
		for _, way := range rand.Perm(3) {
			rate[way], perCPU[way] = take([]*Config{nil, {}, {EveryPacket: true}}[way])
		}
		b.Logf("Mpps %.3f, watched %.3f, every packet %.3f; per second of CPU time %.3f, %.3f, %.3f", rate[0]/1e6,
			rate[1]/1e6, rate[2]/1e6, perCPU[0]/1e6, perCPU[1]/1e6, perCPU[2]/1e6)
		told["Mpps"] = append(told["Mpps"], rate[0]/1e6)
		for way, name := range []string{1: "usual", 2: "every-packet"} {
			if name != "" {
				told[name] = append(told[name], rate[way]/rate[0])
				told[name+"/cpu"] = append(told[name+"/cpu"], perCPU[way]/perCPU[0])
			}
		}
	}
	for name, values := range told {
		tell(b, name, values)
	}
	b.ReportMetric(0, "ns/op")
}

func tell(b *testing.B, name string, values []float64) {
	e := measure.Median(values)
	b.ReportMetric(e.Value, name)
	b.ReportMetric(e.Lo, name+"-low")
	b.ReportMetric(e.Hi, name+"-high")
}

// spentCPU is the CPU time of this process so far, and of the kernel's threads that carry packets for it.
func spentCPU(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must.Do(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	sum := u.Utime.Nano() + u.Stime.Nano()
	for _, pid := range softirqs(b) {
		// Nanoseconds on a CPU come first (Documentation/scheduler/sched-stats.rst).
		text := must.Get(os.ReadFile("/proc/" + pid + "/schedstat"))(b)
		ran := must.Get(strconv.ParseInt(strings.Fields(string(text))[0], 10, 64))(b)
		sum += ran
	}
	return time.Duration(sum)
}

// softirqs are the processes named ksoftirqd/N.
var softirqs = func() func(b *testing.B) []string {
	var found []string
	return func(b *testing.B) []string {
		b.Helper()
		if found != nil {
			return found
		}
		files := must.Get(filepath.Glob("/proc/[0-9]*/comm"))(b)
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(text), "ksoftirqd/") {
				found = append(found, filepath.Base(filepath.Dir(file)))
			}
		}
		if found == nil {
			b.Skip("this process does not see the kernel's threads")
		}
		return found
	}
}()

// guest makes a veth as a port of the bridge whose other end, in its own namespace, sends frames by XDP.
func (s *scene) guest(name string) traffic.Endpoint {
	s.t.Helper()
	ns := s.host + name
	on := s.namespace(ns)
	h, err := netns.GetFromName(ns)
	s.must(err)
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	s.must(s.on.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(h))}))
	l := s.up(s.on, name)
	s.up(on, "eth0")
	bridge, err := s.on.LinkByName("br0")
	s.must(err)
	s.must(s.on.LinkSetMaster(l, bridge))
	s.forwards(name)
	s.inHost(func() error { return receivesXDP(name) })
	return traffic.Endpoint{Netns: ns, Iface: "eth0"}
}

// receivesXDP turns GRO on, without which a veth has no NAPI and drops what is redirected to its other end
// (drivers/net/veth.c, veth_xdp_xmit).
func receivesXDP(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return nicctl.Call(fd, name, []uint32{unix.ETHTOOL_SGRO, 1})
}
