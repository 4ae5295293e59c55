//go:build netns

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mpps/internal/measure/traffic"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// A hostileAgent passes the lines between a client and a true agent on, and changes them.
type hostileAgent struct {
	asked    func(line string) string // by the client
	answered func(line string) string
}

// start listens in a namespace and returns the address.
func (a hostileAgent) start(t *testing.T, netns, at, agent string) string {
	t.Helper()
	in := traffic.Endpoint{Netns: netns}
	var l net.Listener
	must.Do(t, in.Do(func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	}))
	t.Cleanup(func() { l.Close() })
	pass := func(to, from net.Conn, change func(string) string) {
		defer to.Close()
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if _, err := io.WriteString(to, change(lines.Text())+"\n"); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			var server net.Conn
			if in.Do(func() (err error) {
				server, err = net.Dial("tcp", agent)
				return err
			}) != nil {
				client.Close()
				continue
			}
			go pass(server, client, a.asked)
			go pass(client, server, a.answered)
		}
	}()
	return l.Addr().String()
}

func unchanged(line string) string { return line }

// mac returns the MAC address of an interface.
func (h *hostAndGuest) mac(netns, iface string) string {
	h.t.Helper()
	return strings.TrimSpace(h.ip("netns", "exec", netns, "cat", "/sys/class/net/"+iface+"/address"))
}

// withVictim adds another guest to the bridge, and lets the bridge learn where it is.
func (h *hostAndGuest) withVictim() (netns string) {
	netns = h.guest + "v"
	h.ip("netns", "add", netns)
	h.t.Cleanup(func() { h.ip("netns", "del", netns) })
	h.ip("-n", h.host, "link", "add", "tap1", "type", "veth", "peer", "name", "eth0", "netns", netns)
	h.ip("-n", h.host, "link", "set", "tap1", "master", "br0", "up")
	h.ip("-n", netns, "address", "add", "10.50.0.3/24", "dev", "eth0")
	h.ip("-n", netns, "link", "set", "eth0", "up")
	_, _, _ = program(h.t, "ip", "netns", "exec", netns, "mpps", "bench", "rr", "--agent", h.agent, "--duration",
		"50ms", "--warm-up", "0s", "--repeat", "1", "--keep=false")
	return netns
}

// TestHostileMAC: an agent that names the MAC address of another guest, of the host or of a group gets no traffic sent
// there.
func TestHostileMAC(t *testing.T) {
	h := newHostAndGuest(t)
	victim := h.withVictim()
	own := h.mac(h.guest, "eth0")
	for name, c := range map[string]struct {
		mac, want string
		code      int
	}{
		"another guest's": {h.mac(victim, "eth0"), "do not arrive at the agent", outcome.CodeFailed},
		"the host's":      {h.mac(h.host, "br0"), "has it itself", outcome.CodeFailed},
		"nobody's":        {"02:00:00:00:00:99", "does not know where that is", outcome.CodeFailed},
		"a group's":       {"01:00:5e:00:00:01", "sent to an Ethernet address", outcome.CodeUsage},
		"everybody's":     {"ff:ff:ff:ff:ff:ff", "sent to an Ethernet address", outcome.CodeUsage},
	} {
		a := hostileAgent{unchanged, func(line string) string { return strings.ReplaceAll(line, own, c.mac) }}
		hostile := *h
		hostile.agent = a.start(t, h.guest, "10.50.0.2:0", h.agent)
		argv := hostile.benchmark("pps", "--via", "br0", "--rate", "20k", "--repeat", "1")
		before := h.sent("tap1")
		code, stdout, stderr := program(t, argv...)
		must.Hold(t, code == c.code && strings.Contains(stderr, c.want) && stdout == "",
			"%s: exit code %d: %s", name, code, stderr)
		if n := h.sent("tap1") - before; n > 200 { // 4000 and more otherwise
			t.Errorf("%s: the other guest got %d packets", name, n)
		}
	}
}

