//go:build netns

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// received is how many bytes an interface of the host has received.
func (h *hostAndGuest) received(iface string) uint64 { return h.statistic(iface, "rx_bytes") }

// statistic returns a counter of an interface of the host, by its name in sysfs.
func (h *hostAndGuest) statistic(iface, name string) uint64 {
	h.t.Helper()
	text := h.ip("netns", "exec", h.host, "cat", "/sys/class/net/"+iface+"/statistics/"+name)
	n := must.Get(strconv.ParseUint(strings.TrimSpace(text), 10, 64))(h.t)
	return n
}

// TestControlConnectionIsCut cuts the link of a control connection, of which neither side is notified: the agent stops
// sending within 2 s, and not only when its trial ends.
func TestControlConnectionIsCut(t *testing.T) {
	for _, what := range []string{"stream", "pps"} {
		t.Run(what, func(t *testing.T) {
			h := newHostAndGuest(t)
			h.ip("-n", h.host, "link", "add", "ctl0", "type", "veth", "peer", "name", "ctl1", "netns", h.guest)
			h.ip("-n", h.host, "address", "add", "10.51.0.1/24", "dev", "ctl0")
			h.ip("-n", h.guest, "address", "add", "10.51.0.2/24", "dev", "ctl1")
			h.ip("-n", h.host, "link", "set", "ctl0", "up")
			h.ip("-n", h.guest, "link", "set", "ctl1", "up")
			control := h.startAgent(t, "10.51.0.2:0")
			argv := []string{"netns", "exec", h.host, "mpps", "bench", what, "--agent", control, "--guest-nic", "eth0",
				"--reverse",
				"--duration", "60s", "--warm-up", "0s", "--repeat", "1", "--keep=false"}
			if what == "pps" {
				argv = append(argv, "--via", "br0", "--rate", "20k")
			}
			cmd := exec.Command("ip", argv...)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			must.Do(t, cmd.Start())
			t.Cleanup(func() {
				_ = cmd.Process.Signal(os.Interrupt)
				_ = cmd.Wait()
				if t.Failed() {
					t.Logf("it printed: %s", said.Bytes())
				}
			})
			rate := func() uint64 { // bytes in 200 ms
				before := h.received("tap0")
				time.Sleep(200 * time.Millisecond)
				return h.received("tap0") - before
			}
			for deadline := time.Now().Add(time.Minute); ; {
				if a, b := rate(), rate(); a > 20e3 && b > 20e3 {
					break
				}
				must.Need(t, !time.Now().After(deadline), "no traffic was seen")
			}
			h.ip("-n", h.guest, "link", "set", "ctl1", "down")
			cut := time.Now()
			for rate() > 10e3 {
				must.Need(t, time.Since(cut) <= 10*time.Second,
					"the agent still sends 10 s after its control connection was cut")
			}
		})
	}
}

// TestBenchSourceMACs: a bridge learns as many source MAC addresses as were asked for, all of one flow, and every frame
// arrives; XDP, which sends from one, is refused.
func TestBenchSourceMACs(t *testing.T) {
	h := newHostAndGuest(t)
	sender := h.guest + "s"
	h.ip("netns", "add", sender)
	t.Cleanup(func() { h.ip("netns", "del", sender) })
	h.ip("-n", h.host, "link", "add", "p0", "type", "veth", "peer", "name", "s0", "netns", sender)
	h.ip("-n", h.host, "link", "set", "p0", "master", "br0", "up")
	h.ip("-n", sender, "link", "set", "s0", "up")
	bench := func(more ...string) (int, string, string) {
		return program(t, append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "pps", "--from",
			"netns:" + sender + "/s0", "--agent", h.agent, "--flows", "1", "--rate", "2k", "--duration", "500ms",
			"--repeat", "3", "--keep=false"}, more...)...)
	}
	for _, macs := range []string{"1", "8"} {
		code, stdout, stderr := bench("--source-macs", macs)
		var got struct{ Result measure.Run }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 && code != 5 {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		if r := got.Result; r.Received == 0 || r.Lost > r.Sent/10 || r.Load.SourceMACs != map[string]int{"8": 8}[macs] {
			t.Errorf("%s: sent %d, lost %d, load %+v", macs, r.Sent, r.Lost, r.Load)
		}
		learned := 0
		_, table, _ := program(t, "bridge", "-n", h.host, "fdb", "show", "br", "br0", "dev", "p0")
		for line := range strings.Lines(table) {
			if !strings.Contains(line, "permanent") {
				learned++
			}
		}
		if want := map[string]int{"1": 1, "8": 8}[macs]; learned != want {
			t.Errorf("the bridge learned %d addresses, expected %d:\n%s", learned, want, table)
		}
	}
	if code, _, stderr := bench("--source-macs", "8", "--generator", "xdp"); code == 0 ||
		!strings.Contains(stderr, "one MAC address") {
		t.Errorf("with XDP: exit code %d, %s", code, stderr)
	}
}

