//go:build lab

package queuepath

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// pause is between two packets of a queue, in nanoseconds: what an emulated guest reaches without trouble, and a guest
// of two queues sends more with than the least rate that a fault is told of (500 per second).
const pause = 3_000_000

// The scenes of the path plant faults on the way of two guests' packets to the NIC, and have each of them found, named
// first and mended. Each has a host for itself, so that they can be played at different commits.

// TestPathExact: mpps path says of the NIC's queues what its driver counts, and finds no fault where there is none.
func TestPathExact(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	testExact(s)
	testHealthy(s)
}

func TestPathXPS(t *testing.T) {
	labtest.Long(t)
	testXPS(openScene(t))
}

func TestPathShared(t *testing.T) {
	labtest.Long(t)
	testShared(openScene(t))
}

// TestPathMoves: workers on the other node, and a flow that changes queue.
func TestPathMoves(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	testRemote(s)
	testFlapping(s)
}

func TestPathTunnel(t *testing.T) {
	labtest.Long(t)
	testTunnel(openScene(t))
}

// apart gives each guest's queue a CPU of the NIC's node and that CPU a queue of the NIC.
func (s *scene) apart() {
	s.Helper()
	s.vhost(s.cpus[:nicQueues])
	var sets [][]int
	for _, cpu := range s.cpus[:nicQueues] {
		sets = append(sets, []int{cpu})
	}
	s.xps(sets...)
}

// testExact: what is told of the NIC's queues is what its driver counts, packet by packet, and each guest's queue is
// distinguished.
func testExact(s *scene) {
	const each = 1000
	s.apart()
	counters := "ethtool -S " + s.nic + " | awk '/tx_queue_[0-9]+_packets/ {print $2}'"
	// It watches once it has attached the two programs that see packets.
	s.Must(`mpps --json path --every-packet --for 5m >/run/path.json 2>/run/path.err & P=$!; echo $P >/run/path.pid
until [ $(grep -ls link_id /proc/$P/fdinfo/* | wc -l) -ge 2 ]; do [ -d /proc/$P ] || { cat /run/path.err; exit 1; }; sleep 0.2; done; sleep 2`)
	before := s.Must(counters)
	var b, a [nicQueues]int
	scan(s, before, b[:])
	s.send(each, pause)
	s.Must(fmt.Sprintf(`for i in $(seq 600); do [ $(%s | awk '{n += $1} END {print n}') -lt %d ] || break; sleep 0.2; done; sleep 1
P=$(cat /run/path.pid); kill -INT $P; while [ -d /proc/$P ]; do sleep 0.2; done`, counters,
		b[0]+b[1]+b[2]+b[3]+len(guests)*guestQueues*each))
	scan(s, s.Must(counters), a[:])
	p := s.decode(s.Must("cat /run/path.json"))
	var told [nicQueues]int
	from := map[string]uint64{}
	for _, r := range p.Rows {
		if r.To.Device != s.nic || r.To.Direction != queuepath.Tx {
			continue
		}
		told[r.To.Queue] += int(r.Frames)
		if strings.HasPrefix(r.Origin.Device, "tapg") {
			from[fmt.Sprintf("%s %d to %d", r.Origin.Device, r.Origin.Queue, r.To.Queue)] += r.Frames
		}
	}
	for q := range nicQueues {
		// the driver also counts what went out beside the watching
		if counted := a[q] - b[q]; counted < told[q] || counted > told[q]+20 {
			s.Errorf("queue %d: told %d frames, the driver counted %d", q, told[q], counted)
		}
	}
	for i, name := range guests {
		for q := range guestQueues {
			key := fmt.Sprintf("tap%s %d to %d", name, q, i*guestQueues+q)
			must.Hold(s, from[key] >= each && from[key] <= each+20,
				"%s: %d frames, sent %d: %v", key, from[key], each, from)
		}
	}
	must.Hold(s, len(p.Vhost) >= len(guests)*guestQueues, "workers: %+v", p.Vhost)
}

