package placement

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// big is a random host of two sockets with 48 to 128 cores each, in one to four nodes a socket, with or without
// SMT, two NICs, and guests that need 60 to 95 % of its cores, with vhost threads that need the rest and more.
func big(seed uint64) Ask {
	rnd := rand.New(rand.NewPCG(seed, 1))
	nodes := []int{2, 2, 2, 4, 8}[rnd.IntN(5)]
	cores := []int{96, 128, 192, 256}[rnd.IntN(4)]
	ask := sized(nodes, cores/nodes, 1+rnd.IntN(2))
	for i := range ask.Nodes {
		ask.Nodes[i].Memory = uint64(cores/nodes) * (8 << 30)
		for j := range ask.Nodes {
			if i != j && i*2/nodes == j*2/nodes {
				ask.Nodes[i].Distances[j] = 12 // of the same socket
			} else if i != j {
				ask.Nodes[i].Distances[j] = 32
			}
		}
	}
	ask = ask.nic(0).nic(rnd.IntN(nodes))
	demand := cores * (60 + rnd.IntN(36)) / 100
	for i := 0; demand > 0; i++ {
		vcpus := min(demand, []int{1, 2, 2, 4, 4, 4, 8, 16}[rnd.IntN(8)])
		demand -= vcpus
		ask = ask.guest(fmt.Sprintf("vm%02d", i), vcpus, 1+rnd.IntN(min(4, vcpus)))
		g := &ask.Guests[i]
		g.Memory = uint64(vcpus*(1+rnd.IntN(4))) << 30
		g.NICs[0].NIC = fmt.Sprintf("eth%d", rnd.IntN(2))
		g.Rate = []float64{100e3, 100e3, 300e3, 1e6}[rnd.IntN(4)]
	}
	return ask
}

// packed pins naively: guest after guest gets the next CPUs by number, and the scheduler puts its vhost threads on the
// CPUs of its vCPUs, where they are woken.
func packed(ask Ask) *Result {
	r := &Result{}
	next := 0
	for _, g := range ask.Guests {
		p := Placed{Name: g.Name}
		for v := range g.VCPUs {
			p.VCPUs = append(p.VCPUs, VCPU{v, ask.CPUs[next%len(ask.CPUs)].ID})
			next++
		}
		r.Guests = append(r.Guests, naively(ask, g, p, func(q int) int { return p.VCPUs[q%len(p.VCPUs)].CPU }))
	}
	return r
}

// floating is libvirt's default: no pins. It is a moment in which the scheduler has given every vCPU its own CPU,
// anywhere, and the vhost threads run on any.
func floating(ask Ask, seed uint64) *Result {
	rnd := rand.New(rand.NewPCG(seed, 2))
	order := rnd.Perm(len(ask.CPUs))
	r := &Result{}
	next := 0
	for _, g := range ask.Guests {
		p := Placed{Name: g.Name}
		for v := range g.VCPUs {
			p.VCPUs = append(p.VCPUs, VCPU{v, ask.CPUs[order[next%len(order)]].ID})
			next++
		}
		r.Guests = append(r.Guests, naively(ask, g, p, func(int) int { return ask.CPUs[rnd.IntN(len(ask.CPUs))].ID }))
	}
	return r
}

func naively(ask Ask, g Guest, p Placed, vhost func(q int) int) Placed {
	for q := range vhostCount(&g) {
		p.Vhost = append(p.Vhost, Vhost{NIC: g.NICs[0].MAC, Queue: q, CPU: vhost(q)})
	}
	var nodes []int
	for _, v := range p.VCPUs {
		i := slices.IndexFunc(ask.CPUs, func(c CPU) bool { return c.ID == v.CPU })
		nodes = append(nodes, ask.CPUs[i].Node)
	}
	p.Nodes = setting.CPUs(nodes...)
	return p
}

