//go:build netns

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// TestSteerHost sees lanes that run together named, mends them, sees them apart, lets a guest come again, and takes all
// back, while guests send: every frame arrives.
func TestSteerHost(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	for q := range 2 { // as a driver would
		must.Do(t, os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte("3"), 0))
	}
	masks := s.xps()
	s.send()
	before := s.watch()
	if len(before.Faults) == 0 {
		t.Errorf("nothing is wrong where 8 lanes leave by 2 queues: %v", exitsOf(before))
	} else {
		t.Logf("before: %s; %v", before.Faults[0].Name(), exitsOf(before))
	}
	if out := s.mpps(outcome.CodeChanges, "path", "--steer", "--for", "2s", "--dry-run",
		"--detailed-exit-code"); !strings.Contains(out, "queue-lanes:nic0") {
		t.Errorf("dry run: %s", out)
	}
	s.nothingLeft()
	must.Hold(t, s.xps() == masks, "a dry run has changed XPS")
	s.mpps(outcome.CodeChanges, "path", "--steer", "--for", "2s", "--detailed-exit-code")
	apart := func(when string) {
		t.Helper()
		p := s.watch()
		found := exitsOf(p)
		for i, base := range []int{0, 4} {
			for q := range 4 {
				if exits := found[fmt.Sprintf("tap%d %d", i, q)]; !slices.Equal(exits, []int{base + q}) {
					t.Errorf("%s: tap%d queue %d leaves by %v, expected %d", when, i, q, exits, base+q)
				}
			}
		}
		for _, f := range p.Faults {
			t.Errorf("%s: %s: %s", when, f.Name(), f.Evidence)
		}
	}
	apart("steered")
	if out := s.mpps(outcome.CodeOK, "path", "--steer", "--for", "2s", "--detailed-exit-code"); !strings.Contains(
		out, "nothing to change") {
		t.Errorf("steered again: %s", out)
	}

	// A guest ends and comes again while the service watches.
	watcher := exec.Command("mpps", "restore", "--watch")
	must.Do(t, watcher.Start())
	time.Sleep(300 * time.Millisecond)
	s.close(1)
	time.Sleep(100 * time.Millisecond)
	s.mpps(outcome.CodeOK, "verify") // a guest that is away is nobody's fault
	s.open(1)
	began := time.Now()
	for {
		if code, _, _ := program(t, "mpps", "verify"); code == outcome.CodeOK {
			break
		}
		must.Need(t, time.Since(began) <= 30*time.Second, "not put back within 30 s of the guest's start")
	}
	t.Logf("put back %v after a tap came back", time.Since(began).Round(time.Millisecond))
	apart("after a guest came back")
	must.Do(t, watcher.Process.Signal(syscall.SIGTERM))
	_ = watcher.Wait()

	s.mpps(outcome.CodeOK, "rollback")
	s.nothingLeft()
	if after := s.xps(); after != masks {
		t.Errorf("XPS is %q, before %q", after, masks)
	}
	if after := s.watch(); len(after.Faults) == 0 {
		t.Error("after the rollback nothing is wrong any more")
	}
	s.end()
	sent, arrived := s.counts()
	t.Logf("%d frames sent meanwhile, %d arrived", sent, arrived)
	if arrived < sent || arrived > sent+20 || sent < 20_000 { // the kernel sends a few of its own
		t.Errorf("%d frames of %d arrived", arrived, sent)
	}
}

// firstWrite waits until the first value was written, and so much longer.
func (s *steered) firstWrite(more time.Duration) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Microsecond) {
		if text, err := os.ReadFile("/sys/class/net/nic0/queues/tx-0/xps_cpus"); err == nil &&
			strings.TrimSpace(string(text)) == "0" {
			time.Sleep(more)
			return
		}
	}
}

