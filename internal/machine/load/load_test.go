package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mpps/internal/machine/link"
	"os"
	"strings"
	"testing"
	"time"

	tc "github.com/vishvananda/netlink"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestCPUsBetween(t *testing.T) {
	before := map[int]cpu.Times{
		0: {User: 100, System: 50, SoftIRQ: 10, IRQ: 1, Guest: 40, Steal: 5, Idle: 1000},
		1: {User: 5, Idle: 100},
		2: {Idle: 100},
	}
	after := map[int]cpu.Times{
		// 40 − 20 of guests, 20, 10, 1, 20, 4, 25
		0: {User: 140, System: 70, SoftIRQ: 20, IRQ: 2, Guest: 60, Steal: 9, Idle: 1025},
		1: {User: 5, Idle: 100},
		3: {Idle: 5},
	}
	found := cpusBetween(before, after, []int{0, 1, 2, 3})
	must.Need(t, len(found) == 2 && found[1] == (facts.CPULoad{CPU: 1, Idle: 1}), "found %+v", found)
	must.Equal(t, found[0],
		facts.CPULoad{CPU: 0, User: 0.2, System: 0.2, Softirq: 0.1, IRQ: 0.01, Guest: 0.2, Steal: 0.04, Idle: 0.25},
		"found[0]")
}

func TestParseSNMP(t *testing.T) {
	found := link.ParseSNMP("Ip: Forwarding InReceives\nIp: 1 77\nUdp: InDatagrams NoPorts InErrors\nUdp: 12 3 " +
		"4\nUdpLite: InDatagrams\nUdpLite: 9\nTcpExt: SyncookiesSent ListenDrops\nTcpExt: 0 8\n")
	for name, want := range map[string]uint64{"Udp.InDatagrams": 12, "Udp.NoPorts": 3, "UdpLite.InDatagrams": 9,
		"TcpExt.ListenDrops": 8, "Ip.InReceives": 77} {
		must.Equal(t, found[name], want, "%s", name)
	}
}