func scan(s *scene, text string, into []int) {
	s.Helper()
	fields := strings.Fields(text)
	must.Need(s, len(fields) == len(into), "counters: %q, expected %d", text, len(into))
	for i := range into {
		must.Get(fmt.Sscan(fields[i], &into[i]))(s)
	}
}

// while watches for some seconds while the guests send.
func (s *scene) while(seconds int) *queuepath.Path {
	s.Helper()
	s.send(0, pause)
	defer s.stop()
	return s.path(seconds)
}

func testHealthy(s *scene) {
	s.apart()
	if p := s.while(3); len(p.Faults) > 0 {
		s.Errorf("%+v", p.Faults)
	}
}

// first requires that a fault of a kind is named first.
func (s *scene) first(p *queuepath.Path, kind queuepath.Kind, cause string) {
	s.Helper()
	if len(p.Faults) == 0 || p.Faults[0].Kind != kind || !strings.Contains(p.Faults[0].Object+" "+p.Faults[0].Cause,
		cause) {
		s.Errorf("expected %s (%s) first, found %+v in %.1f s at the NIC:%s", kind, cause, p.Faults, p.Watched,
			s.atNIC(p))
	}
}

// atNIC are the rows of the NIC's transmit queues: what a fault should have been seen in.
func (s *scene) atNIC(p *queuepath.Path) string {
	var text strings.Builder
	for _, r := range p.Rows {
		if r.To.Device == s.nic && r.To.Direction == queuepath.Tx {
			fmt.Fprintf(&text, "\n%s/%d to %d: %d frames, %d changed, CPU %d", r.Origin.Device, r.Origin.Queue,
				r.To.Queue, r.Frames, r.Moves, r.CPU)
		}
	}
	return text.String()
}

// testXPS: all of XPS is on one queue.
func testXPS(s *scene) {
	s.vhost(s.cpus[:nicQueues])
	s.xps(s.cpus)
	s.steers(queuepath.Collision, "xps_cpus")
}

// testShared: without XPS the NIC takes the number of the tap's queue, so that the first queues of both guests meet,
// and the second ones.
func testShared(s *scene) {
	s.vhost(s.cpus[:nicQueues])
	s.xps()
	s.steers(queuepath.Collision, "number at the tap")
}

// steers has a fault found, named first and mended by XPS, since each worker has a dedicated CPU; a rollback brings it
// back.
func (s *scene) steers(kind queuepath.Kind, cause string) {
	s.Helper()
	masks := "cat /sys/class/net/" + s.nic + "/queues/tx-*/xps_cpus"
	before := s.Must(masks)
	s.send(0, pause)
	ill := s.path(3)
	s.first(ill, kind, cause)
	r := s.mpps(0, "path", "--steer", "--for", "3s")
	well := s.path(3)
	s.stop()
	s.Logf("%.0f packets per second with the fault, %.0f mended: guests that send at a pace, on %d CPUs of this "+
		"machine", s.rate(ill), s.rate(well), runtime.NumCPU())
	must.Hold(s, len(well.Faults) <= 0 && strings.Contains(r.Stdout, "xps_cpus"),
		"steered:\n%s\nthen: %+v", r.Stdout, well.Faults)
	s.apartAtNIC(well)
	s.mpps(0, "rollback")
	if after := s.Must(masks); after != before {
		s.Errorf("XPS after the rollback %q, before %q", after, before)
	}
}

// rate is what left by the NIC.
func (s *scene) rate(p *queuepath.Path) float64 {
	packets := uint64(0)
	for _, r := range p.Rows {
		if r.To.Device == s.nic && r.To.Direction == queuepath.Tx {
			packets += r.Packets
		}
	}
	return float64(packets) / max(p.Watched, 1e-9)
}

// mended gives workers and XPS their places again while the guests go on to send, and requires that nothing is wrong
// then.
func (s *scene) mended() {
	s.Helper()
	s.apart()
	p := s.path(3)
	must.Empty(s, p.Faults, "mended")
	s.apartAtNIC(p)
}

