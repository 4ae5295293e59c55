//go:build netns

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
)

// TestAcceptanceModes carries an experiment out with real traffic, is interrupted in the middle of its campaign, and
// goes on with the samples that were taken.
func TestAcceptanceModes(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	second := h.newSecond()
	before := h.state()
	dir := filepath.Join(t.TempDir(), "report")
	samples := filepath.Join(dir, "modes-1", "modes.jsonl")
	mpps := func(argv ...string) []string {
		return append([]string{"ip", "netns", "exec", h.host, "mpps", "acceptance", "modes", "-o", dir}, argv...)
	}
	argv := mpps("--short", "--mode", "native="+h.agent+",via=br0", "--mode", "vf="+h.agent+",from=netns:"+second+
		"/eth0,guest-nic=eth0")
	out, _ := interrupt(t, argv, samples, 4)
	must.Contain(t, out, "interrupted in step modes")
	taken := linesIn(samples) - 1
	argv = mpps("--resume")
	stdout := succeeds(t, argv...)
	p, r, m := modesIn(t, dir)
	must.Hold(t, r.State == acceptance.Done && len(p.Runs) == 1 && m != nil && m.Samples == 18 && !m.Partial &&
		len(m.Order) >= taken,
		"%s, %d runs, campaign %+v, %d samples were taken before", r.State, len(p.Runs), m, taken)
	measured := 0
	for _, f := range r.Figures {
		if strings.HasPrefix(f.ID, "modes.vf-") && f.Measured != nil && f.Measured.N == 3 && f.Measured.Value > 0 &&
			f.Founding != nil {
			measured++
		}
	}
	must.Hold(t, measured == 3 && strings.Contains(stdout, "vf: TCP stream out of the guest against native"),
		"%d figures of the second mode were measured:\n%s", measured, stdout)
	must.Try(t, wide(stdout, 80))
	if page, err := os.ReadFile(filepath.Join(dir, accept.HTML)); err != nil || !bytes.Contains(page, []byte("99.63")) {
		t.Errorf("the page has %d bytes: %v", len(page), err)
	}
	h.stays(before)
}

// modesIn returns a report, its last run of the experiment modes, and that run's campaign; nil if it has none.
func modesIn(t *testing.T, dir string) (*accept.Report, *acceptance.Run, *measure.Modes) {
	t.Helper()
	p := must.Get(accept.Open(dir))(t)
	r := p.Last("modes")
	o := must.Get(accept.Outcomes(r))(t)
	return p, r, o.Modes["modes"]
}

// TestAcceptanceModesByEngine: iperf3 makes the streams of the campaign both ways, from the namespace that a mode
// names; figures for the founding direction are judged, those for the other are reported.
func TestAcceptanceModesByEngine(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed: scripts/deps test does that")
	}
	t.Parallel()
	h := newHostAndGuest(t)
	second := h.newSecond()
	dir := filepath.Join(t.TempDir(), "report")
	argv := []string{"ip", "netns", "exec", h.host, "mpps", "acceptance", "modes", "-o", dir, "--engine", "iperf3",
		"--trials", "2x1s", "--mode", "native=" + h.agent + ",via=br0", "--mode", "vf=" + h.agent + ",from=netns:" +
			second + "/eth0,guest-nic=eth0"}
	if code, stdout, stderr := program(t, argv...); code != outcome.CodeFailed ||
		!strings.Contains(stdout+stderr, "iperf3 -s") {
		t.Errorf("without a server: exit code %d: %s%s", code, stdout, stderr)
	}
	server := exec.Command("ip", "netns", "exec", h.guest, "iperf3", "-s")
	must.Do(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
	}()
	h.listens(5201)
	succeeds(t, argv...)
	_, r, m := modesIn(t, dir)
	if m == nil || m.Samples != 8 || len(m.Runs) != 4 {
		t.Fatalf("campaign %+v", m)
	}
	for i, run := range m.Runs {
		from := map[string]string{"native": "host", "vf": "netns:" + second}[run.Name]
		must.Hold(t, strings.HasPrefix(run.Environment.Engine, "iperf3 ") && run.Samples[0].Bytes != 0 &&
			run.From.Where == from,
			"row %d by %q from %+v: %d bytes", i, run.Environment.Engine, run.From, run.Samples[0].Bytes)
	}
	reasons := map[string]string{}
	for _, f := range r.Figures {
		for _, why := range f.Reasons {
			reasons[f.ID] += why.Code + " "
		}
		if f.Measured != nil && f.Measured.Tool != "iperf3" {
			t.Errorf("%s measured by %s", f.ID, f.Measured.Tool)
		}
	}
	if !strings.Contains(reasons["modes.vf-stream"], "other-direction") ||
		strings.Contains(reasons["modes.vf-stream-out"], "other-direction") ||
		!strings.Contains(reasons["modes.vf-stream-out"], "other-tool") ||
		!strings.Contains(reasons["modes.vf-rr"], "not-measured") {
		t.Errorf("reasons %v", reasons)
	}
}