// newForwarding is a host with two bridges and a guest with a NIC in each.
func newForwarding(t *testing.T) *hostAndGuest {
	base := "mf" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	h := &hostAndGuest{t: t, host: base + "h", guest: base + "g"}
	for _, ns := range []string{h.host, h.guest} {
		h.ip("netns", "add", ns)
		t.Cleanup(func() { h.ip("netns", "del", ns) })
		h.ip("-n", ns, "link", "set", "lo", "up")
	}
	for i := range 2 {
		n := strconv.Itoa(i)
		h.ip("-n", h.host, "link", "add", "br"+n, "type", "bridge", "forward_delay", "0")
		h.ip("-n", h.host, "link", "add", "tap"+n, "type", "veth", "peer", "name", "eth"+n, "netns", h.guest)
		h.ip("-n", h.host, "link", "set", "tap"+n, "master", "br"+n, "up")
		h.ip("-n", h.host, "link", "set", "br"+n, "up")
		h.ip("-n", h.guest, "link", "set", "eth"+n, "up")
	}
	return h
}

// forward runs bench pps --forward on the host.
func (h *hostAndGuest) forward(argv ...string) (code int, stdout, stderr string) {
	return program(h.t, append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench", "pps", "--forward",
		"--duration", "200ms", "--warm-up", "100ms", "--repeat", "2", "--rate", "20k", "--keep=false"}, argv...)...)
}

// arrived checks a run whose packets came through, all but those that a busy machine dropped.
func (h *hostAndGuest) arrived(argv ...string) {
	h.t.Helper()
	code, stdout, stderr := h.forward(argv...)
	if code != outcome.CodeOK && code != outcome.CodeNotDevice {
		h.t.Fatalf("%v: exit code %d: %s", argv, code, stderr)
	}
	run := result(h.t, stdout)
	checkLedger(h.t, run)
	must.Hold(h.t, run.Received >= run.Sent/2 && run.Latency != nil,
		"%v: sent %d, received %d: %+v", argv, run.Sent, run.Received, run.Losses)
	must.Try(h.t, validate("mpps.bench-pps.1", stdout))
}

func TestBenchThroughRouter(t *testing.T) {
	t.Parallel()
	h := newForwarding(t)
	h.ip("-n", h.guest, "address", "add", "198.18.0.254/24", "dev", "eth0")
	h.ip("-n", h.guest, "address", "add", "198.19.0.254/24", "dev", "eth1")
	h.ip("netns", "exec", h.guest, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	before := h.state()
	h.arrived("--via", "br0", "--out", "br1", "--gateway", "198.18.0.254")
	h.arrived("--via", "br0", "--out", "br1", "--gateway", "198.19.0.254", "--reverse")
	mac := strings.TrimSpace(h.ip("netns", "exec", h.guest, "cat", "/sys/class/net/eth0/address"))
	h.arrived("--via", "br0", "--out", "br1", "--gateway-mac", mac, "--generator", "af_packet", "--sink", "af_packet")
	code, _, stderr := h.forward("--via", "br0", "--out", "br1", "--gateway", "198.18.0.99")
	must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, "answers for 198.18.0.99") &&
		strings.Contains(stderr, "hint: "), "nobody is asked for: exit code %d: %s", code, stderr)
	h.stays(before)
	// The receiver answers for its address only while it counts.
	if table := h.ip("-n", h.guest, "neighbour", "show", "dev", "eth1", "198.19.0.1"); !strings.Contains(table,
		"fe:6d:70") {
		t.Errorf("the router's neighbour is %q, expected the receiving end", table)
	}
}