// testRemote: the workers run on the other node than the NIC and the guests' memory.
func testRemote(s *scene) {
	s.vhost(s.other[:nicQueues])
	var sets [][]int
	for _, cpu := range s.other[:nicQueues] {
		sets = append(sets, []int{cpu})
	}
	s.xps(sets...)
	s.send(0, pause)
	defer s.stop()
	s.first(s.path(3), queuepath.RemoteNode, "")
	s.mended()
}

// testFlapping: XPS is written over and over while packets pass.
func testFlapping(s *scene) {
	s.apart()
	s.send(0, pause)
	defer s.stop()
	s.Must(fmt.Sprintf(`cd /sys/class/net/%s/queues; A=%x B=%x; : >/run/flapping
(while [ -e /run/flapping ]; do echo $B >tx-0/xps_cpus; echo $A >tx-1/xps_cpus; sleep 0.02; echo $A >tx-0/xps_cpus; echo $B >tx-1/xps_cpus; sleep 0.02; done) >/dev/null 2>&1 &
echo $! >/run/flapping`, s.nic, 1<<s.cpus[0], 1<<s.cpus[1]))
	p := s.path(3)
	s.Must("P=$(cat /run/flapping); rm /run/flapping; while [ -d /proc/$P ]; do sleep 0.1; done")
	s.first(p, queuepath.Flapping, s.nic)
	s.mended()
}

// apartAtNIC requires that each queue of the guests has a queue of the NIC for itself.
func (s *scene) apartAtNIC(p *queuepath.Path) {
	s.Helper()
	took := map[int]queuepath.Queue{}
	lanes := map[queuepath.Queue]bool{}
	for _, r := range p.Rows {
		if r.To.Device != s.nic || r.To.Direction != queuepath.Tx || !strings.HasPrefix(r.Origin.Device, "tapg") ||
			r.Frames < 50 {
			continue
		}
		if other, taken := took[r.To.Queue]; taken && other != r.Origin {
			s.Errorf("queue %d of %s is taken by %v and %v", r.To.Queue, s.nic, other, r.Origin)
		}
		took[r.To.Queue], lanes[r.Origin] = r.Origin, true
	}
	if len(took) != nicQueues || len(lanes) != nicQueues {
		s.Errorf("%d guest queues on %d queues of %s, expected %d on %d: %v", len(lanes), len(took), s.nic, nicQueues,
			nicQueues, took)
	}
}

// testTunnel: guests on a bridge with a VXLAN of one queue over the NIC, and workers that go where the scheduler sends
// them. The program carries each queue through the tunnel; nothing of it is left after a rollback.
func testTunnel(s *scene) {
	s.vhost(s.cpus[:nicQueues])
	s.xps()
	s.Must(`set -e
ip link set ` + s.nic + ` nomaster; ip addr replace 10.99.0.2/24 dev ` + s.nic + `
ip link add vx0 numtxqueues 1 type vxlan id 7 local 10.99.0.2 remote 10.99.0.1 dstport 4789 dev ` + s.nic + `
ip link set vx0 master br0 up
bridge fdb replace ` + beyond + ` dev vx0 master static
ping -c 1 -W 5 10.99.0.1 >/dev/null || true`)
	s.Cleanup(func() {
		s.Must("ip link del vx0; ip addr flush dev " + s.nic + "; ip link set " + s.nic +
			" master br0; bridge fdb replace " + beyond + " dev " + s.nic + " master static")
	})
	s.first(s.while(3), queuepath.Funnel, "vx0")

	s.vhost([]int{-1, -1, -1, -1})
	s.send(0, pause)
	s.mpps(0, "path", "--steer", "--by", "program", "--for", "3s")
	p := s.path(3)
	s.stop()
	s.apartAtNIC(p)
	must.Empty(s, p.Faults, "steered")
	s.mpps(0, "rollback")
	must.Equal(s,
		s.Must("find /sys/fs/bpf -mindepth 1 -not -type d 2>/dev/null; bpftool prog show | grep -i lane || "+"true"),
		"", "left by the rollback")
}