// sent is how many packets an interface of the host has sent.
func (h *hostAndGuest) sent(iface string) uint64 { return h.statistic(iface, "tx_packets") }

// TestHostileAddress: an agent that names another host's address with --guest-nic has nothing sent there.
func TestHostileAddress(t *testing.T) {
	h := newHostAndGuest(t)
	victim := h.withVictim()
	var l net.Listener
	must.Do(t, traffic.Endpoint{Netns: victim}.Do(func() (err error) {
		l, err = net.Listen("tcp", "10.50.0.3:0")
		return err
	}))
	defer l.Close()
	var got atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(3 * time.Second))
				n, _ := io.Copy(io.Discard, c)
				got.Add(n)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	a := hostileAgent{
		asked: func(line string) string { return strings.ReplaceAll(line, "10.50.0.3", "10.50.0.2") },
		answered: func(line string) string {
			line = strings.ReplaceAll(line, "10.50.0.2/24", "10.50.0.3/24")
			if head, _, found := strings.Cut(line, `"addr":"10.50.0.2:`); found {
				line = head + `"addr":"10.50.0.3:` + port + `"}}`
			}
			return line
		},
	}
	address := a.start(t, h.guest, "10.50.0.2:0", h.agent)
	for _, what := range []string{"stream", "rr", "crr"} {
		code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "--json", "bench", what, "--agent",
			address, "--guest-nic", "eth0", "--duration", "1s", "--warm-up", "0s", "--repeat", "1", "--keep=false")
		must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, "does not belong to this test") &&
			stdout == "", "%s: exit code %d: %s%s", what, code, stderr, stdout)
	}
	if n := got.Load(); n > 3*100 {
		t.Errorf("the other guest was sent %d bytes", n)
	}
}

// TestAgentLimits: what an agent does not allow is refused, and the client says so.
func TestAgentLimits(t *testing.T) {
	h := newHostAndGuest(t)
	for name, c := range map[string]struct {
		limits, bench []string
		want          string
	}{
		"an interface": {[]string{"--iface", "eth1"}, []string{"pps", "--via", "br0", "--rate", "10k"},
			"interface eth0, and it was started with --iface [eth1]"},
		"a rate": {[]string{"--max-pps", "5k"}, []string{"pps", "--via", "br0", "--reverse", "--rate", "10k"},
			"10000 packets per second, and it was started with --max-pps 5000"},
		"a destination": {[]string{"--to", "10.50.0.0/24"},
			[]string{"pps", "--via", "br0", "--reverse", "--rate", "1k"},
			"and it was started with --to [10.50.0.0/24]"},
		"a client": {[]string{"--to", "10.51.0.0/24"}, []string{"stream"},
			"to 10.50.0.1, and it was started with --to"},
		"an address": {[]string{"--iface", "eth1"}, []string{"rr"}, "--iface [eth1]"},
		"none of these": {[]string{"--iface", "eth0", "--to", "198.18.0.0/15", "--max-pps", "50k"},
			[]string{"pps", "--via", "br0", "--reverse", "--rate", "2k"}, ""},
	} {
		limited := *h
		limited.agent = h.startAgent(t, "10.50.0.2:0", c.limits...)
		code, stdout, stderr := program(t, limited.benchmark(append(c.bench, "--repeat", "1")...)...)
		if c.want == "" {
			if code != outcome.CodeOK && code != outcome.CodeNotDevice {
				t.Errorf("%s: exit code %d: %s", name, code, stderr)
			}
			continue
		}
		must.Hold(t, code == outcome.CodeFailed && strings.Contains(stderr, c.want) &&
			strings.Count(stderr, "\n") == 2 && strings.Contains(stderr, "hint: the agent's --iface") && stdout == "",
			"%s: exit code %d: %s%s", name, code, stderr, stdout)
	}
}