// TestImprovement compares the placements of 30 random big hosts with the naive defaults. It fails if one is not better
// in every rule that comes first.
func TestImprovement(t *testing.T) {
	const hosts = 30
	type sum struct{ sharing, spread, points, reserve, vcpus int64 }
	var ours, byNumber, anywhere sum
	add := func(s *sum, ask Ask, c Cost) {
		s.sharing, s.spread, s.reserve = s.sharing+int64(c.Sharing), s.spread+int64(c.Spread),
			s.reserve+int64(c.Reserve)
		s.points += c.Distance + c.Crowding
		for _, g := range ask.Guests {
			s.vcpus += int64(g.VCPUs)
		}
	}
	var slowest time.Duration
	proved, guests, better := 0, 0, 0
	for seed := range uint64(hosts) {
		ask := big(seed)
		start := time.Now()
		r := Place(ask)
		slowest = max(slowest, time.Since(start))
		for _, problem := range Check(ask, r) {
			t.Errorf("host %d: %s", seed, problem)
		}
		p, f := Score(ask, packed(ask)), Score(ask, floating(ask, seed))
		if r.Cost.Total < p.Total && r.Cost.Total < f.Total {
			better++
		}
		if r.Proved {
			proved++
		}
		guests += len(ask.Guests)
		add(&ours, ask, r.Cost)
		add(&byNumber, ask, p)
		add(&anywhere, ask, f)
	}
	t.Logf("%d hosts, %d guests, %d vCPUs; %d proved to be the best; slowest %v", hosts, guests, ours.vcpus, proved,
		slowest.Round(time.Millisecond))
	for _, row := range []struct {
		name string
		sum
	}{{"placed", ours}, {"by number", byNumber}, {"floating", anywhere}} {
		t.Logf("%-10s vCPUs sharing a core %5d, nodes beyond the first %4d, host cores missing %4d, points %7d",
			row.name, row.sharing, row.spread, row.reserve, row.points)
	}
	t.Logf("points: %.1f times fewer than by number, %.1f times fewer than floating",
		float64(byNumber.points)/float64(ours.points), float64(anywhere.points)/float64(ours.points))
	must.Hold(t, better >= hosts && proved >= hosts/2,
		"better than both defaults on %d of %d hosts, proved on %d", better, hosts, proved)
}

// full is a host of two sockets with 128 CPUs each and 60 guests of random sizes.
func full(seed uint64, cores, threads int) Ask {
	rnd := rand.New(rand.NewPCG(seed, 1))
	ask := sized(2, cores, threads).nic(0).nic(1)
	for i := range ask.Nodes {
		ask.Nodes[i].Memory = 512 << 30
	}
	for i := range 60 {
		vcpus := []int{1, 2, 2, 2, 4, 4, 8}[rnd.IntN(7)]
		if cores == 64 {
			vcpus = (vcpus + 1) / 2
		}
		ask = ask.guest(fmt.Sprintf("vm%02d", i), vcpus, 1+rnd.IntN(min(4, vcpus)))
		g := &ask.Guests[i]
		g.Memory = uint64(vcpus*(1+rnd.IntN(3))) << 30
		g.NICs[0].NIC = fmt.Sprintf("eth%d", rnd.IntN(2))
	}
	return ask
}

// cpuTime is the CPU time that the calling thread has taken, which other work on the machine leaves alone.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostTime is how much CPU time the placement of TestFast may take: less than 100 ms on a quiet core, and a core whose
// other thread is busy takes twice as long.
const mostTime = 200 * time.Millisecond

// TestFast checks that 60 guests on 2 × 128 CPUs are placed, proved, within mostTime.
func TestFast(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, shape := range [][2]int{{128, 1}, {64, 2}} {
		for seed := range uint64(8) {
			ask := full(seed, shape[0], shape[1])
			best := time.Hour
			var r *Result
			for range 3 {
				start := cpuTime(t)
				r = Place(ask)
				best = min(best, cpuTime(t)-start)
			}
			if !r.Proved || best > mostTime || r.Cost.Refused > 0 {
				t.Errorf("2 × %d cores with %d threads, seed %d: proved %v, %v, %+v", shape[0], shape[1], seed,
					r.Proved, best, r.Cost)
			}
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, shape := range [][2]int{{128, 1}, {64, 2}} {
		b.Run(fmt.Sprintf("2x%dcores-%dthreads-60guests", shape[0], shape[1]), func(b *testing.B) {
			ask := full(0, shape[0], shape[1])
			b.ReportAllocs()
			for b.Loop() {
				if r := Place(ask); len(r.Refused) > 0 {
					b.Fatal(r.Refused)
				}
			}
		})
	}
}
