//go:build netns

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// hostAndGuest are two namespaces of this test: a host with a bridge, and a guest on it with an agent.
type hostAndGuest struct {
	t           *testing.T
	host, guest string
	agent       string
}

func newHostAndGuest(t *testing.T) *hostAndGuest {
	base := "mb" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(time.Now().UnixNano()%1e5))
	h := &hostAndGuest{t: t, host: base + "h", guest: base + "g"}
	for _, ns := range []string{h.host, h.guest} {
		h.ip("netns", "add", ns)
		t.Cleanup(func() { h.ip("netns", "del", ns) })
		h.ip("-n", ns, "link", "set", "lo", "up")
	}
	h.ip("-n", h.host, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
	h.ip("-n", h.host, "address", "add", "10.50.0.1/24", "dev", "br0")
	h.ip("-n", h.host, "link", "set", "br0", "up")
	h.ip("-n", h.host, "link", "add", "tap0", "type", "veth", "peer", "name", "eth0", "netns", h.guest)
	h.ip("-n", h.host, "link", "set", "tap0", "master", "br0", "up")
	h.ip("-n", h.guest, "address", "add", "10.50.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "up")
	h.agent = h.startAgent(t, "10.50.0.2:0")
	return h
}

// startAgent starts an agent in the guest, without a secret, and returns its address.
func (h *hostAndGuest) startAgent(t *testing.T, listen string, flags ...string) string {
	t.Helper()
	return startAgent(t, append([]string{"ip", "netns", "exec", h.guest, "mpps", "agent", "--insecure-lab", "--listen",
		listen}, flags...)...)
}

func (h *hostAndGuest) ip(argv ...string) string {
	h.t.Helper()
	stdout := succeeds(h.t, append([]string{"ip"}, argv...)...)
	return stdout
}

// state is what a measurement could leave a trace in.
func (h *hostAndGuest) state() string {
	var text strings.Builder
	for _, ns := range []string{h.host, h.guest} {
		for line := range strings.Lines(h.ip("-n", ns, "-o", "link")) {
			// Whether a link runs is told late and is no trace.
			fields := strings.Fields(line)
			fmt.Fprintln(&text, ns, fields[1], strings.Contains(line, "xdp"), strings.Contains(line, "mtu 1500"),
				fields[len(fields)-3:])
		}
	}
	return text.String()
}

// stays requires that the state is as it was before.
func (h *hostAndGuest) stays(before string) {
	h.t.Helper()
	if after := h.state(); after != before {
		h.t.Errorf("left behind:\n%sfound before:\n%s", after, before)
	}
}

// benchmark is the command line that runs bench on the host.
func (h *hostAndGuest) benchmark(argv ...string) []string {
	return append([]string{"ip", "netns", "exec", h.host, "mpps", "--json", "bench"},
		append(argv, "--agent", h.agent, "--duration", "200ms", "--warm-up", "50ms", "--keep=false")...)
}

func checkLedger(t *testing.T, run *measure.Run) {
	t.Helper()
	must.Hold(t, run.Sent != 0 && run.Received != 0, "sent %d, received %d", run.Sent, run.Received)
	for i, s := range run.Samples {
		must.Hold(t, s.Sent == s.Received-s.Duplicated+s.Lost,
			"trial %d: sent %d, received %d, duplicated %d, lost %d", i+1, s.Sent, s.Received, s.Duplicated, s.Lost)
	}
}

// checkOpenLoop checks that a schedule was kept and its delays are given both ways.
func checkOpenLoop(t *testing.T, run *measure.Run) {
	t.Helper()
	due, sent := run.Latency, run.LatencyRaw
	if due == nil || sent == nil {
		t.Fatalf("delays %+v and %+v", due, sent)
	}
	if due.Loop != "open" || due.Since != "scheduled" || sent.Since != "sent" || due.Count != sent.Count ||
		due.MeanNs < sent.MeanNs {
		t.Errorf("%s loop since %s, %d of mean %g; since %s, %d of mean %g", due.Loop, due.Since, due.Count, due.MeanNs,
			sent.Since, sent.Count, sent.MeanNs)
	}
	for _, s := range run.Samples {
		if s.Due != 396 || s.Sent > s.Due { // 2000 a second for 200 ms but for the lead-in of 2 ms
			t.Errorf("%d due, %d sent", s.Due, s.Sent)
		}
	}
}

// A rate that the sender cannot keep is not the path's: it is marked, and ends in the exit code that says so.
func TestBenchRateTooHigh(t *testing.T) {
	h := newHostAndGuest(t)
	code, stdout, stderr := program(t, h.benchmark("rr", "--udp", "--rate", "20M", "--repeat", "1", "--timeout",
		"100ms")...)
	must.Need(t, code == outcome.CodeNotDevice, "exit code %d: %s", code, stderr)
	run := result(t, stdout)
	checkLedger(t, run)
	if s := run.Samples[0]; run.LimitedBy != measure.ByGenerator || s.Sent >= s.Due ||
		!strings.Contains(stdout, "rate-not-reached") {
		t.Errorf("limited by %s: sent %d of %d", run.LimitedBy, s.Sent, s.Due)
	}
}

// Far more connections are made than there are local ports: none is held by a connection that is over.
func TestBenchConnectsWithFewPorts(t *testing.T) {
	h := newHostAndGuest(t)
	h.ip("netns", "exec", h.host, "sysctl", "-q", "-w", "net.ipv4.ip_local_port_range=40000 40063")
	stdout := succeeds(t, h.benchmark("crr", "--repeat", "2")...)
	run := result(t, stdout)
	checkLedger(t, run)
	for _, s := range run.Samples {
		must.Hold(t, s.Transactions >= 3*64 && s.Latency != nil && s.Latency.Count == s.Transactions,
			"%d transactions, latency %+v", s.Transactions, s.Latency)
	}
	// Those that wait here are of the control connections, two a trial.
	waiting := strings.Count(h.ip("netns", "exec", h.host, "ss", "-Htan", "state", "time-wait"), "\n")
	there := strings.Count(h.ip("netns", "exec", h.guest, "ss", "-Htan", "state", "time-wait"), "\n")
	must.Hold(t, waiting <= 10 && there >= 64, "%d connections wait here and %d there", waiting, there)
}

// Requests that the path drops are lost, within their time, and the run says so.
func TestBenchLosesDatagrams(t *testing.T) {
	h := newHostAndGuest(t)
	// A datagram begins with its number: of 16 in a row one is dropped.
	for _, rule := range [][]string{
		{"table", "ip", "t"}, {"chain", "ip", "t", "c", "{ type filter hook input priority 0; }"},
		{"rule", "ip", "t", "c", "meta", "l4proto", "udp", "@th,64,8", "&", "0x0f", "==", "5", "drop"},
	} {
		h.ip(append([]string{"netns", "exec", h.guest, "nft", "add"}, rule...)...)
	}
	for _, argv := range [][]string{{"rr", "--udp"}, {"rr", "--udp", "--rate", "1k"}} {
		begin := time.Now()
		// A reply that waits for a CPU is not to count as lost.
		code, stdout, stderr := program(t, append(h.benchmark(append(argv, "--repeat", "1", "--timeout", "250ms")...),
			"--duration", "3s")...)
		if code != outcome.CodeOK && code != outcome.CodeNotDevice { // a busy machine sends late
			t.Fatalf("exit %d: %s", code, stderr)
		}
		run := result(t, stdout)
		checkLedger(t, run)
		if share := float64(run.Lost) / float64(run.Sent); share < 0.04 || share > 0.09 ||
			run.LimitedBy == measure.ByNothing || !strings.Contains(stdout, "were not answered within 250ms") ||
			time.Since(begin) > time.Minute {
			t.Errorf("%v: lost %d of %d, limited by %s, in %v: %v", argv, run.Lost, run.Sent, run.LimitedBy,
				time.Since(begin), run.Warnings)
		}
	}
}

// TestBenchUnanswered: where the connection is open and datagrams are too long for the far end there is no figure.
func TestBenchUnanswered(t *testing.T) {
	h := newHostAndGuest(t)
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1000")
	code, _, stderr := program(t, h.benchmark("rr", "--udp", "--request", "1400", "--repeat", "1", "--timeout",
		"100ms")...)
	must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, "was answered within 100ms") &&
		strings.Contains(stderr, "an MTU below 1428 bytes"), "exit %d: %s", code, stderr)
	if code, _, stderr := program(t, h.benchmark("rr", "--udp", "--request", "900", "--repeat", "1", "--timeout",
		"1s")...); code != outcome.CodeOK {
		t.Errorf("datagrams that fit: exit %d: %s", code, stderr)
	}
}

