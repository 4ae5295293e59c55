//go:build netns

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// inHost is treetest.InNamespace with bpf file system, journal, lock and systemd's directory of its own, which are gone
// when the child ends. Such tests share nothing, and run beside each other.
func inHost(t *testing.T) bool {
	t.Helper()
	if !treetest.IsChild(t) {
		t.Parallel()
	}
	return treetest.InNamespace(t, func() error {
		return errors.Join(unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""),
			unix.Mount("lib", "/var/lib", "tmpfs", 0, ""), unix.Mount("run", "/run", "tmpfs", 0, ""),
			unix.Mount("systemd", "/etc/systemd", "tmpfs", 0, ""), os.Mkdir("/etc/systemd/system", 0o755))
	})
}

// tunnels are the commands that make vx0 by the tunnel's name. The test machine's kernel may not have all of them:
// test/queuepath runs TestSteerManyFlows with each on the emulated host. Of those without a command the guests make the
// tunnel themselves, and there is no vx0. The port of vxlan-port is known from the device alone.
var tunnels = map[string][]string{
	"gre-inside": nil, "geneve-inside": nil,
	"vxlan":      {"link add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.2 local 10.9.0.1 dev nic0"},
	"vxlan-port": {"link add vx0 type vxlan id 7 dstport 7789 remote 10.9.0.2 local 10.9.0.1 dev nic0"},
	"geneve":     {"link add vx0 type geneve id 7 dstport 6081 remote 10.9.0.2"},
	"gretap":     {"link add vx0 type gretap remote 10.9.0.2 local 10.9.0.1 dev nic0"},
	"ip6gretap":  {"link add vx0 type ip6gretap remote fd00::2 local fd00::1 dev nic0 encaplimit none"},
	"gretap-key": {"link add vx0 type gretap key 7 remote 10.9.0.2 local 10.9.0.1 dev nic0"},
	"gretap-fou": {
		"fou add port 5555 ipproto 47",
		"link add vx0 type gretap remote 10.9.0.2 local 10.9.0.1 dev nic0 encap fou encap-sport auto encap-dport 5555",
	},
	"gretap-gue": {
		"fou add port 6080 gue",
		"link add vx0 type gretap remote 10.9.0.2 local 10.9.0.1 dev nic0 encap gue encap-sport auto encap-dport 6080",
	},
}

// underlay6 is what tunnels over IPv6 need, which is turned off otherwise.
var underlay6 = map[string][]string{"ip6gretap": {"addr add fd00::1/64 dev nic0 nodad",
	"neigh add fd00::2 lladdr 02:00:00:00:00:77 dev nic0 nud permanent"}}

// headers are what guests that make the tunnel themselves put between two Ethernet headers: IPv4 and GRE with a key
// (RFC 2890), or IPv4, UDP and Geneve (RFC 8926).
var headers = map[string][]byte{
	"gre-inside": {0x45, 0, 0, 88, 0, 0, 0, 0, 64, unix.IPPROTO_GRE, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2,
		0x20, 0, 0x65, 0x58, 0, 0, 0, 7},
	"geneve-inside": {0x45, 0, 0, 96, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2,
		0xc0, 0, 0x17, 0xc1, 0, 76, 0, 0, 0, 0, 0x65, 0x58, 0, 0, 7, 0},
}

// steered is a host with two guests of four queues on a bridge, behind a tunnel device with one queue and a NIC with
// eight.
type steered struct {
	t    *testing.T
	kind string     // of the tunnel
	mu   sync.Mutex // held while a guest's queues are opened or closed
	taps [2][]*os.File
	sent atomic.Uint64
	stop chan struct{}
	done sync.WaitGroup
}

func (s *steered) must(argv ...string) string {
	s.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	must.Need(s.t, err == nil, "%v: %v\n%s", argv, err, out)
	return string(out)
}

// newSteered makes the host with a tunnel. Where the kernel has no such device the test is skipped.
func newSteered(t *testing.T, kind string) *steered {
	s := &steered{t: t, kind: kind, stop: make(chan struct{})}
	device, _, _ := strings.Cut(kind, "-")
	if tunnels[kind] != nil {
		probe := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: "vx0"}, LinkType: device}
		if err := netlink.LinkAdd(probe); errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("this kernel has no " + device)
		}
		_ = exec.Command("ip", "link", "del", "vx0").Run() // where it takes no options
	}
	exit := "vx0"
	if tunnels[kind] == nil {
		exit = "nic0"
	}
	for _, family := range []string{"all", "default"} {
		if underlay6[kind] != nil {
			break
		}
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+family+"/disable_ipv6", []byte("1"), 0); err != nil &&
			!os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, command := range slices.Concat([]string{
		"link add nic0 numtxqueues 8 numrxqueues 8 type veth peer name far0 numtxqueues 8 numrxqueues 8",
		"link set far0 address 02:00:00:00:00:77",
		"link set nic0 up", "link set far0 up", "addr add 10.9.0.1/24 dev nic0", "neigh add 10.9.0.2 lladdr " +
			"02:00:00:00:00:77 dev nic0 nud permanent",
	}, underlay6[kind], tunnels[kind], []string{
		"link set " + exit + " up", "link add br0 type bridge forward_delay 0 mcast_snooping 0", "link set br0 up",
		"link set " + exit + " master br0",
	}) {
		s.must(append([]string{"ip"}, strings.Fields(command)...)...)
	}
	s.must("bridge", "fdb", "add", "02:00:00:00:00:77", "dev", exit, "master", "static")
	for i := range s.taps {
		s.open(i)
	}
	return s
}