func TestBenchThroughGuestsBridge(t *testing.T) {
	t.Parallel()
	h := newForwarding(t)
	h.ip("-n", h.guest, "link", "add", "br2", "type", "bridge", "forward_delay", "0")
	h.ip("-n", h.guest, "link", "set", "br2", "up")
	for _, nic := range []string{"eth0", "eth1"} {
		h.ip("-n", h.guest, "link", "set", nic, "master", "br2")
	}
	h.arrived("--via", "br0", "--out", "br1")
	h.arrived("--via", "br0", "--out", "br1", "--two-way")
	// Between interfaces, which the bridges of the host lead to.
	for _, i := range []string{"0", "1"} {
		h.ip("-n", h.host, "link", "add", "end"+i, "type", "veth", "peer", "name", "port"+i)
		h.ip("-n", h.host, "link", "set", "port"+i, "master", "br"+i, "up")
		h.ip("-n", h.host, "link", "set", "end"+i, "up")
	}
	h.arrived("--from", "end0", "--out", "br1")
	h.arrived("--from", "end0", "--to", "end1", "--reverse")
}

// TestAgentSendsOnEveryQueue: an agent behind a NIC of four queues sends by one worker for each, on a dedicated CPU,
// so that several queues of the host's end carry packets; with --cpus 0 one does, and the step of acceptance says so.
func TestAgentSendsOnEveryQueue(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	h := newHostAndGuest(t)
	h.ip("-n", h.host, "link", "del", "tap0")
	h.ip("-n", h.host, "link", "add", "tap0", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name",
		"eth0", "numtxqueues", "4", "numrxqueues", "4", "netns", h.guest)
	h.ip("-n", h.host, "link", "set", "tap0", "master", "br0", "up")
	h.ip("-n", h.guest, "address", "add", "10.50.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "up")
	step := &acceptance.Step{ID: "met", Gives: acceptance.Watched, Queues: 2}
	// A veth records no queue for live frames: see TestWorkersTakeQueues of package traffic.
	for cpus, several := range map[string]bool{"": true, "0": false} {
		argv := h.benchmark("pps", "--via", "br0", "--reverse", "--generator", "af_packet", "--repeat", "1000")
		argv[slices.Index(argv, "200ms")] = "1s"
		if cpus != "" {
			argv = append(argv, "--cpus", cpus)
		}
		load := exec.Command(argv[0], argv[1:]...)
		var said bytes.Buffer
		load.Stderr = &said
		must.Do(t, load.Start())
		o := h.watch(t, step)
		_ = load.Process.Signal(os.Interrupt)
		_ = load.Wait() // it was interrupted
		carried, have := acceptance.TapQueues(o.Paths[step.ID])
		t.Logf("--cpus %q: %d of %d queues", cpus, carried, have)
		var short *acceptance.QueueError
		err := o.CheckQueues(step)
		if several && (err != nil || carried < 2 || have != 4) {
			t.Errorf("%d of %d queues, %v: %s", carried, have, err, said.String())
		}
		if !several && (!errors.As(err, &short) || short.Carried != 1) {
			t.Errorf("on CPU %s: %d of %d queues, %v", cpus, carried, have, err)
		}
	}
}

// watch watches the host's queues until the load has come.
func (h *hostAndGuest) watch(t *testing.T, step *acceptance.Step) *acceptance.Outcomes {
	t.Helper()
	o := &acceptance.Outcomes{}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		stdout := succeeds(t, "ip", "netns", "exec", h.host, "mpps", "--json", "path", "--for", "1s")
		must.Do(t, o.Add(step.ID, step.Gives, []byte(stdout)))
		var packets uint64
		for _, r := range o.Paths[step.ID].Rows {
			if r.First() && r.Origin.Device == "tap0" {
				packets += r.Packets
			}
		}
		if packets > 1000 {
			break
		}
	}
	return o
}