func TestBenchThroughBridge(t *testing.T) {
	t.Parallel() // it waits more than it works, and measures nothing that is compared
	h := newHostAndGuest(t)
	before := h.state()
	for _, argv := range [][]string{
		{"pps", "--via", "br0"},
		{"pps", "--via", "br0", "--generator", "af_packet"},
		{"pps", "--via", "br0", "--reverse"},
		{"pps", "--via", "br0", "--rate", "10k", "--frame", "1518", "--flows", "1"},
		{"pps", "--via", "br0", "--rate", "10k", "--reverse", "--guest-nic", "eth0"},
		{"pps", "--via", "br0", "--rate", "5k", "--two-way", "--imix"},
		{"rr"},
		{"rr", "--udp"},
		{"rr", "--rate", "2k", "--connections", "2"},
		{"rr", "--udp", "--rate", "2k"},
		{"crr", "--connections", "2"},
		{"stream", "--reverse"},
		{"stream", "--sendfile", "--connections", "3", "--ramp", "50ms"},
	} {
		t.Run(strings.Join(argv, " "), func(t *testing.T) {
			code, stdout, stderr := program(t, h.benchmark(append(argv, "--repeat", "2")...)...)
			// How fast generator and path are on a busy machine is not this test's business.
			if code != outcome.CodeOK && code != outcome.CodeNotDevice {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			run := result(t, stdout)
			if valid := code == outcome.CodeOK; run.Valid() != valid {
				t.Errorf("exit code %d, limited by %s", code, run.LimitedBy)
			}
			must.Hold(t, len(run.Samples) == 2 && !run.Partial, "%d samples, partial %v", len(run.Samples), run.Partial)
			if run.Kind != measure.Stream {
				checkLedger(t, run)
			}
			if run.Load.TwoWay && (len(run.Ways) != 2 || run.Ways[0].Received == 0 || run.Ways[1].Received == 0 ||
				run.Load.FrameBytes != 354) {
				t.Errorf("ways %+v, frames of %d bytes", run.Ways, run.Load.FrameBytes)
			}
			if run.Load.Rate > 0 && run.Kind == measure.RR {
				checkOpenLoop(t, run)
			}
			// Each direction has its ends named.
			if reverse := slices.Contains(argv, "--reverse"); run.Kind == measure.PPS && reverse &&
				(run.From.Interface != "eth0" || run.To.Via != "br0" || !strings.HasPrefix(run.From.Where, "agent ")) {
				t.Errorf("from %+v to %+v", run.From, run.To)
			}
			// Of 200 ms; a busy machine may end the trial late.
			if s := run.Samples[0]; run.Kind == measure.Stream &&
				(s.RampBytes == 0 || s.Bytes == 0 || s.Seconds > 2 || s.Seconds < 0.05) {
				t.Errorf("%d bytes behind a ramp of %d, in %g s", s.Bytes, s.RampBytes, s.Seconds)
			}
			h.stays(before)
		})
	}
	t.Run("in the form of another program", func(t *testing.T) {
		argv := slices.DeleteFunc(h.benchmark("rr", "--repeat", "2", "--format", "netperf", "-q"),
			func(word string) bool { return word == "--json" })
		code, stdout, stderr := program(t, argv...)
		must.Hold(t, code == outcome.CodeOK && stderr == "" &&
			strings.Contains(stdout, "\nTHROUGHPUT_UNITS=Trans/s\n") && strings.Contains(stdout, "\nP50_LATENCY="),
			"exit code %d, printed %q and %q", code, stdout, stderr)
	})
}

// someTrials waits until the port of a process has carried the frames of its warm-up and of some trials of 200.
func (h *hostAndGuest) someTrials(pid int) {
	h.t.Helper()
	carried, text := "/sys/class/net/mpps-"+strconv.Itoa(pid)+"b/statistics/rx_packets", ""
	await(h.t, func() bool {
		_, text, _ = program(h.t, "ip", "netns", "exec", h.host, "cat", carried)
		n, _ := strconv.Atoi(strings.TrimSpace(text))
		return n > 700
	}, func() string { return fmt.Sprintf("%s is %q", carried, text) })
}

// listens waits until a program of the guest has a TCP port.
func (h *hostAndGuest) listens(port int) {
	h.t.Helper()
	await(h.t, func() bool {
		return h.ip("netns", "exec", h.guest, "ss", "-Hltn", "sport", "=", strconv.Itoa(port)) != ""
	}, func() string { return fmt.Sprintf("nothing listens at port %d", port) })
}

// A run that is interrupted shows what it has; neither that one nor one that is killed leaves its port.
func TestBenchCutShort(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	before := h.state()
	// The signal reaches mpps: ip netns exec replaces itself by the program.
	started := func(argv ...string) *running {
		cmd := start(t, argv...)
		await(t, func() bool { return strings.Contains(h.state(), "mpps-") },
			func() string { return "no port was made" })
		return cmd
	}

	cmd := started(h.benchmark("pps", "--via", "br0", "--rate", "1k", "--repeat", "1000")...)
	h.someTrials(cmd.Process.Pid)
	must.Equal(t, cmd.end(t, os.Interrupt), outcome.CodeFailed, "interrupted: exit code")
	run := result(t, cmd.out.String())
	must.Hold(t, run.Partial && len(run.Samples) != 0, "partial %v, %d samples", run.Partial, len(run.Samples))
	checkLedger(t, run)
	h.stays(before)

	started(h.benchmark("pps", "--via", "br0", "--repeat", "1000")...).end(t, os.Kill)
	await(t, func() bool { return h.state() == before }, func() string {
		return fmt.Sprintf("a killed run left behind:\n%sfound before:\n%s", h.state(), before)
	})
	stdout := measures(t, h.benchmark("pps", "--via", "br0", "--repeat", "1")...)
	checkLedger(t, result(t, stdout))
	h.stays(before)
}

func TestBenchBadEnds(t *testing.T) {
	h := newHostAndGuest(t)
	before := h.state()
	for _, c := range []struct {
		argv []string
		code int
		want string
	}{
		{[]string{"pps", "--via", "no-such0"}, outcome.CodeUsage, "bridge no-such0"},
		{[]string{"pps", "--via", "tap0"}, outcome.CodeUsage, "tap0 is a veth, not a bridge"},
		{[]string{"pps", "--via", "br0", "--guest-nic", "eth7"}, outcome.CodeUsage, "has no interface eth7"},
		{[]string{"pps", "--via", "br0", "--frame", "63"}, outcome.CodeUsage, "expected 64 to 1518"},
		{[]string{"pps", "--from", "no-such0"}, outcome.CodeUsage, "no such interface"},
	} {
		code, stdout, stderr := program(t, h.benchmark(c.argv...)...)
		must.Hold(t, code == c.code && strings.Contains(stderr, c.want) && stdout == "",
			"%v: exit code %d, expected %d with %q: %s", c.argv, code, c.code, c.want, stderr)
	}
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "200")
	fails(t, "a frame over the guest's MTU", outcome.CodeUsage,
		h.benchmark("pps", "--via", "br0", "--frame", "219"), "need an MTU of 201")
	fails(t, "IMIX over the guest's MTU", outcome.CodeUsage,
		h.benchmark("pps", "--via", "br0", "--frame", "imix"), "need an MTU of 1500")
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1500")
	h.stays(before)
}