// TestAcceptancePlanted: what is named and is not there, or is another thing than it seems, is found before anything is
// measured: no step has run, and each point has its own reason.
func TestAcceptancePlanted(t *testing.T) {
	t.Parallel()
	h := newHostAndGuest(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("sixteen bytes of it"), 0o600))
	guarded := startAgent(t, "ip", "netns", "exec", h.guest, "mpps", "agent", "--secret-file", secret, "--listen",
		"10.50.0.2:0")
	var open net.Listener
	must.Do(t, traffic.Endpoint{Netns: h.guest}.Do(func() (err error) {
		open, err = net.Listen("tcp", "10.50.0.2:0")
		return err
	}))
	defer open.Close()
	second := h.newSecond()
	h.ip("-n", second, "address", "add", "10.77.0.3/24", "dev", "eth0")
	h.ip("-n", h.guest, "address", "add", "10.77.0.2/24", "dev", "eth0")
	beyond := h.startAgent(t, "10.77.0.2:0")
	h.ip("-n", h.host, "link", "add", "down0", "type", "veth", "peer", "name", "down1")
	before := h.state()
	for name, c := range map[string]struct {
		native string
		code   string // of the check that fails; empty: none
	}{
		"as it should be":                {h.agent + ",via=br0", ""},
		"reached from another namespace": {beyond + ",from=netns:" + second + "/eth0", ""},
		"not reached from this one":      {beyond + ",via=br0", "agent-silent"},
		"no such interface":              {h.agent + ",from=nosuch0", "link"},
		"an interface that is down":      {h.agent + ",from=down0", "link"},
		"no such namespace":              {h.agent + ",from=netns:nosuch/eth0", "link agent-silent"},
		"a bridge that is none":          {h.agent + ",via=tap0", "link"},
		"an open port":                   {open.Addr().String() + ",via=br0", "agent-silent"},
		"nobody":                         {"10.50.0.9:7878,via=br0", "agent-silent"},
		"an agent with a secret":         {guarded + ",via=br0", "agent-silent"},
		"no such guest's interface":      {h.agent + ",via=br0,guest-nic=nosuch0", "agent-silent"},
	} {
		dir := filepath.Join(t.TempDir(), "report")
		argv := []string{"ip", "netns", "exec", h.host, "mpps", "--json", "acceptance", "modes", "--short", "-o", dir,
			"--mode", "native=" + c.native}
		if c.code == "" {
			argv = append(argv, "--dry-run")
		}
		code, stdout, stderr := program(t, argv...)
		var answer struct {
			Result struct {
				Runs []struct {
					Checks []acceptance.Check    `json:"checks"`
					Steps  []acceptance.StepDone `json:"steps"`
				} `json:"runs"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Result.Runs) != 1 {
			t.Errorf("%s: exit code %d, %v: %s%s", name, code, err, stdout, stderr)
			continue
		}
		var failed []string
		for _, check := range answer.Result.Runs[0].Checks {
			if !check.OK {
				failed = append(failed, check.Code)
				t.Logf("%s: %s (%s)", name, check.Why, check.Hint)
			}
		}
		want := map[bool]int{true: outcome.CodeOK, false: outcome.CodeNotConfigured}[c.code == ""]
		must.Hold(t, code == want && strings.Join(failed, " ") == c.code,
			"%s: exit code %d, failed %v, expected %q: %s", name, code, failed, c.code, stderr)
		for _, s := range answer.Result.Runs[0].Steps {
			must.Hold(t, s.State != acceptance.Ended && s.State != acceptance.Broke, "%s: step %s was run", name, s.ID)
		}
	}
	h.stays(before)
}

// printed returns what docs/acceptance.md prints for an experiment: the commands of its first block, and those that
// stand in its prose.
func printed(t *testing.T, experiment string) (block, prose [][]string) {
	t.Helper()
	page := string(must.Get(os.ReadFile("../../docs/acceptance.md"))(t))
	_, section, found := strings.Cut(page, "\n## "+experiment+":")
	must.Need(t, found, "the page has no section on %s", experiment)
	section, _, _ = strings.Cut(section, "\n## ")
	before, rest, _ := strings.Cut(section, "```sh\n")
	text, after, found := strings.Cut(rest, "```\n")
	must.Need(t, found, "the section on %s has no commands", experiment)
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " #")
		for command := range strings.SplitSeq(line, " && ") {
			block = append(block, strings.Fields(command))
		}
	}
	for i, words := range strings.Split(before+after, "`") {
		if i%2 == 1 && strings.HasPrefix(words, "mpps ") {
			prose = append(prose, strings.Fields(words))
		}
	}
	return block, prose
}

