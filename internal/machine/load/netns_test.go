//go:build netns

package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// twoSpaces creates two named network namespaces with a veth pair between them: v0 with 198.18.0.1 in the first, v1
// with 198.18.0.2 in the second.
func twoSpaces(t *testing.T) (first, second string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	first, second = fmt.Sprintf("mppsload%da", os.Getpid()), fmt.Sprintf("mppsload%db", os.Getpid())
	for _, name := range []string{first, second} {
		treetest.IP(t, "netns add "+name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	treetest.IP(t, "-n "+first+" link add v0 type veth peer name v1 netns "+second,
		"-n "+first+" addr add 198.18.0.1/24 dev v0", "-n "+second+" addr add 198.18.0.2/24 dev v1",
		"-n "+first+" link set v0 up", "-n "+second+" link set v1 up", "-n "+first+" link set lo up")
	// Until the kernel has noticed the carrier, which other tests' namespaces can delay by a second, v0 drops all.
	for begun := time.Now(); !strings.Contains(treetest.Tool(t, "ip", "-n", first, "link", "show", "v0"), "state UP"); {
		must.Need(t, time.Since(begun) <= 10*time.Second, "v0 has no carrier")
		time.Sleep(10 * time.Millisecond)
	}
	return first, second
}

// flood sends datagrams from a namespace to an address until the test's context ends.
func flood(ctx context.Context, t *testing.T, netns, to string) {
	t.Helper()
	var conn net.Conn
	must.Do(t, inNetns(netns, func() (err error) {
		conn, err = net.Dial("udp", to)
		return err
	}))
	done := make(chan bool)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for range 16 {
				_, _ = conn.Write(make([]byte, 18)) // refused by a closed port, or by a full queue
			}
		}
	}()
	t.Cleanup(func() { <-done; conn.Close() })
}

// inNetns calls f on a thread in a named network namespace.
func inNetns(name string, f func() error) error { return (&Watch{h: &facts.Host{}}).inNetns(name, f) }

func hostOf(t *testing.T, m *tree.Tree) *facts.Host {
	t.Helper()
	h := &facts.Host{}
	cpu.Topology(context.Background(), m, h)
	return h
}

func loadDevice(t *testing.T, l *facts.Load, netns, name string) facts.DeviceLoad {
	t.Helper()
	for _, d := range l.Devices {
		if d.Netns == netns && d.Name == name {
			return d
		}
	}
	t.Fatalf("no device %s of %s in %+v", name, netns, l.Devices)
	return facts.DeviceLoad{}
}

