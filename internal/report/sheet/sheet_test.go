package sheet

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// pageOf is a sheet as text.
func pageOf(t *testing.T, s Sheet) string {
	t.Helper()
	var text strings.Builder
	must.Do(t, HTML(&text, s, "1.0", time.Date(2026, 11, 27, 16, 0, 0, 0, time.UTC)))
	return text.String()
}

// TestSheet: each page has its paths and what it is about, counts what it folds, and nothing of a host is markup.
func TestSheet(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 32, NICs: 1, Queues: 8, Guests: 9})
	h.Guests[0].Name = "<b>web</b>"
	g := goal.Goal{PPS: 1e6}
	r := audit.Run(h, g, knob.Catalogue())
	p := &plan.Plan{Goal: g}
	for cpu := range 6 {
		p.Changes = append(p.Changes, plan.Change{ID: "cpu.governor", Title: "CPUs run at full clock",
			Address: setting.Of(setting.Sysfs, fmt.Sprintf("cpu%d", cpu))})
	}
	d := &bottleneck.Diagnosis{Why: "vhost-1 is at 99 % of CPU 3", Bottleneck: &bottleneck.Bottleneck{Object: "vhost-1",
		Say: "vhost-1 is at 99 % of CPU 3", Confidence: 0.9, Evidence: []bottleneck.Evidence{{What: "share", Value: 0.99,
			Unit: "share"}}}}
	for name, c := range map[string]struct {
		sheet Sheet
		says  []string
	}{
		"inspect":  {Sheet{Host: h}, []string{"How packets reach the guests", "vnet"}},
		"audit":    {Sheet{Host: h, Audit: &r}, []string{"limit the target", "worst first", "mpps plan --pps 1000000"}},
		"chinese":  {Sheet{Host: h, Audit: &r, Chinese: true}, []string{`<div lang="zh-CN">`, "应为："}},
		"plan":     {Sheet{Host: h, Plan: p}, []string{"6 changes planned", "in this order", "mpps apply", "2 more</summary>"}},
		"diagnose": {Sheet{Host: h, Diagnosis: d}, []string{"The limit now", "90 % confidence", "vhost-1 is at 99 %"}},
	} {
		text := pageOf(t, c.sheet)
		for _, says := range c.says {
			must.Hold(t, strings.Contains(text, says), "%s: %q is missing", name, says)
		}
		must.Hold(t, !strings.Contains(text, "<b>web</b>"), "%s: the name of a guest is markup", name)
		must.Equal(t, regexp.MustCompile(`(src|href)=|https?://`).FindString(text[:strings.Index(text, "mpps-data")]),
			"", "%s: it needs something from elsewhere", name)
	}
}

// TestPicture: a picture is well formed, marks the stage that limits and no other, and fits what it says.
func TestPicture(t *testing.T) {
	d := &bottleneck.Diagnosis{Why: "vhost-1 <queue 3> is at 99 % of CPU 3 " + strings.Repeat("and so on ", 20),
		Bottleneck: &bottleneck.Bottleneck{Stage: "vhost"}}
	for _, name := range []string{"nic", "softirq", "bridge", "tap", "vhost", "vcpu", "guest", "socket", "far"} {
		d.Stages = append(d.Stages, bottleneck.Stage{Name: name, Object: name + " <object of a long name>", Use: 0.5,
			PPS: 61e3})
	}
	var text strings.Builder
	must.Do(t, Picture(&text, d))
	must.Equal(t, strings.Count(text.String(), `class="limit"`), 1, "stages are marked")
	for parse := xml.NewDecoder(strings.NewReader(text.String())); ; {
		if _, err := parse.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v: %s", err, text.String())
		}
	}
	must.Try(t, Picture(io.Discard, &bottleneck.Diagnosis{Why: "no traffic seen"}))
}

// TestPathOfReadme draws docs/path.svg, the picture of README, from packets that were recorded.
func TestPathOfReadme(t *testing.T) {
	f := must.Get(os.Open("../../advise/bottleneck/testdata/recorded/vhost.json"))(t)
	defer f.Close()
	h := must.Get(facts.ReadSnapshot(f))(t)
	var picture strings.Builder
	must.Do(t, Picture(&picture, bottleneck.Find(h, h.Load)))
	golden.File(t, "../../../docs/path.svg", picture.String())
}
