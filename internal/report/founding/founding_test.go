package founding

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mpps/internal/golden"
	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/report"
)

// repeated is a report with a run of each kind: done, waiting, with something missing, and one that was run before.
func repeated(t *testing.T) *acceptance.Report {
	t.Helper()
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	m := &acceptance.Machine{
		CPU: "Intel(R) Xeon(R) Gold 6230", Packages: 2, Cores: 40, CPUs: 80, Nodes: 2, Memory: 384 << 30,
		Kernel:      "6.12.48+deb13-rt-amd64",
		CommandLine: "quiet isolcpus=managed_irq,domain,20-23", QEMU: "10.0.3", Libvirt: "11.3.0",
		Tunnels: []string{"vxlan"}, Attested: []string{"firmware.c6"},
		NICs: []acceptance.NIC{{Name: "ens1f0", Driver: "i40e", Firmware: "9.20", Mbps: 10000, Queues: 40,
			PCIe: "8.0 GT/s PCIe x8", VFs: 64, Path: true}, {Name: "eno1", Driver: "tg3", Mbps: 1000, Node: -1,
			Queues: 4}},
		Guest: &acceptance.Guest{VCPUs: 9, Queues: 9, Model: "virtio", Backend: "vhost", Memory: 8 << 30, Pinned: true},
	}
	in := acceptance.Inputs{Guest: "r1", Via: "br0", Out: "br1", Gateway: "198.18.0.254", From: "eth1",
		Agent: "192.0.2.2:7878", VFAgent: "192.0.2.3:7878", Dir: "out/throughput-1", CPUs: "20-23"}.Defaults()
	search := func(lower, pdr float64) *measure.Search {
		s := &measure.Search{}
		upper, most := lower*1.004, pdr*1.003
		s.LimitedBy, s.Trials, s.PDR.LossRatio = "device", 11, 0.0007
		s.NDR.LowerPPS, s.NDR.UpperPPS, s.PDR.LowerPPS, s.PDR.UpperPPS = &lower, &upper, &pdr, &most
		return s
	}
	begun := func(name string, days int) *acceptance.Run {
		r := acceptance.Find(name).Begin(in, at.AddDate(0, 0, days))
		r.Machine = m
		return r
	}
	done := func(name string, days int, before, after *measure.Search) *acceptance.Run {
		r := begun(name, days)
		o := &acceptance.Outcomes{Searches: map[string]*measure.Search{"before": before, "after": after}}
		r.State, r.Seconds = acceptance.Done, 812
		for i := range r.Steps {
			s := &r.Steps[i]
			s.State, s.Seconds, s.Answer = acceptance.Ended, float64(3+i*17), StepAnswer(o, s)
			if s.Phase == acceptance.Undo {
				s.Ran, s.Answer = []string{"mpps rollback 20261122T141002"},
					[]string{"20261122T141002: everything is back"}
			}
		}
		r.Judge(o)
		r.Notes = []string{"everything is put back; what was changed for the next start (definitions, kernel " +
			"arguments) is gone after one more start"}
		return r
	}
	waiting := begun("queues", 0)
	waiting.State, waiting.Why, waiting.Hint = acceptance.Waiting, "the guest has one queue at its next start",
		"shut the guest down and start it; then 'mpps acceptance queues --resume'"
	waiting.Standing = []string{"20261122T150000"}
	waiting.Steps[0].State, waiting.Steps[1].State = acceptance.Ended, acceptance.Ended
	waiting.Steps[1].Answer = []string{"transaction 20261122T150000", "1 change takes effect after restart of guest r1"}
	waiting.Steps[2].Waited = &acceptance.Waited{BootID: "b", PID: 7}
	waiting.Judge(&acceptance.Outcomes{})
	broken := begun("sriov", 0)
	broken.State, broken.Why, broken.Hint, broken.Seconds = acceptance.Failed, "step assign failed: guest <r1> "+
		"shares its IOMMU group", "'mpps sriov check' tells more", 190
	var samples []measure.Sample
	for i := range 12 {
		samples = append(samples, measure.Sample{PPS: 450e3 + float64(i)*1500})
	}
	tap := &measure.Run{Kind: measure.PPS, Samples: samples, LimitedBy: measure.ByGenerator}
	tap.Median = measure.Median(tap.Values())
	for i := range 4 {
		broken.Steps[i].State, broken.Steps[i].Seconds = acceptance.Ended, 60
	}
	broken.Steps[4].State, broken.Steps[4].Problem, broken.Steps[4].Seconds = acceptance.Broke,
		"guest <r1> shares its IOMMU group", 2
	broken.Judge(&acceptance.Outcomes{Runs: map[string]*measure.Run{"tap-tx": tap, "tap-rx": tap, "vf-tx": tap}})
	lacking := begun("modes", 0)
	lacking.State, lacking.Why = acceptance.Lacking, "something it needs is missing"
	lacking.Checks = []acceptance.Check{{What: "modes", Code: "modes", Why: "nothing says which modes there are",
		Hint: "--mode native=HOST:PORT,from=eth1"}}
	return &acceptance.Report{Schema: acceptance.Schema, Version: "0.1.0", Machine: m, Runs: []*acceptance.Run{
		done("throughput", -3, search(0.4e6, 0.45e6), search(1.21e6, 1.3e6)),
		done("throughput", 0, search(0.42e6, 0.44e6), search(1.83e6, 1.92e6)), waiting, broken, lacking,
	}}
}