// An agent that dies midway ends the measurement with an error that says so, with what was measured until then, and the
// host as it was.
func TestBenchLosesItsAgent(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	before := h.state()
	doomed := exec.Command("ip", "netns", "exec", h.guest, "mpps", "agent", "--insecure-lab", "--listen",
		"10.50.0.2:7979")
	must.Do(t, doomed.Start())
	h.listens(7979)
	cmd := start(t, "ip", "netns", "exec", h.host, "mpps", "--json", "bench", "pps", "--via", "br0",
		"--agent", "10.50.0.2:7979", "--rate", "1k", "--warm-up", "50ms", "--duration", "200ms", "--repeat", "1000",
		"--keep=false")
	h.someTrials(cmd.Process.Pid)
	_ = doomed.Process.Kill()
	_ = doomed.Wait() // killed
	stderr := &cmd.problems
	if code := cmd.code(); code != outcome.CodeFailed || !strings.Contains(stderr.String(), "lost the agent") ||
		!strings.Contains(stderr.String(), "hint: ") {
		t.Errorf("exit code %d: %s", code, stderr.Bytes())
	}
	run := result(t, cmd.out.String())
	must.Hold(t, run.Partial && len(run.Samples) != 0, "partial %v, %d samples", run.Partial, len(run.Samples))
	checkLedger(t, run)
	h.stays(before)
}