func (s *steered) open(i int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	name := "tap" + strconv.Itoa(i)
	for range 4 {
		f := must.Get(os.OpenFile("/dev/net/tun", os.O_RDWR|unix.O_NONBLOCK, 0))(s.t)
		r := must.Get(unix.NewIfreq(name))(s.t)
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE)
		must.Do(s.t, unix.IoctlIfreq(int(f.Fd()), unix.TUNSETIFF, r))
		s.taps[i] = append(s.taps[i], f)
	}
	s.must("ip", "link", "set", name, "up", "master", "br0")
	// The kernel tells the bridge of the carrier later (net/core/link_watch.c); until then the port drops what comes.
	for strings.TrimSpace(s.must("cat", "/sys/class/net/"+name+"/brport/state")) != "3" {
		time.Sleep(time.Millisecond)
	}
}

// close ends a guest: its tap goes with the last descriptor.
func (s *steered) close(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.taps[i] {
		f.Close()
	}
	s.taps[i] = nil
}

// send lets each queue of each guest send its own flow until end, 20,000 frames a second or so.
func (s *steered) send() {
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 0x77, 0x52, 0x54, 0, 0, 0, 0, 0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0,
		0, 10, 8, 0, 1, 10, 8, 0, 2})
	s.done.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			s.mu.Lock()
			for i, queues := range s.taps {
				for q, f := range queues {
					frame[11], frame[29] = byte(i+1), byte(10+i)
					binary.BigEndian.PutUint16(frame[34:], uint16(1000+100*i+q))
					binary.BigEndian.PutUint16(frame[38:], 26)
					// the bridge's netfilter looks at it
					binary.BigEndian.PutUint16(frame[24:], headerSum(frame[14:34]))
					for range 2 {
						if _, err := f.Write(frame); err == nil {
							s.sent.Add(1)
						}
					}
				}
			}
			s.mu.Unlock()
		}
	})
}

// headerSum is the checksum of an IPv4 header (RFC 1071).
func headerSum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		if i != 10 {
			sum += uint32(binary.BigEndian.Uint16(header[i:]))
		}
	}
	return ^uint16(sum + sum>>16)
}

func (s *steered) end() {
	close(s.stop)
	s.done.Wait()
}

// counts returns how many frames were sent and have arrived, once all have, or half a minute after the end.
func (s *steered) counts() (sent, arrived uint64) {
	s.t.Helper()
	sent = s.sent.Load()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text := strings.TrimSpace(s.must("cat", "/sys/class/net/far0/statistics/rx_packets"))
		arrived = must.Get(strconv.ParseUint(text, 10, 64))(s.t)
		if arrived >= sent || time.Now().After(end) {
			return sent, arrived
		}
	}
}

// mpps runs the program and checks its exit code.
func (s *steered) mpps(code int, argv ...string) string {
	s.t.Helper()
	got, stdout, stderr := program(s.t, append([]string{"mpps"}, argv...)...)
	must.Need(s.t, got == code, "mpps %v: exit code %d, expected %d\n%s%s", argv, got, code, stdout, stderr)
	return stdout
}

// during is how long mpps watches: on the emulated host, where packets are few, longer.
func (s *steered) during(here, emulated string) string {
	if os.Getenv("MPPS_TEST_EMULATED") != "" {
		return emulated
	}
	return here
}

// watch is what mpps path sees.
func (s *steered) watch() *queuepath.Path {
	s.t.Helper()
	var answer struct{ Result queuepath.Path }
	must.Do(s.t, json.Unmarshal([]byte(s.mpps(outcome.CodeOK, "path", "--for", s.during("1s", "5s"), "--every-packet",
		"--json")), &answer))
	return &answer.Result
}

// exitsOf are the queues of the NIC that the lanes of the guests take, by guest and queue.
func exitsOf(p *queuepath.Path) map[string][]int {
	all := map[string][]int{}
	for i := range p.Lanes {
		l := &p.Lanes[i]
		if exit := l.Exit(); exit.Device == "nic0" && strings.HasPrefix(l.Origin().Device, "tap") {
			key := fmt.Sprintf("%s %d", l.Origin().Device, l.Origin().Queue)
			if !slices.Contains(all[key], exit.Queue) {
				all[key] = append(all[key], exit.Queue)
			}
		}
	}
	return all
}

// xps is all masks of the NIC.
func (s *steered) xps() string {
	s.t.Helper()
	return s.must("sh", "-c", "cat /sys/class/net/nic0/queues/tx-*/xps_cpus")
}

func (s *steered) nothingLeft() {
	s.t.Helper()
	for _, pattern := range []string{"/sys/fs/bpf/mpps", "/var/lib/mpps/desired.json", "/etc/systemd/system/mpps*"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			s.t.Errorf("left behind: %v, %v", found, err)
		}
	}
}