// TestAcceptanceText compares what people read on a terminal with what is expected.
func TestAcceptanceText(t *testing.T) {
	p := repeated(t)
	dry := []DryRun{{Name: "sriov", Title: "a virtual function against tap and bridge", Minutes: 15, Keep: true,
		Checks: p.Runs[4].Checks, Steps: acceptance.Find("sriov").Steps(p.Runs[3].Inputs), Planned: true,
		Restarts: []string{"restart of guest r1"}, Consent: 2,
		Changes: []report.ChangeRow{{ID: "nic.ring.rx", Address: "nic-ring:ens1f0/rx", From: "4096", To: "256"}}}}
	got := report.Draw(80, func(t *report.Text) {
		Text(t, p, "/root/acceptance")
		t.Blank()
		DryRuns{dry}.Answer("", true).Text(t)
	})
	for n, line := range strings.Split(got, "\n") {
		if report.Visible(line) > 80 {
			t.Errorf("line %d has %d columns: %s", n+1, report.Visible(line), line)
		}
	}
	golden.File(t, "testdata/acceptance.txt", got)
}

func TestAcceptancePage(t *testing.T) {
	var page bytes.Buffer
	must.Do(t, HTML(&page, repeated(t)))
	if out := os.Getenv("MPPS_ACCEPTANCE_PAGE"); out != "" { // to look at it
		must.Do(t, os.WriteFile(out, page.Bytes(), 0o644))
	}
	text := page.String()
	must.Contain(t, text,
		"3 of 4 comparable figures reached", "row by row", "short by 4.0 %", "waits for you", "ended early",
		"Not measured: ", "not run: something is missing", "guest &lt;r1&gt;", "Earlier runs",
		"mpps rollback 20261122T150000", "then 1.8 Mpps", "i40e", "within 0.07 % of loss", "generator was the limit",
		"≥ 458")
	must.Equal(t, regexp.MustCompile(`(?:src|href)="(?:https?:)?//`).FindString(text), "", "the page needs a network")
	data := regexp.MustCompile(`(?s)id="mpps-data">(.*?)</script>`).FindStringSubmatch(text)
	must.Hold(t, data != nil && json.Valid([]byte(data[1])), "the page has no data")
	if p, err := acceptance.Decode(strings.NewReader(data[1])); err != nil || len(p.Runs) != 5 {
		t.Errorf("its data is no report: %v", err)
	}
	// Drawings are well-formed.
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v: %s", err, svg)
			}
		}
	}
}

func TestAcceptanceEmulated(t *testing.T) {
	p := repeated(t)
	p.Machine.Emulated = true
	p.Runs = p.Runs[1:2]
	p.Runs[0].Judge(&acceptance.Outcomes{})
	var page bytes.Buffer
	must.Do(t, HTML(&page, p))
	text := report.Draw(80, func(t *report.Text) { Text(t, p, "d") })
	for what, s := range map[string]string{"page": page.String(), "text": text} {
		must.Hold(t, strings.Contains(s, "EMULATION"), "the %s does not say that it is emulated", what)
	}
	must.Hold(t, strings.Count(page.String(), "EMULATION") >= 3, "the page says EMULATION too rarely")
}

func TestCommand(t *testing.T) {
	for want, argv := range map[string][]string{
		"mpps search --trial-command 'trex.py --server 192.0.2.9'": {"search", "--trial-command",
			"trex.py --server 192.0.2.9"},
		`mpps audit 'it'\''s' ''`: {"audit", "it's", ""},
	} {
		must.Equal(t, Command(argv), want, "Command(argv)")
	}
}