// searched runs a search on the host of a test and returns its answer and exit code.
func (h *hostAndGuest) searched(argv ...string) (*measure.Search, int, string) {
	h.t.Helper()
	code, stdout, stderr := program(h.t,
		append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "search", "--keep=false"}, argv...)...)
	if stdout == "" {
		return nil, code, stderr
	}
	must.Try(h.t, validate("mpps.search.1", stdout))
	var answer struct{ Result measure.Search }
	must.Do(h.t, json.Unmarshal([]byte(stdout), &answer))
	return &answer.Result, code, stderr
}

// TestSearchIntoGuest searches through a bridge into a guest's namespace. A policer drops what is above a rate: a
// device of a known capacity.
func TestSearchIntoGuest(t *testing.T) {
	h := newHostAndGuest(t)
	for _, rule := range [][]string{
		{"table", "bridge", "t"}, {"chain", "bridge", "t", "c", "{ type filter hook forward priority 0; }"},
		{"rule", "bridge", "t", "c", "ether", "type", "ip", "ip", "saddr", "198.18.0.0/15", "limit", "rate", "over",
			"10000/second", "burst", "200", "packets", "counter", "drop"},
	} {
		h.ip(append([]string{"netns", "exec", h.host, "nft", "add"}, rule...)...)
	}
	before := h.state()
	s, code, stderr := h.searched("--via", "br0", "--agent", h.agent, "--max-pps", "40k", "--budget", "6s")
	if s == nil {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if s.Trials == 0 || len(s.Tried) != s.Trials || s.Baseline.Generator == nil || s.Baseline.Receiver == nil {
		t.Fatalf("%+v", s)
	}
	// A machine under other load sends in bursts or late, and the search says so; else only much more or much less than
	// what the policer lets through would be a mistake.
	if !s.Valid() || s.LimitedBy == string(measure.ByUnknown) {
		must.Hold(t, len(s.Evidence) != 0, "limited by %s, and nothing says why", s.LimitedBy)
	} else if lower := s.NDR.LowerPPS; lower == nil || *lower < 5000 || *lower > 12000 {
		t.Errorf("NDR %+v, expected some 10000", s.NDR)
	}
	for _, tried := range s.Tried {
		must.Hold(t, tried.Outcome.Received <= tried.Outcome.Sent && tried.Outcome.Sent != 0, "%+v", tried)
	}
	h.stays(before)
	// Nothing is asked of a path whose ends cannot be had.
	if s, code, stderr := h.searched("--via", "br0", "--agent", "10.50.0.2:1"); s != nil || code != outcome.CodeFailed {
		t.Errorf("no agent: exit %d, %s", code, stderr)
	}
	if s, code, stderr := h.searched("--via", "br0", "--agent", h.agent, "--frame", "1519"); s != nil ||
		code != outcome.CodeUsage {
		t.Errorf("frames over the MTU: exit %d, %s", code, stderr)
	}
}

// TestSearchSizes searches at two frame sizes over one path and leaves it as it was.
func TestSearchSizes(t *testing.T) {
	h := newHostAndGuest(t)
	before := h.state()
	code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "--json", "search", "--keep=false",
		"--via", "br0", "--agent", h.agent, "--sizes", "1518,64", "--line-rate", "100M", "--budget", "3s")
	must.Need(t, stdout != "", "exit %d: %s", code, stderr)
	must.Try(t, validate("mpps.search-sizes.1", stdout))
	var answer struct{ Result measure.Sizes }
	must.Do(t, json.Unmarshal([]byte(stdout), &answer))
	found := answer.Result.Searches
	must.Need(t, len(found) == 2 && !answer.Result.Partial,
		"exit %d, %d sizes, partial %t: %s", code, len(found), answer.Result.Partial, stderr)
	for i, size := range []int{1518, 64} {
		full := 100e6 / measure.WireBits(1, size)
		if s := found[i]; s.FrameBytes != size || s.Trials == 0 || s.MaxPPS < full*0.999 || s.MaxPPS > full*1.001 {
			t.Errorf("frames of %d bytes: %d trials of %d bytes up to %.0f pps, expected up to %.0f", size, s.Trials,
				s.FrameBytes, s.MaxPPS, full)
		}
	}
	h.stays(before)
}
