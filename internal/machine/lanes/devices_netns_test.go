//go:build netns

package lanes

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestVeth: a container's veth passes frames on with the index of its transmit queue, from 0; a tap counts from 1.
func TestVeth(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, false)
	ip(t, "link add host9 numtxqueues 4 numrxqueues 4 type veth peer name cont9 numtxqueues 4 numrxqueues 4",
		"link set cont9 up", "link set host9 up master br0")
	prog := program(t, false)
	must.Do(t, prog.Write([]setting.Lane{{Tap: "host9", Base: 3, Count: 4}}))
	cont := must.Get(net.InterfaceByName("cont9"))(t)
	fd := must.Get(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0))(t)
	defer unix.Close(fd)
	for queue := range 4 {
		for q := range 4 { // all CPUs send by this queue
			cpus := "0"
			if q == queue {
				cpus = fmt.Sprintf("%x", uint64(1)<<min(runtime.NumCPU(), 31)-1)
			}
			must.Do(t, os.WriteFile(fmt.Sprintf("/sys/class/net/cont9/queues/tx-%d/xps_cpus", q), []byte(cpus), 0))
		}
		for n := range 100 {
			must.Do(t, unix.Sendto(fd, frameOf(9, byte(queue), uint32(n)), 0,
				&unix.SockaddrLinklayer{Ifindex: cont.Index}))
		}
		for range 100 {
			select {
			case s := <-p.seen:
				if int(s.queue) == queue && s.at != 3+queue {
					t.Fatalf("queue %d of the container left by queue %d, expected %d", queue, s.at, 3+queue)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("frames are lost")
			}
		}
	}
	must.Do(t, prog.Remove())
	nothingLeft(t)
}

// TestNICGone: programs left at the taps of a NIC that is gone are found and removed.
func TestNICGone(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	ways(t, func(t *testing.T, filters bool) {
		ip(t, "link add nic1 type veth peer name far1", "link set nic1 up")
		prog := must.Get(programOf("nic1", filters))(t)
		must.Do(t, prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 1}}))
		ip(t, "link del nic1")
		prog.NIC.Index = 0
		if there, err := prog.Exists(); !there || err != nil {
			t.Errorf("there: %v, %v", there, err)
		}
		must.Do(t, prog.Remove())
		if there, err := prog.Exists(); there || err != nil {
			t.Errorf("there after it was removed: %v, %v", there, err)
		}
		nothingLeft(t)
	})
}