// TestAcceptanceQueuesAsPrinted plays the sequence of the page with a namespace in the guest's place: its commands make
// the tunnel's other end, and the command for that form measures. Only what makes it short is added.
func TestAcceptanceQueuesAsPrinted(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	block, prose := printed(t, "queues")
	at := slices.IndexFunc(prose, func(argv []string) bool { return slices.Contains(argv, "--container") })
	must.Need(t, at >= 0, "the page prints no command without a guest")
	// The machine of the page: two ports, cabled to each other, one under the tunnel to the guest's bridge.
	h := newHostAndGuest(t)
	h.ip("-n", h.host, "link", "del", "tap0")
	for _, argv := range []string{
		"link add ens1f0 numtxqueues 8 numrxqueues 8 type veth peer name ens1f1 numtxqueues 8 numrxqueues 8",
		"link set ens1f0 up", "address add 192.0.2.1/24 dev ens1f0", "address add 10.60.0.1/24 dev br0",
		"link add vxlan0 type vxlan id 5 dstport 4789 remote 192.0.2.2 local 192.0.2.1 dev ens1f0",
		"link set vxlan0 master br0 up",
		"link add tap0 numtxqueues 4 numrxqueues 4 type veth peer name eth0 numtxqueues 4 numrxqueues 4 netns " + h.guest,
		"link set tap0 master br0 up",
	} {
		h.ip(append([]string{"-n", h.host}, strings.Fields(argv)...)...)
	}
	h.ip("-n", h.guest, "address", "add", "10.60.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1450", "up")
	h.startAgent(t, "10.60.0.2:7878")

	made := 0
	for _, argv := range block {
		switch {
		case argv[0] != "ip": // the measurement with a guest
			continue
		case argv[1] == "netns" && argv[2] == "add":
			h.ip(argv[1:]...)
			t.Cleanup(func() { h.ip("netns", "del", argv[3]) })
		case argv[1] == "-n":
			h.ip(argv[1:]...)
		default:
			h.ip(append([]string{"netns", "exec", h.host}, argv...)...)
		}
		made++
	}
	must.Need(t, made >= 5, "%d commands of the page make the other end: %q", made, block)
	dir := filepath.Join(t.TempDir(), "report")
	argv := append([]string{"ip", "netns", "exec", h.host}, prose[at]...)
	code, stdout, stderr := program(t, append(argv, "-o", dir, "--short", "--sink", "af_packet")...)
	p := must.Get(accept.Open(dir))(t)
	r := p.Last("queues")
	if r == nil || code != outcome.CodeOK || r.State != acceptance.Done {
		t.Fatalf("%q: exit code %d: %s%s", argv, code, stdout, stderr)
	}
	o := must.Get(accept.Outcomes(r))(t)
	if carried, have := acceptance.TapQueues(o.Paths["met"]); carried < 2 || have != 4 {
		t.Errorf("%d of %d queues carried packets", carried, have)
	}
	for _, f := range r.Figures {
		if f.Measured == nil || f.Measured.Value <= 0 {
			t.Errorf("%s: %+v", f.ID, f.Measured)
			continue
		}
		t.Logf("%s: %.4g %s, %s", f.What, f.Measured.Value, f.Unit, f.State)
	}
}