// TestSteerKilled: mpps is killed somewhere in the middle; a rollback leaves nothing of it.
func TestSteerKilled(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	s.send()
	for q := range 8 {
		must.Do(t, os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", q), []byte("1"), 0))
	}
	masks := s.xps()
	steer := []string{"path", "--steer", "--for", "100ms", "--by", "program", "--nic", "nic0"}
	began := time.Now()
	s.mpps(outcome.CodeOK, steer...)
	took := time.Since(began)
	s.mpps(outcome.CodeOK, "rollback")
	half, whole := 0, 0
	for round := range 15 {
		cmd := exec.Command("mpps", steer...)
		must.Do(t, cmd.Start())
		if round%3 == 0 {
			time.Sleep(took/2 + rand.N(took/2))
		} else {
			s.firstWrite(rand.N(20 * time.Millisecond))
		}
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		pins, err := filepath.Glob("/sys/fs/bpf/mpps/lanes-v1/nic0/*")
		switch _, last := os.Stat("/var/lib/mpps/desired.json"); {
		case err != nil:
			t.Fatal(err)
		case last == nil:
			whole++
		case len(pins) > 0 || s.xps() != masks:
			half++
		}
		if code, _, stderr := program(t, "mpps", "rollback"); code != outcome.CodeOK &&
			!strings.Contains(stderr, "no transaction") {
			t.Fatalf("rollback: exit code %d: %s", code, stderr)
		}
		s.nothingLeft()
		if after := s.xps(); after != masks {
			t.Fatalf("XPS is %q, before %q", after, masks)
		}
	}
	must.Hold(t, half != 0, "it was never killed between the first value and the last")
	t.Logf("killed 15 times within %v: %d times between the first value and the last, %d times behind it",
		took.Round(time.Millisecond), half, whole)
	s.end()
	if sent, arrived := s.counts(); arrived < sent {
		t.Errorf("%d frames of %d arrived", arrived, sent)
	}
}

// TestSteerClassifier: a classifier that comes to a tap after it was steered is told by verify and by the next
// steering, and one that is there before is planned around.
func TestSteerClassifier(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	s.send()
	s.mpps(outcome.CodeOK, "path", "--steer", "--for", "1s", "--by", "program", "--nic", "nic0")
	s.must("tc", "qdisc", "add", "dev", "tap1", "handle", "ffff:", "ingress")
	s.must("tc", "filter", "add", "dev", "tap1", "parent", "ffff:", "protocol", "all", "u32", "match", "u32", "0", "0",
		"flowid", ":1")
	if code, stdout, _ := program(t, "mpps", "verify"); code == outcome.CodeOK {
		t.Errorf("verify is content: %s", stdout)
	}
	for _, round := range []string{"after", "before"} {
		code, stdout, stderr := program(t, "mpps", "path", "--steer", "--for", "1s", "--by", "program", "--nic", "nic0")
		if code != outcome.CodeOK || !strings.Contains(stdout+stderr, "classifier at the ingress of tap1 (u32;") {
			t.Errorf("%s: exit code %d: %s%s", round, code, stdout, stderr)
		}
		found := exitsOf(s.watch())
		for q := range 4 {
			if exits := found[fmt.Sprintf("tap0 %d", q)]; !slices.Equal(exits, []int{q}) {
				t.Errorf("%s: tap0 queue %d leaves by %v", round, q, exits)
			}
		}
		for range 3 {
			if code, _, _ := program(t, "mpps", "rollback"); code != outcome.CodeOK {
				break
			}
		}
		s.nothingLeft()
	}
	s.end()
}

// TestSteerDiscipline: a tunnel that needs no queue discipline loses the one that it has, is kept so, and gets it back.
// One with parameters stays, and is reported.
func TestSteerDiscipline(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, "vxlan")
	shown := func() string { return strings.TrimSpace(s.must("tc", "qdisc", "show", "dev", "vx0")) }
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "handle", "8123:", "pfifo_fast")
	before := shown()
	s.send()
	steer := []string{"path", "--steer", "--for", "1s", "--by", "program", "--nic", "nic0"}
	if out := s.mpps(outcome.CodeOK, append(steer, "--dry-run")...); !strings.Contains(out, "root-qdisc:vx0") ||
		shown() != before {
		t.Errorf("a dry run: %s\n%s", out, shown())
	}
	s.mpps(outcome.CodeOK, steer...)
	if found := shown(); !strings.HasPrefix(found, "qdisc noqueue") {
		t.Errorf("steered: %s", found)
	}
	s.mpps(outcome.CodeOK, "verify")
	for _, f := range s.watch().Faults {
		t.Errorf("steered: %s: %s", f.Name(), f.Evidence)
	}
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "handle", "8123:", "pfifo_fast")
	s.mpps(outcome.CodeOK, "restore", "--insist")
	if found := shown(); !strings.HasPrefix(found, "qdisc noqueue") {
		t.Errorf("put back: %s", found)
	}
	s.mpps(outcome.CodeOK, "rollback")
	if after := shown(); after != before {
		t.Errorf("rolled back: %s, before %s", after, before)
	}
	s.must("tc", "qdisc", "replace", "dev", "vx0", "root", "pfifo", "limit", "17")
	before = shown()
	code, stdout, stderr := program(t, append([]string{"mpps"}, steer...)...)
	if code != outcome.CodeOK || !strings.Contains(stdout+stderr, "all lanes take the lock of pfifo on vx0") ||
		shown() != before {
		t.Errorf("with parameters: exit code %d: %s%s\n%s", code, stdout, stderr, shown())
	}
	s.mpps(outcome.CodeOK, "rollback")
	s.nothingLeft()
	s.end()
}