func TestRawSockets(t *testing.T) {
	t.Parallel()
	s := socketLook{raw: map[uint32]udpLook{}}
	s.addRaw(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
   89: 00000000:0059 00000000:0000 07 00000000:00033F00 00:00000000 00000000     0        0 41 2 0000000000000000 17
`)
	if want := (udpLook{port: 89, drops: 17}); len(s.raw) != 1 || s.raw[41] != want {
		t.Errorf("found %+v, expected %+v of inode 41", s.raw, want)
	}
}

func TestGroupsOfThreads(t *testing.T) {
	two := cpuGroups{mount: "sys/fs/cgroup", unified: true}
	one := cpuGroups{mount: "sys/fs/cgroup/cpu"}
	const text = "4:cpu,cpuacct:/machine/vm1/vcpu0\n3:cpuset:/other\n0::/machine.slice/vm1.scope/libvirt/vcpu0\n"
	must.Equal(t, two.groupOf(text), "machine.slice/vm1.scope/libvirt/vcpu0", "version 2")
	must.Equal(t, one.groupOf(text), "machine/vm1/vcpu0", "version 1")
	must.Equal(t, parseThrottled("usage_usec 10\nnr_throttled 3\nthrottled_usec 2500\n"), 2500*time.Microsecond,
		"version 2")
	must.Equal(t, parseThrottled("nr_periods 4\nthrottled_time 2500000\n"), 2500*time.Microsecond, "version 1")
}

// TestLimits has a vCPU in its own group without a limit, below a guest's group with one.
func TestLimits(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{
		"sys/fs/cgroup/cgroup.controllers":                           "cpu\n",
		"sys/fs/cgroup/cgroup.procs":                                 "",
		"sys/fs/cgroup/machine.slice/cgroup.procs":                   "",
		"sys/fs/cgroup/machine.slice/cpu.max":                        "max 100000\n",
		"sys/fs/cgroup/machine.slice/vm1.scope/cgroup.procs":         "",
		"sys/fs/cgroup/machine.slice/vm1.scope/cpu.max":              "50000 100000\n",
		"sys/fs/cgroup/machine.slice/vm1.scope/cpu.stat":             "throttled_usec 700000\n",
		"sys/fs/cgroup/machine.slice/vm1.scope/libvirt/cgroup.procs": "",
		"proc/100/task/101/cgroup":                                   "0::/machine.slice/vm1.scope/libvirt/vcpu0\n",
		"proc/100/task/102/cgroup":                                   "0::/machine.slice/vm10.scope\n",
	})
	w := &Watch{tree: m, cgroups: findCPUGroups(m)}
	const group = "machine.slice/vm1.scope"
	must.Need(t, len(w.cgroups.limited) == 1 && w.cgroups.limited[0] == group, "limited: %v", w.cgroups.limited)
	before, after := fullLook{groups: map[string]groupLook{group: {0.5, 100 * time.Millisecond}}},
		fullLook{groups: w.readGroups()}
	in, out := facts.ThreadLoad{PID: 100, TID: 101}, facts.ThreadLoad{PID: 100, TID: 102}
	w.addLimits(&in, before, after, 2)
	w.addLimits(&out, before, after, 2)
	if in.Quota != 0.5 || in.Throttle < 0.299 || in.Throttle > 0.301 {
		t.Errorf("in the group: %+v", in)
	}
	must.Hold(t, out.Quota == 0 && out.Throttle == 0, "in another whose name begins alike: %+v", out)
}

// TestHaltPolling has two vCPUs, one of which was outside its guest three times as long as the other.
func TestHaltPolling(t *testing.T) {
	threads := []facts.ThreadLoad{
		{PID: 7, TID: 8, Role: "vcpu", Ran: 0.9}, {PID: 7, TID: 9, Role: "vcpu", Ran: 0.05},
		{PID: 7, TID: 7, Role: "emulator"}, {PID: 6, TID: 6, Role: "vcpu", Ran: 1},
	}
	before := kvmLook{counted: true, exits: 10, polled: 1e9, host: map[int]uint64{8: 10, 9: 10}}
	after := kvmLook{counted: true, exits: 1010, polled: 1.8e9, host: map[int]uint64{8: 40, 9: 20}}
	kvmBetween(threads, 7, before, after, 2)
	if threads[0].HaltPoll < 0.299 || threads[0].HaltPoll > 0.301 || threads[1].HaltPoll != 0.05 ||
		threads[2].Exits != 1000 || threads[3].HaltPoll != 0 {
		t.Errorf("found %+v", threads)
	}
	if n := hostTicks("8 (CPU 0/KVM) S 1 1 1 0 -1 0 0 0 0 0 300 200 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 " +
		"17 3 0 0 0 250 0 0 0"); n != 250 {
		t.Errorf("outside of the guest: %d, expected 300 + 200 − 250", n)
	}
}

// TestPollingNotCounted: polling that KVM does not count, or that cannot be read, is reported and not taken for zero.
func TestPollingNotCounted(t *testing.T) {
	files := map[string]string{"sys/kernel/debug/kvm/7-12/exits": "40\n",
		"sys/kernel/debug/kvm/7-12/halt_successful_poll": "3\n"}
	looked := func() kvmLook {
		w := &Watch{tree: treetest.Recorded(t, files), h: &facts.Host{Guests: []facts.Guest{{Name: "vm1", PID: 7}}}}
		return w.readKVM()[7]
	}
	k := looked()
	unseen := kvmUnseen("vm1", k)
	must.Hold(t, k.counted && k.exits == 40 && len(unseen) == 1 && strings.Contains(unseen[0].What, "vm1") &&
		strings.Contains(unseen[0].Why, "5.8"), "before 5.8: %+v, unseen %+v", k, unseen)
	files["sys/kernel/debug/kvm/7-12/halt_poll_success_ns"] = "100\n"
	files["sys/kernel/debug/kvm/7-12/halt_poll_fail_ns"] = "not a number\n"
	if unseen := kvmUnseen("vm1", looked()); len(unseen) != 1 {
		t.Errorf("one of two cannot be read: unseen %+v", unseen)
	}
	files["sys/kernel/debug/kvm/7-12/halt_poll_fail_ns"] = "20\n"
	if k := looked(); k.polled != 120 || kvmUnseen("vm1", k) != nil {
		t.Errorf("both are there: %+v, unseen %+v", k, kvmUnseen("vm1", k))
	}
}

// TestQdiscsMadeAnew: 32-bit counters wrap; those that fell were reset.
func TestQdiscsMadeAnew(t *testing.T) {
	const key = "0:1 8001:"
	between := func(before, after qdiscLook) facts.QdiscLoad {
		before.kind, after.kind = "fq_codel", "fq_codel"
		return qdiscsBetween(map[string]qdiscLook{key: before}, map[string]qdiscLook{key: after})[0]
	}
	for _, c := range []struct {
		what          string
		before, after uint32
		want          uint64
	}{
		{"grown", 100, 350, 250}, {"wrapped", math.MaxUint32 - 9, 40, 50}, {"recreated", 5000, 7, 7},
		{"recreated, nothing since", 5000, 0, 0},
	} {
		l := between(qdiscLook{packets: c.before, drops: c.before, over: c.before, requeue: c.before},
			qdiscLook{packets: c.after, drops: c.after, over: c.after, requeue: c.after})
		must.Hold(t, l.Packets == c.want && l.Drops == c.want && l.Overlimits == c.want && l.Requeues == c.want,
			"%s: %+v, expected %d", c.what, l, c.want)
	}
}

// TestFlowRates: fq limits each flow, unless its rate is all ones.
func TestFlowRates(t *testing.T) {
	for rate, want := range map[uint32]float64{12500: 100e3, math.MaxUint32: 0} {
		must.Equal(t, flowRateOf(&tc.Fq{FlowMaxRate: rate}), want, "%d: bit/s", rate)
	}
	must.Equal(t, flowRateOf(&tc.Tbf{Rate: 1000}), 0, "tbf limits no flow")
}

func TestQueuesOfInterrupts(t *testing.T) {
	d := facts.DeviceLoad{Name: "eth0", Queues: []facts.QueueLoad{{Direction: "rx", Index: 0},
		{Direction: "tx", Index: 0}, {Direction: "rx", Index: 1}}}
	n := facts.NIC{Name: "eth0", IRQs: []facts.IRQ{{Number: 40, On: "TxRx-0"}, {Number: 41, On: "rx-1"},
		{Number: 42, On: "config"}, {Number: 43, On: "input.2"}}}
	addQueueCPUs(&d, &n, []facts.IRQRun{{Number: 40, Counts: map[int]uint64{3: 10, 1: 2}},
		{Number: 41, Counts: map[int]uint64{2: 5}}, {Number: 43, Counts: map[int]uint64{0: 1}}})
	want := map[string]string{"rx0": "1,3", "tx0": "1,3", "rx1": "2", "rx2": "0"}
	for _, q := range d.Queues {
		key := q.Direction + string(rune('0'+q.Index))
		must.Hold(t, q.CPUs.String() == want[key], "%s: CPUs %s, expected %s", key, q.CPUs, want[key])
		delete(want, key)
	}
	must.Hold(t, len(want) <= 0, "missing %v", want)
}

// TestLoadOfRecorded: a recorded tree reports that nothing changes in it, and no list is null.
func TestLoadOfRecorded(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{"proc/stat": "cpu 1 2 3 4\n"})
	l := Observe(context.Background(), m, &facts.Host{Topology: facts.Topology{Online: setting.CPUs(0)}}, Options{})
	must.Hold(t, len(l.Unseen) == 1 && l.Devices != nil && l.Threads != nil && l.Softnet != nil && l.CPUs != nil,
		"found %+v", l)
}

// thisMachine is a guest with this machine's files; because is why they cannot be read.
type thisMachine struct{ because error }

func (thisMachine) Selected(guest string) bool { return guest != "vm3" }

func (m *thisMachine) Files(_ context.Context, _ string, names ...string) (map[string]string, error) {
	files := map[string]string{}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil {
			files[name] = string(text)
		}
	}
	return files, m.because
}

// TestLoadInside uses a guest that has this machine's counters, then cannot be reached any more.
func TestLoadInside(t *testing.T) {
	guest := &thisMachine{}
	h := &facts.Host{Guests: []facts.Guest{{Name: "vm1", Managed: true, State: "running"},
		{Name: "vm2", Managed: true, State: "shut off"}, {Name: "vm3", Managed: true, State: "running"}}}
	h.Guests[0].Inside = &facts.Inside{Host: &facts.Host{Readings: facts.Readings{setting.Of(setting.Service,
		"irqbalance"): setting.Value(systemd.Stopped)}}}
	w := &Watch{h: h, o: Options{Inside: guest}}
	before := w.readGuests(context.Background())
	time.Sleep(30 * time.Millisecond)
	after := w.readGuests(context.Background())
	l := &facts.Load{}
	w.guestsBetween(before, after, l)
	must.Need(t, len(l.Guests) == 1 && len(l.Unseen) <= 0, "found %+v, unseen %+v", l.Guests, l.Unseen)
	g := l.Guests[0]
	if g.Name != "vm1" || g.Seconds <= 0 || g.Seconds > 60 || len(g.CPUs) == 0 || len(g.Softnet) == 0 {
		t.Errorf("found %+v", g)
	}
	if runs, told := g.Service["irqbalance"]; runs || !told {
		t.Errorf("services: %v", g.Service)
	}
	guest.because = errors.New("no agent")
	l = &facts.Load{}
	w.guestsBetween(after, w.readGuests(context.Background()), l)
	must.Hold(t, len(l.Guests) == 0 && len(l.Unseen) == 1 &&
		l.Unseen[0] == (facts.Unseen{What: "the inside of guest vm1", Why: "no agent"}),
		"found %+v, unseen %+v", l.Guests, l.Unseen)
	w.o.Inside = nil
	if asked := w.readGuests(context.Background()); len(asked) > 0 {
		t.Errorf("nobody was to be asked: %+v", asked)
	}
}

func TestGuestBetween(t *testing.T) {
	g := &facts.Guest{Name: "vm1"}
	dev := func(packets, dropped string) map[string]map[string]uint64 {
		return parseNetDev("Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed " +
			"multicast|bytes packets errs drop fifo colls carrier compressed\n" +
			"    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 6000 " + packets + " 0 " + dropped +
			" 0 0 0 0 0 7 0 0 0 0 0 0\n")
	}
	irqs := func(n string) map[string]irq.Counts {
		return irq.ParseCPUCounts("           CPU0       CPU1\n 24:          5          0   PCI-MSI 1-edge      "+
			"virtio0-config\n 25:          "+n+"          0   PCI-MSI 2-edge      virtio1-input.0\n"+
			" 26:          0          "+n+"   PCI-MSI 3-edge      virtio1-output.0\n 27:          "+n+
			"          0   PCI-MSI 4-edge      virtio2-req.0\n", setting.CPUs(0, 1))
	}
	times := map[int]cpu.Times{0: {Idle: 1}, 1: {Idle: 1}}
	both := setting.CPUs(0, 1)
	found := guestBetween(g,
		guestLook{uptime: 10, times: times, devices: dev("100", "1"), irqs: irqs("1"), cpus: both},
		guestLook{uptime: 12.5, times: times, devices: dev("300", "4"), irqs: irqs("9"), cpus: both})
	must.Hold(t, found.Seconds == 2.5 && len(found.Devices) == 1 && found.Devices[0].RxPackets == 200 &&
		found.Devices[0].Counters["rx_dropped"] == 3, "found %+v", found)
	must.Hold(t, len(found.IRQs) == 2 && found.IRQs[0][0] == 8 && found.IRQs[1][1] == 8, "interrupts: %+v", found.IRQs)
}

// TestHostileCounters: what a guest reports of its counters costs time and memory in proportion, is refused where no
// guest has it, and can always be written as JSON.
func TestHostileCounters(t *testing.T) {
	cpus := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "cpu%d 1 1 1 1 1 1 1 1\n", i)
		}
		return b.String()
	}
	rows := func(n int) string {
		var b strings.Builder
		b.WriteString("CPU0 CPU4095\n")
		for i := range n {
			fmt.Fprintf(&b, "%d: 1 1\n", i)
		}
		return b.String()
	}
	devices := strings.Builder{}
	for i := range mostDevices + 1 {
		fmt.Fprintf(&devices, "d%d: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n", i)
	}
	for name, files := range map[string]map[string]string{
		"more CPUs than KVM has":      {"/proc/stat": cpus(mostCPUs + 1)},
		"a CPU below 0":               {"/proc/stat": "cpu-1 1 1 1 1 1 1 1 1\n"},
		"a CPU beyond all":            {"/proc/stat": "cpu9223372036854775807 1 1 1 1 1 1 1 1\n"},
		"rows of softirqs":            {"/proc/net/softnet_stat": strings.Repeat("1 1 1\n", mostCPUs+1)},
		"devices":                     {"/proc/net/dev": devices.String()},
		"up since no number":          {"/proc/uptime": "NaN 1\n"},
		"up for ever":                 {"/proc/uptime": "+Inf 1\n"},
		"up since before it was made": {"/proc/uptime": "-1 1\n"},
	} {
		if files["/proc/uptime"] == "" {
			files["/proc/uptime"] = "7.00 1\n"
		}
		must.Hold(t, parseGuest(files).why != nil, "%s: it is believed", name)
	}
	start := treetest.CPUTime(t)
	l := parseGuest(map[string]string{"/proc/uptime": "7.00 1\n", "/proc/stat": cpus(mostCPUs),
		"/proc/interrupts": rows(200_000)})
	must.Hold(t, l.why == nil && len(l.irqs) == 200_000 && len(l.irqs["7"].Counts) == 2, "%d interrupts, %v",
		len(l.irqs), l.why)
	l = parseGuest(map[string]string{"/proc/uptime": "7.00 1\n", "/proc/stat": cpus(mostCPUs),
		"/proc/interrupts": strings.Repeat("x ", 1_000_000)})
	took := treetest.CPUTime(t) - start
	must.Hold(t, l.why == nil && took < 5*time.Second, "%v, %v of CPU time", l.why, took)
	// two readings that differ by less than the kernel counts
	a := parseGuest(map[string]string{"/proc/uptime": "0 0\n"})
	b := parseGuest(map[string]string{"/proc/uptime": "5e-324 0\n"})
	must.Equal(t, a.uptime, b.uptime, "time")
}

func TestParseNUMAMaps(t *testing.T) {
	found := parseNUMAMaps("7f0000000000 bind:0 file=/dev/hugepages/x huge dirty=512 N0=384 N1=128 " +
		"kernelpagesize_kB=2048\n" +
		"7f8000000000 default anon=10 dirty=10 N1=10 kernelpagesize_kB=4\n7f9000000000 default file=/N0=5 mapmax=2\n")
	must.Hold(t, len(found) == 2 && found[0] == 384<<21 && found[1] == 128<<21+10<<12, "found %v", found)
}

// TestNarrow: figures of connections over a veth pair between two looks of 2 s (ss -tnmi), whose sender waited 94 % and
// 85 % of the time for the window (tcpi_rwnd_limited), and not at all.
func TestNarrow(t *testing.T) {
	for what, c := range map[string]struct {
		tcpLook
		want bool
	}{
		"4 kB":                       {tcpLook{buffer: 4608, window: 1448, rtt: 10, received: 45_671_870}, true},
		"16 kB":                      {tcpLook{buffer: 16384, window: 11737, rtt: 9, received: 535_133_320}, true},
		"64 kB":                      {tcpLook{buffer: 65536, window: 57614, rtt: 11, received: 2_247_742_496}, true},
		"the sender has 1 Mbit/s":    {tcpLook{buffer: 4608, window: 1448, rtt: 19, received: 250_000}, false},
		"a buffer that grew":         {tcpLook{buffer: 33554432, window: 30014278, rtt: 37, received: 2_795_500_486}, false},
		"a kernel that tells little": {tcpLook{buffer: 4608, received: 45_671_870}, false},
	} {
		must.Equal(t, c.narrow(tcpLook{}, 2), c.want, "%s", what)
	}
}