// tunnelled puts the guest, with four queues, behind a VXLAN whose other end is in a namespace that stands for the
// second host, and returns that namespace. The agent is the guest's, with the words of a command before it.
func (h *hostAndGuest) tunnelled(before ...string) (far string) {
	h.t.Helper()
	far = h.guest + "f"
	h.ip("netns", "add", far)
	h.t.Cleanup(func() { h.ip("netns", "del", far) })
	h.ip("-n", h.host, "link", "del", "tap0")
	for _, link := range []string{
		"add nic0 numtxqueues 8 numrxqueues 8 type veth peer name far0 numtxqueues 8 numrxqueues 8 netns " + far,
		"set nic0 up", "add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.2 local 10.9.0.1 dev nic0",
		"set vx0 master br0 up",
		"add tap0 numtxqueues 4 numrxqueues 4 type veth peer name eth0 numtxqueues 4 numrxqueues 4 netns " + h.guest,
		"set tap0 master br0 up",
	} {
		h.ip(append([]string{"-n", h.host, "link"}, strings.Fields(link)...)...)
	}
	h.ip("-n", h.host, "address", "add", "10.9.0.1/24", "dev", "nic0")
	h.ip("-n", far, "address", "add", "10.9.0.2/24", "dev", "far0")
	h.ip("-n", far, "link", "set", "far0", "up")
	h.ip(strings.Fields("-n " + far +
		" link add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.1 local 10.9.0.2 dev far0")...)
	h.ip("-n", far, "address", "add", "10.50.0.3/24", "dev", "vx0")
	h.ip("-n", far, "link", "set", "vx0", "up")
	h.ip("-n", h.guest, "address", "add", "10.50.0.2/24", "dev", "eth0")
	h.ip("-n", h.guest, "link", "set", "eth0", "mtu", "1450", "up")
	h.agent = startAgent(h.t, append(append([]string{"ip", "netns", "exec", h.guest}, before...), "mpps", "agent",
		"--insecure-lab", "--listen", "10.50.0.2:0")...)
	return far
}

// TestAcceptanceQueuesOfOneSender: an agent that may use one CPU sends by one queue, and the step that looks says so.
// TestAcceptanceQueuesAsPrinted has several.
func TestAcceptanceQueuesOfOneSender(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	h := newHostAndGuest(t)
	far := h.tunnelled("taskset", "-c", "0")
	dir := filepath.Join(t.TempDir(), "report")
	code, stdout, stderr := program(t, "ip", "netns", "exec", h.host, "mpps", "acceptance", "queues", "-o", dir,
		"--container", "--short", "--from", "netns:"+far+"/vx0", "--agent", h.agent, "--sink", "af_packet")
	p := must.Get(accept.Open(dir))(t)
	r := p.Last("queues")
	if r == nil {
		t.Fatalf("exit code %d without a run: %s%s", code, stdout, stderr)
	}
	must.Hold(t, code == outcome.CodeFailed && r.State == acceptance.Failed &&
		strings.Contains(r.Why, "step met failed") && strings.Contains(r.Why, "1 of 4 queues") && len(r.Standing) <= 0,
		"exit code %d, %s: %s", code, r.State, r.Why)
}
