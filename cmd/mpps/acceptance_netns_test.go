//go:build netns

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	code, stdout, stderr := program(t, argv...)
	if code != outcome.CodeOK {
		t.Fatalf("resumed: exit code %d: %s%s", code, stdout, stderr)
	}
	p, r, m := modesIn(t, dir)
	if r.State != acceptance.Done || len(p.Runs) != 1 || m == nil || m.Samples != 18 || m.Partial ||
		len(m.Order) < taken {
		t.Errorf("%s, %d runs, campaign %+v, %d samples were taken before", r.State, len(p.Runs), m, taken)
	}
	measured := 0
	for _, f := range r.Figures {
		if strings.HasPrefix(f.ID, "modes.vf-") && f.Measured != nil && f.Measured.N == 3 && f.Measured.Value > 0 &&
			f.Founding != nil {
			measured++
		}
	}
	if measured != 3 || !strings.Contains(stdout, "vf: TCP stream out of the guest against native") {
		t.Errorf("%d figures of the second mode were measured:\n%s", measured, stdout)
	}
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
	code, stdout, stderr := program(t, argv...)
	if code != outcome.CodeOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	_, r, m := modesIn(t, dir)
	if m == nil || m.Samples != 8 || len(m.Runs) != 4 {
		t.Fatalf("campaign %+v", m)
	}
	for i, run := range m.Runs {
		from := map[string]string{"native": "host", "vf": "netns:" + second}[run.Name]
		if !strings.HasPrefix(run.Environment.Engine, "iperf3 ") || run.Samples[0].Bytes == 0 ||
			run.From.Where != from {
			t.Errorf("row %d by %q from %+v: %d bytes", i, run.Environment.Engine, run.From, run.Samples[0].Bytes)
		}
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
		if code != want || strings.Join(failed, " ") != c.code {
			t.Errorf("%s: exit code %d, failed %v, expected %q", name, code, failed, c.code)
		}
		for _, s := range answer.Result.Runs[0].Steps {
			if s.State == acceptance.Ended || s.State == acceptance.Broke {
				t.Errorf("%s: step %s was run", name, s.ID)
			}
		}
	}
	h.stays(before)
}