// TestLoadOfSpaces floods a socket that nobody reads through a qdisc with a rate limit.
func TestLoadOfSpaces(t *testing.T) {
	m := treetest.Live(t)
	h := hostOf(t, m)
	first, second := twoSpaces(t)
	treetest.Tool(t, "ip", "netns", "exec", first, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "10mbit",
		"burst", "16kb", "limit", "4kb")
	var deaf *net.UDPConn
	must.Do(t, inNetns(second, func() (err error) {
		deaf, err = net.ListenUDP("udp", &net.UDPAddr{Port: 7000})
		return err
	}))
	defer deaf.Close()
	_ = deaf.SetReadBuffer(8 << 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flood(ctx, t, first, "198.18.0.2:7000")
	time.Sleep(100 * time.Millisecond)
	l := Observe(context.Background(), m, h, Options{Interval: time.Second, Netns: []string{first, second},
		Counters: true})
	if l.Seconds < 0.9 || l.Method != facts.ByCounters || len(l.Unseen) > 0 {
		t.Errorf("%v seconds by %s, unseen %v", l.Seconds, l.Method, l.Unseen)
	}
	v0, v1 := loadDevice(t, l, first, "v0"), loadDevice(t, l, second, "v1")
	must.Hold(t, v0.Kind == "veth" && v0.TxPackets >= 1000 && v1.RxPackets >= 1000,
		"found %+v and %+v, expected a thousand packets", v0, v1)
	must.Hold(t, len(v0.Qdisc) == 1 && v0.Qdisc[0].Kind == "tbf" && v0.Qdisc[0].Parent == "root" &&
		v0.Qdisc[0].RateBps == 10e6 && v0.Qdisc[0].Drops != 0 && v0.Qdisc[0].Overlimits != 0,
		"queue disciplines of v0: %+v", v0.Qdisc)
	if l.Sockets.ReceiveBuffer < 100 || l.Sockets.Queued < 0.8 || l.Sockets.NoPort > 0 {
		t.Errorf("sockets: %+v", l.Sockets)
	}
	must.Equal(t, len(l.CPUs), len(h.Topology.Online), "CPUs")
	for _, c := range l.CPUs {
		if sum := c.Busy() + c.Steal + c.Idle; sum < 0.999 || sum > 1.001 {
			t.Errorf("CPU %d: shares add up to %v", c.CPU, sum)
		}
	}
	var softirqs uint64
	for _, s := range l.Softnet {
		softirqs += s.Processed
	}
	must.Hold(t, softirqs >= 1000, "softnet: %+v", l.Softnet)
	us := slices.IndexFunc(l.Threads, func(x facts.ThreadLoad) bool { return x.Role == "mpps" && x.Ran > 0 })
	must.Hold(t, us >= 0 && l.Threads[us].Switches != 0 && l.Threads[us].Policy != "",
		"no thread of ours that floods in %+v", l.Threads)
	if l.CostMS <= 0 || l.CostMS > 200 {
		t.Errorf("watching cost %v ms", l.CostMS)
	}
}

// TestLoadOfNothing has a closed port and idle devices, watched twice in a row.
func TestLoadOfNothing(t *testing.T) {
	m := treetest.Live(t)
	h := hostOf(t, m)
	first, second := twoSpaces(t)
	w := Start(context.Background(), m, h, Options{Netns: []string{second}, Counters: true})
	defer w.Close()
	l := w.Next(context.Background(), 200*time.Millisecond)
	if d := loadDevice(t, l, second, "v1"); d.RxPackets > 50 || d.Counters["rx_dropped"] > 0 ||
		!reflect.DeepEqual(l.Sockets, facts.SocketLoad{}) {
		t.Errorf("found %+v and %+v, expected nothing", d, l.Sockets)
	}
	ctx, cancel := context.WithCancel(context.Background())
	flood(ctx, t, first, "198.18.0.2:7001")
	l = w.Next(context.Background(), time.Second)
	cancel()
	must.Hold(t, l.Sockets.NoPort >= 100 && l.Sockets.ReceiveBuffer == 0, "of a closed port: %+v", l.Sockets)
	missing := Observe(context.Background(), m, h, Options{Interval: 10 * time.Millisecond,
		Netns: []string{"mpps-none-such"}, Counters: true})
	must.Hold(t, len(missing.Unseen) != 0 && strings.Contains(missing.Unseen[0].Why, "mpps-none-such"),
		"a namespace that is not there: %+v", missing.Unseen)
}

// TestLoadOfQuota has a busy process in a group that may use a fiftieth of a CPU: less than a busy machine gives it.
func TestLoadOfQuota(t *testing.T) {
	m := treetest.Live(t)
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	groups := findCPUGroups(m)
	if groups.mount == "" {
		t.Skip("there are no control groups of CPU time")
	}
	dir := filepath.Join("/", groups.mount, fmt.Sprintf("mppsload%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	defer os.Remove(dir)
	files := map[string]string{"cpu.max": "2000 100000"}
	if !groups.unified {
		files = map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "2000"}
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			t.Skip(err)
		}
	}
	spin := exec.Command("md5sum", "/dev/zero")
	must.Do(t, owned.Start(spin))
	defer func() { _ = spin.Process.Kill(); _ = spin.Wait() }()
	must.Do(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(spin.Process.Pid)), 0o644))
	l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: time.Second, Counters: true})
	at := slices.IndexFunc(l.Threads, func(x facts.ThreadLoad) bool { return x.TID == spin.Process.Pid })
	must.Need(t, at >= 0, "no thread %d in %+v", spin.Process.Pid, l.Threads)
	found := l.Threads[at]
	if found.Quota != 0.02 || found.Throttle < 0.05 || found.Ran > 0.2 || found.Ran < 0.002 || found.Role != "other" {
		t.Errorf("found %+v, expected a fiftieth of a CPU, held back", found)
	}
}

// TestLoadOfPacketSocket has an AF_PACKET socket that nobody reads.
func TestLoadOfPacketSocket(t *testing.T) {
	m := treetest.Live(t)
	first, second := twoSpaces(t)
	fd := -1
	must.Do(t, inNetns(second, func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(uint16(unix.ETH_P_ALL)<<8|uint16(unix.ETH_P_ALL)>>8))
		return err
	}))
	defer unix.Close(fd)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flood(ctx, t, first, "198.18.0.2:7002")
	l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: time.Second, Netns: []string{second},
		Counters: true})
	must.Hold(t, l.Sockets.PacketDrops >= 100, "sockets: %+v", l.Sockets)
}