// TestOtherControlLink: an agent whose control connection does not lead over the bridge shows that its interface does.
func TestOtherControlLink(t *testing.T) {
	h := newHostAndGuest(t)
	h.ip("-n", h.host, "link", "add", "ctl0", "type", "veth", "peer", "name", "ctl1", "netns", h.guest)
	h.ip("-n", h.host, "address", "add", "10.51.0.1/24", "dev", "ctl0")
	h.ip("-n", h.guest, "address", "add", "10.51.0.2/24", "dev", "ctl1")
	h.ip("-n", h.host, "link", "set", "ctl0", "up")
	h.ip("-n", h.guest, "link", "set", "ctl1", "up")
	h.agent = h.startAgent(t, "10.51.0.2:0")
	h.ip("-n", h.host, "link", "set", "tap0", "down") // which the bridge forgets it by
	h.ip("-n", h.host, "link", "set", "tap0", "up")
	stdout := measures(t, h.benchmark("pps", "--via", "br0", "--guest-nic", "eth0", "--rate", "10k",
		"--repeat", "1")...)
	checkLedger(t, result(t, stdout))
	// The interface that the control connection is at, which is not at the bridge.
	fails(t, "an interface elsewhere", outcome.CodeFailed,
		h.benchmark("pps", "--via", "br0", "--rate", "10k", "--repeat", "1"), "hint: ")
	measures(t, h.benchmark("pps", "--from", "netns:"+h.host+"/ctl0", "--rate", "10k", "--repeat", "1")...)
}

// absurd replaces the answers of a true agent to some verbs.
type absurd struct {
	mu    sync.Mutex
	verbs map[string]string             // of requests, by ID
	say   map[string]func(n int) string // by verb: the answer to the n-th request; empty: the true one
	asks  map[string]int
}