// TestSteerManyFlows: 2,000 flows over a steered tunnel are healthy, although dozens share their outer source port with
// a flow on another queue, or all their outer addresses. One more flow that two queues really send in turns is found,
// in front of the tunnel and behind it.
func TestSteerManyFlows(t *testing.T) {
	var skipped atomic.Int32
	t.Cleanup(func() { t.Logf("%d kinds of tunnels are skipped, which this kernel lacks", skipped.Load()) })
	for kind := range tunnels {
		t.Run(kind, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Skipped() {
					skipped.Add(1)
				}
			})
			testSteerManyFlows(t, kind)
		})
	}
}

func testSteerManyFlows(t *testing.T, kind string) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, kind)
	seen, enough := make(chan map[uint16]int, 1), make(chan struct{})
	go func() { seen <- outerPorts(t, enough) }()
	s.sendFlows(2000, false)
	s.mpps(outcome.CodeChanges, "path", "--steer", "--for", s.during("2s", "5s"), "--detailed-exit-code")
	for _, f := range s.watch().Faults {
		t.Errorf("2,000 flows: %s: %s", f.Name(), f.Evidence)
	}
	close(enough)
	ports := <-seen
	shared := 0
	for _, queues := range ports {
		if queues > 1 {
			shared++
		}
	}
	t.Logf("%d outer ports, %d are shared by flows of several queues", len(ports), shared)
	if len(ports) > 1 && shared < 20 {
		t.Errorf("%d outer ports are shared by flows of several queues: too few to prove anything", shared)
	}
	s.end()

	s.stop = make(chan struct{})
	s.sendFlows(2000, true)
	faults := s.watch().Faults
	s.end()
	for _, side := range []string{"tap0 rx", "nic0 tx", "far0 rx"} {
		if !slices.ContainsFunc(faults, func(f queuepath.Fault) bool {
			return f.Kind == queuepath.Flapping && f.Object == side
		}) {
			t.Errorf("one flow on two queues in turns: no flapping found at %s in %+v", side, faults)
		}
	}
}

// sendFlows sends so many flows, each on one queue of a guest, until end, and with roaming one more on two queues of
// the first in turns.
func (s *steered) sendFlows(flows int, roaming bool) {
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 0x77, 0x52, 0x54, 0, 0, 0, 0, 0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0,
		0, 10, 8, 0, 1, 10, 8, 0, 2})
	write := func(guest, queue, flow int) {
		frame[11], frame[29] = byte(guest+1), byte(10+guest)
		binary.BigEndian.PutUint16(frame[34:], uint16(10000+flow))
		binary.BigEndian.PutUint16(frame[38:], 26)
		binary.BigEndian.PutUint16(frame[24:], headerSum(frame[14:34]))
		out := frame
		if outer := headers[s.kind]; outer != nil {
			binary.BigEndian.PutUint16(outer[10:], headerSum(outer[:20]))
			out = slices.Concat(frame[:14], outer, frame)
		}
		if _, err := s.taps[guest][queue].Write(out); err == nil {
			s.sent.Add(1)
		}
	}
	s.done.Go(func() {
		for turn := 0; ; turn++ {
			select {
			case <-s.stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			for i := range 16 {
				flow := (16*turn + i) % flows
				write(flow%2, flow/2%4, flow)
			}
			if roaming {
				write(0, turn%2, flows)
			}
		}
	})
}

// outerPorts are the source ports of tunnel frames that arrive at far0 until it is enough, with the number of guests'
// queues whose flows have each. A tunnel without UDP has none.
func outerPorts(t *testing.T, enough <-chan struct{}) map[uint16]int {
	device, err := net.InterfaceByName("far0")
	if err != nil {
		t.Error(err)
		return nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer unix.Close(fd)
	const allProtocols = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: device.Index}); err != nil {
		t.Error(err)
		return nil
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	// bytes: the headers before the tunnel's own, and a guest's frame, which is the last
	const outer, frame = 14 + 20 + 8, 60
	queues := map[uint16]map[int]bool{}
	b := make([]byte, 300)
	for {
		select {
		case <-enough:
			ports := map[uint16]int{}
			for port, q := range queues {
				ports[port] = len(q)
			}
			return ports
		default:
		}
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n < outer+frame || b[23] != unix.IPPROTO_UDP {
			continue
		}
		port := binary.BigEndian.Uint16(b[34:])
		if queues[port] == nil {
			queues[port] = map[int]bool{}
		}
		queues[port][int(binary.BigEndian.Uint16(b[n-frame+34:])-10000)%8] = true
	}
}