// TestReceivers has this program, which counts as mpps, take what arrives at a device by a packet socket.
func TestReceivers(t *testing.T) {
	m := treetest.Live(t)
	first, second := twoSpaces(t)
	must.Do(t, inNetns(second, func() error {
		v1 := must.Get(net.InterfaceByName("v1"))(t)
		fd := must.Get(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0))(t)
		t.Cleanup(func() { unix.Close(fd) })
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: v1.Index})
	}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flood(ctx, t, first, "198.18.0.2:7002")
	l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: 300 * time.Millisecond,
		Netns: []string{first, second}, Counters: true})
	for _, d := range l.Devices {
		must.Equal(t, slices.Equal(d.Held, []int{os.Getpid()}), d.Name == "v1",
			"%s of %s is held by %v", d.Name, d.Netns, d.Held)
	}
}

// TestLoadByTracepoints has a rule that drops what arrives, a socket that nobody reads, and two threads on one CPU.
func TestLoadByTracepoints(t *testing.T) {
	m := treetest.Live(t)
	h := hostOf(t, m)
	first, second := twoSpaces(t)
	var deaf *net.UDPConn
	must.Do(t, inNetns(second, func() (err error) {
		deaf, err = net.ListenUDP("udp", &net.UDPAddr{Port: 7000})
		return err
	}))
	defer deaf.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flood(ctx, t, first, "198.18.0.2:7000")
	flood(ctx, t, first, "198.18.0.2:7001")
	spin := func() int {
		c := exec.Command("md5sum", "/dev/zero")
		must.Do(t, owned.Start(c))
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		must.Do(t, threads.SetAffinity(c.Process.Pid, setting.CPUs(0)))
		return c.Process.Pid
	}
	one, other := spin(), spin()
	l := Observe(context.Background(), m, h, Options{Interval: 2 * time.Second, Netns: []string{first, second}})
	t.Logf("cost %v ms, profile %+v, drops %+v, delays %+v, locks %+v, unseen %+v", l.CostMS, l.Profile, l.Drops,
		l.Delays, l.Locks, l.Unseen)
	must.Need(t, l.Method == facts.ByTracepoints && len(l.Unseen) <= 0, "by %s, unseen %+v", l.Method, l.Unseen)
	reasons := map[string]uint64{}
	for _, d := range l.Drops {
		reasons[d.Reason+" "+d.Device] += d.Packets
		if d.Device == "v1" && d.Netns != second || d.Device == "v0" && d.Netns != first {
			t.Errorf("of the wrong namespace: %+v", d)
		}
	}
	full, closed := reasons["SOCKET_RCVBUFF v1"]+reasons["SOCKET_RCVBUFF "], reasons["NO_SOCKET v1"]
	must.Hold(t, alike(full, l.Sockets.ReceiveBuffer) && alike(closed, l.Sockets.NoPort),
		"drops %v, by the counters %d without room and %d without a socket", reasons, l.Sockets.ReceiveBuffer,
		l.Sockets.NoPort)
	waited := map[int]facts.WakeDelay{}
	for _, d := range l.Delays {
		waited[d.TID] = d
	}
	for tid, behind := range map[int]int{one: other, other: one} {
		d := waited[tid]
		if d.Waits == 0 || d.P99 < 500 || d.Max < d.P99 || d.P50 > d.P99 ||
			!strings.HasSuffix(d.Over, fmt.Sprintf("(%d)", behind)) && d.Over == "" {
			t.Errorf("thread %d waited %+v, expected behind %d", tid, d, behind)
		}
	}
	shares := map[string]float64{}
	for _, p := range l.Profile {
		shares[p.Stage] += p.Share
	}
	if shares["socket"] < 0.01 || shares["driver"]+shares["stack"] < 0.01 || shares["vhost"] > 0.1 {
		t.Errorf("profile: %v", shares)
	}
}

// alike reports whether two counts are equal within the difference that two readings at different times allow.
func alike(a, b uint64) bool {
	return float64(a) > 0.5*float64(b) && float64(a) < 2*float64(b) && b > 100
}

// TestLoadCost watches this machine and compares the cost with the CPU time of this process. Others that use the caches
// or the physical CPU meanwhile make the same work dearer, never cheaper: the cheapest interval is judged.
func TestLoadCost(t *testing.T) {
	m := treetest.Live(t)
	h := hostOf(t, m)
	const interval = 2 * time.Second
	w := Start(context.Background(), m, h, Options{Interval: interval})
	defer w.Close()
	told, used := 1.0, 1.0
	for range 5 {
		begun := threads.ProcessTime()
		l := w.Next(context.Background(), interval)
		all := (threads.ProcessTime() - begun).Seconds() / interval.Seconds()
		t.Logf("told %.4f, used %.4f of a CPU", l.CostMS/1e3/interval.Seconds(), all)
		if all < used {
			told, used = l.CostMS/1e3/interval.Seconds(), all
		}
	}
	if used > threads.Budget || told < used/4 {
		t.Errorf("it used %.4f of a CPU, and told of %.4f; expected at most %v", used, told, threads.Budget)
	}
}