// TestBenchSeveralAgents measures two guests at once: every frame of both is accounted for, a rate is divided between
// them, and as senders they are counted by one receiver.
func TestBenchSeveralAgents(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	second := h.newSecond()
	more := startAgent(t, "ip", "netns", "exec", second, "mpps", "agent", "--insecure-lab", "--listen", "10.50.0.3:0")
	before := h.state()
	pps := func(argv ...string) *measure.Run {
		t.Helper()
		argv = append([]string{"pps", "--via", "br0", "--more-agents", more, "--repeat", "2"}, argv...)
		stdout := measures(t, h.benchmark(argv...)...)
		return result(t, stdout)
	}
	run := pps("--rate", "20k", "--sink", "af_packet")
	checkLedger(t, run)
	for i, s := range run.Samples {
		if len(s.Ways) != 2 || s.Ways[0].Received == 0 || s.Ways[1].Received == 0 || len(s.CPU) != 3 ||
			max(s.Ways[0].Sent, s.Ways[1].Sent) > 3000 { // of 4000 at 20k for 200 ms, each is to have half
			t.Errorf("trial %d: %d sent, ways %+v, CPU times of %d machines", i+1, s.Sent, s.Ways, len(s.CPU))
		}
	}
	must.Hold(t, strings.Contains(run.To.Where, more), "the far end is %q", run.To.Where)
	run = pps("--reverse", "--generator", "fastest")
	must.Hold(t, run.Received != 0 && run.Environment.Generator == string(traffic.XDP) && len(run.Samples[0].CPU) == 3,
		"%d received by %q of %q", run.Received, run.Environment.Sink, run.Environment.Generator)
	fails(t, "both ways", outcome.CodeUsage,
		h.benchmark("pps", "--via", "br0", "--more-agents", more, "--two-way"), "--two-way")
	h.stays(before)
}