func (a *absurd) agent() hostileAgent {
	a.verbs, a.asks = map[string]string{}, map[string]int{}
	return hostileAgent{
		asked: func(line string) string {
			var r struct {
				ID   uint64 `json:"id"`
				Verb string `json:"verb"`
			}
			if json.Unmarshal([]byte(line), &r) == nil && r.Verb != "" {
				a.mu.Lock()
				a.verbs[strconv.FormatUint(r.ID, 10)] = r.Verb
				a.mu.Unlock()
			}
			return line
		},
		answered: func(line string) string {
			var r struct {
				ID     uint64          `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if json.Unmarshal([]byte(line), &r) != nil || len(r.Result) == 0 {
				return line
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			id := strconv.FormatUint(r.ID, 10)
			verb := a.verbs[id]
			say, lies := a.say[verb]
			if !lies {
				return line
			}
			a.asks[verb]++
			if text := say(a.asks[verb]); text != "" {
				return `{"id":` + id + `,"result":` + edited(r.Result, text) + `}`
			}
			return line
		},
	}
}

// edited returns an object with some fields of another, or the other if it is none.
func edited(object json.RawMessage, fields string) string {
	var all, some map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil || json.Unmarshal([]byte(fields), &some) != nil {
		return fields
	}
	maps.Copy(all, some)
	text, _ := json.Marshal(all)
	return string(text)
}

// TestAbsurdAnswers: what an agent answers costs its own measurement. It is refused in one line, or judged as what it
// is, within seconds and in bounded output, and nothing is left on the host.
func TestAbsurdAnswers(t *testing.T) {
	h := newHostAndGuest(t)
	always := func(text string) func(int) string { return func(int) string { return text } }
	many := func(n int, one func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, one(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	warnings := always(`{"warnings":` + many(100_000, func(i int) string {
		return strconv.Quote(strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h",
			"8", "i", "9", "j").Replace(strconv.Itoa(i)))
	}) + `}`)
	long := strconv.Quote(strings.Repeat("x", 700_000))
	pps := []string{"pps", "--via", "br0", "--rate", "5k", "--repeat", "1"}
	back := append(pps[:len(pps):len(pps)], "--reverse")
	const most = 1<<64 - 1
	for name, c := range map[string]struct {
		bench []string
		say   map[string]func(int) string
	}{
		"warnings without end":   {pps, map[string]func(int) string{"sink.counts": warnings}},
		"counts above all":       {pps, map[string]func(int) string{"sink.counts": always(`{"received":18446744073709551615}`)}},
		"more twice than at all": {pps, map[string]func(int) string{"sink.counts": always(`{"duplicated":18446744073709551615}`)}},
		"a negative count":       {pps, map[string]func(int) string{"sink.counts": always(`{"received":-1}`)}},
		"counts that go back": {pps, map[string]func(int) string{"sink.counts": func(n int) string {
			return `{"received":` + strconv.Itoa(1000-n%7) + `}`
		}}},
		"another mind each time": {pps, map[string]func(int) string{"sink.counts": func(n int) string {
			if n%2 == 0 {
				return `{"method":"none","received":0,"exact":true}`
			}
			return ""
		}}},
		"a host's name of 700 kB": {pps, map[string]func(int) string{"info": always(`{"host":` + long + `,"kernel":` + long + `}`)}},
		"65,536 CPUs": {pps, map[string]func(int) string{"cpu": func(n int) string {
			var text strings.Builder
			for i := range 15_000 {
				text.WriteString("cpu" + strconv.Itoa(i) + " " + strconv.Itoa(n) + " 0 0 0 0 0 0 0 0 0\n")
			}
			return strconv.Quote(text.String())
		}}},
		"100,000 counters": {pps, map[string]func(int) string{"counters": func(n int) string {
			return strings.NewReplacer("[", "{", "]", "}").Replace(many(50_000, func(i int) string {
				return `"rx_` + strconv.Itoa(i) + `_dropped":` + strconv.Itoa(i+n)
			}))
		}}},
		"a generator back in time": {back, map[string]func(int) string{
			"gen.wait": always(`{"sent":5,"done":true,"result":{"method":"af_packet","sent":5,"elapsed":-1,"slipped":-1,` +
				`"batch_delay":-1}}`)}},
		"a generator beyond numbers": {append(back, "--two-way")[:len(back)], map[string]func(int) string{
			"alone.generator": always(`{"pps":1e308}`), "alone.receiver": always(`{"pps":1e308,"sent":18446744073709551615,"elapsed":1}`)}},
		"no result": {back, map[string]func(int) string{"gen.wait": always(`{"result":null}`)}},
		"a server's bytes": {[]string{"stream", "--repeat", "1"}, map[string]func(int) string{
			"tcp.counts": func(n int) string { return `{"received":` + strconv.FormatUint(most>>(n%2), 10) + `}` }}},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := *h
			a := &absurd{say: c.say}
			hostile.agent = a.agent().start(t, h.guest, "10.50.0.2:0", h.agent)
			before, began := h.state(), time.Now()
			code, stdout, stderr := program(t, hostile.benchmark(c.bench...)...)
			took := time.Since(began)
			t.Logf("exit code %d after %v, %d and %d bytes: %.300s", code, took.Round(10*time.Millisecond), len(stdout),
				len(stderr), stderr)
			must.Hold(t, took <= time.Minute, "it took %v", took)
			must.Hold(t, len(stdout) <= 256<<10 && len(stderr) <= 4<<10,
				"%d bytes were printed, and %d of errors", len(stdout), len(stderr))
			if code == outcome.CodeOK && stdout == "" || strings.Contains(stderr, "unsupported value") {
				t.Errorf("exit code %d: %.300s", code, stderr)
			}
			if text := stdout; text != "" {
				run := result(t, text)
				for i, s := range run.Samples {
					if s.Seconds < 0 || s.PPS < 0 || s.PPS > 1e10 || s.SlippedNs > 1e15 || s.Received > 1e15 ||
						s.Duplicated > 1e15 || s.Bytes > 1e15 {
						t.Errorf("trial %d is taken for measured: %+v", i+1, s)
					}
				}
			}
			h.stays(before)
		})
	}
}