// TestLoadOfSharedDevice has a macvlan in another namespace than the device that it is on.
func TestLoadOfSharedDevice(t *testing.T) {
	m := treetest.Live(t)
	first, second := twoSpaces(t)
	shared := func() (names []string) {
		l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: 100 * time.Millisecond, Counters: true,
			Netns: []string{first, second}})
		for _, d := range l.Devices {
			if d.Shared {
				names = append(names, d.Name)
			}
		}
		return names
	}
	if names := shared(); len(names) > 0 {
		t.Errorf("without a macvlan: found %v, expected none", names)
	}
	treetest.IP(t, "-n "+first+" link add mv0 link v0 netns "+second+" type macvlan", "-n "+second+" link set mv0 up")
	if names := shared(); !slices.Equal(names, []string{"v0"}) {
		t.Errorf("with a macvlan: found %v, expected v0", names)
	}
}

// TestLoadOfSlowReader has a TCP connection that nobody reads until its window closes, some times.
func TestLoadOfSlowReader(t *testing.T) {
	m := treetest.Live(t)
	first, second := twoSpaces(t)
	var from, to net.Conn
	must.Do(t, inNetns(second, func() error {
		l, err := net.Listen("tcp4", "198.18.0.2:5001")
		if err != nil {
			return err
		}
		defer l.Close()
		if err := inNetns(first, func() (err error) {
			from, err = net.Dial("tcp4", "198.18.0.2:5001")
			return err
		}); err != nil {
			return err
		}
		to, err = l.Accept()
		return err
	}))
	defer from.Close()
	defer to.Close()
	go func() {
		b := make([]byte, 1<<16)
		for {
			if _, err := from.Write(b); err != nil {
				return
			}
		}
	}()
	go func() {
		b := make([]byte, 4096)
		for {
			if _, err := to.Read(b); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	time.Sleep(time.Second)
	l := Observe(context.Background(), m, hostOf(t, m), Options{Interval: 2 * time.Second, Counters: true,
		Netns: []string{second}})
	if s := l.Sockets; s.WindowsClosed == 0 || len(s.Full) != 1 || s.Full[0].Port != 5001 || s.Full[0].Queued < 0.5 ||
		s.Full[0].PID != os.Getpid() {
		t.Errorf("found %+v, expected port 5001 of this process, and windows that were closed", s)
	}
}

// TestLossInNamespace: what a guest's namespace loses is the guest's, also beside a tap of the host with the same name;
// a namespace that goes away in the middle is reported.
func TestLossInNamespace(t *testing.T) {
	first, second := twoSpaces(t)
	treetest.IP(t, "-n "+first+" tuntap add tap0 mode tap", "-n "+first+" link set tap0 up")
	h := hostOf(t, treetest.Live(t))
	for i, name := range []string{first, second} {
		var st unix.Stat_t
		must.Do(t, unix.Stat("/run/netns/"+name, &st))
		h.Namespaces = append(h.Namespaces, facts.Namespace{ID: st.Ino, Name: name,
			Devices: []facts.Device{{Name: "tap0", Kind: "tap"}}})
		h.Guests = append(h.Guests, facts.Guest{Name: []string{"one", "two"}[i], State: "running", Elsewhere: true,
			Namespace: st.Ino, Interfaces: []facts.Interface{{MAC: name, Type: "tap", Tap: "tap0"}}})
	}
	if names := Spaces(h, "one"); !slices.Equal(names, []string{first}) {
		t.Fatalf("namespaces of guest one: %v", names)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w := Start(ctx, treetest.Live(t), h, Options{Netns: append([]string{""}, Spaces(h, "")...), Counters: true})
	flood(ctx, t, first, "198.18.0.2:9")
	l := w.Next(ctx, 300*time.Millisecond)
	if d := loadDevice(t, l, first, "tap0"); d.Guest != "one" || d.Kind != "tap" {
		t.Errorf("the tap: %+v", d)
	}
	if d := loadDevice(t, l, first, "v0"); d.Guest != "one" || d.TxPackets == 0 {
		t.Errorf("its pair: %+v", d)
	}
	if d := loadDevice(t, l, second, "v1"); d.Guest != "two" || d.RxPackets == 0 {
		t.Errorf("the other guest's: %+v", d)
	}
	h.Namespaces[1].ID++ // as if another had its name by now
	l = w.Next(ctx, 100*time.Millisecond)
	if !slices.ContainsFunc(l.Unseen, func(u facts.Unseen) bool { return strings.Contains(u.Why, "went away") }) {
		t.Errorf("unseen: %+v", l.Unseen)
	}
	must.Try(t, w.Close())
}
