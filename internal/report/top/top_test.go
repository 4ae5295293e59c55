package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/report"
)

// vhostLook is a host with a vhost thread that has no time left, beside an idle guest and one that is not.
func vhostLook() *bottleneck.Look {
	h := &facts.Host{Name: "kvm1", Taps: []facts.Tap{{Name: "vnet0", Master: "br0", Guest: "web-frontend-01"},
		{Name: "vnet1", Master: "br0", Guest: "db2"}, {Name: "vnet2", Master: "br0", Guest: "spare"}},
		Guests: []facts.Guest{{Name: "web-frontend-01"}, {Name: "db2"}, {Name: "spare"}}}
	l := &facts.Load{Seconds: 1, Method: facts.ByTracepoints, CostMS: 7, Devices: []facts.DeviceLoad{
		{Name: "eth0", Kind: "nic", RxPackets: 1_812_345, RxBytes: 108_740_700, TxPackets: 12_345, TxBytes: 740_700,
			SpeedMbps: 25000, Counters: map[string]uint64{"rx_missed_errors": 1210},
			Queues: []facts.QueueLoad{{Direction: "rx", Index: 0, Packets: 912_345, CPUs: setting.CPUs(0)},
				{Direction: "rx", Index: 1, Packets: 900_000, CPUs: setting.CPUs(1)},
				{Direction: "rx", Index: 2}, {Direction: "rx", Index: 3},
				{Direction: "tx", Index: 0, Packets: 12_345}}},
		{Name: "eth1", Kind: "nic", SpeedMbps: 1000},
		{Name: "vxlan100", Kind: "tunnel", RxPackets: 4000, TxPackets: 3900, SpeedMbps: -1,
			Qdisc: []facts.QdiscLoad{{Kind: "tbf", Parent: "root", Packets: 3900, Bytes: 1_200_000, RateBps: 10e6,
				Drops: 20, Backlog: 12}}},
		{Name: "br0", Kind: "bridge"},
		{Name: "vnet0", Kind: "tap", TxPackets: 700_000, RxPackets: 11_000,
			Counters: map[string]uint64{"tx_dropped": 1_100_000}},
		{Name: "vnet1", Kind: "tap", TxPackets: 4_000, RxPackets: 3_900},
		{Name: "vnet2", Kind: "tap"},
	}, Softnet: []facts.Softnet{{CPU: 0, Processed: 912_345, Squeezed: 31}, {CPU: 1, Processed: 900_000}, {CPU: 2}},
		Threads: []facts.ThreadLoad{
			{TID: 2117, Comm: "vhost-2113", Role: "vhost", Guest: "web-frontend-01", Queue: 3, VCPU: -1, CPU: 17,
				Ran: 0.99, Waited: 0.12},
			{TID: 2118, Comm: "vhost-2113", Role: "vhost", Guest: "web-frontend-01", Queue: 0, VCPU: -1, CPU: 16,
				Ran: 0.02},
			{TID: 2119, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "web-frontend-01", Queue: -1, VCPU: 0, CPU: 18,
				Ran: 0.7, HaltPoll: 0.27},
			{TID: 2120, Comm: "CPU 1/KVM", Role: "vcpu", Guest: "web-frontend-01", Queue: -1, VCPU: 1, CPU: 19,
				Ran: 0.02},
			{TID: 2217, Comm: "vhost-2213", Role: "vhost", Guest: "db2", Queue: 0, VCPU: -1, CPU: 4, Ran: 0.05},
			{TID: 2219, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "db2", Queue: -1, VCPU: 0, CPU: 5, Ran: 0.5, Quota: 0.5,
				Throttle: 0.4},
			{TID: 2319, Comm: "CPU 0/KVM", Role: "vcpu", Guest: "spare", Queue: -1, VCPU: 0, CPU: 6},
			{TID: 99, Comm: "stress-ng-cpu", Role: "other", Queue: -1, VCPU: -1, CPU: 17, Ran: 0.08},
		}, Profile: []facts.ProfileEntry{{CPU: 0, Stage: "netfilter", Symbol: "nft_do_chain", Share: 0.41}},
	}
	for cpu := range 20 {
		c := facts.CPULoad{CPU: cpu, Idle: 1}
		for _, at := range l.Threads {
			if at.CPU == cpu {
				c.System += at.Ran
				c.Idle -= at.Ran
			}
		}
		l.CPUs = append(l.CPUs, c)
	}
	l.CPUs[0] = facts.CPULoad{CPU: 0, Softirq: 0.97, Idle: 0.03}
	l.CPUs[1] = facts.CPULoad{CPU: 1, Softirq: 0.74, Idle: 0.26}
	return &bottleneck.Look{
		Schema: bottleneck.LookSchema, At: time.Date(2026, 11, 22, 20, 14, 3, 0,
			time.UTC), Host: h.Name, Seconds: l.Seconds, Method: l.Method, CostMS: l.CostMS,
		CPUs: l.CPUs, Stations: bottleneck.Stations(h, l), Diagnosis: &bottleneck.Diagnosis{
			Bottleneck: &bottleneck.Bottleneck{Kind: bottleneck.Vhost, Stage: "vhost", Object: "vhost-2113 (queue 3)",
				Confidence: 0.92, Say: "vhost-2113 (queue 3) is at 99 % of CPU 17 while vCPUs are at 43 %",
				Advice: "fewer vCPUs, more queues and vhost CPUs", Knobs: []string{"guest.queues", "vhost.cpus"}},
			Next: &bottleneck.Bottleneck{Say: "CPU 0 is at 97 % in softirqs, 41 % of it in 1000 rules of nft"},
		},
	}
}

// wideLook is a host with so many CPUs and guests that no terminal has room.
func wideLook() *bottleneck.Look {
	h, l := &facts.Host{Name: "big"}, &facts.Load{Seconds: 2, Method: facts.ByCounters, CostMS: 30}
	for cpu := range 192 {
		l.CPUs = append(l.CPUs, facts.CPULoad{CPU: cpu, Guest: float64(cpu%10) / 10, Idle: 1 - float64(cpu%10)/10})
	}
	l.Devices = append(l.Devices, facts.DeviceLoad{Name: "br0", Kind: "bridge"})
	for i := range 60 {
		tap, guest := fmt.Sprintf("vnet%d", i), fmt.Sprintf("vm%02d", i)
		h.Taps = append(h.Taps, facts.Tap{Name: tap, Master: "br0", Guest: guest})
		d := facts.DeviceLoad{Name: tap, Kind: "tap", Guest: guest, TxPackets: uint64(i * 1000)}
		if i == 7 {
			d.Counters = map[string]uint64{"tx_dropped": 500}
		}
		l.Devices = append(l.Devices, d)
		l.Threads = append(l.Threads, facts.ThreadLoad{TID: i, Comm: "CPU 0/KVM", Role: "vcpu", Guest: guest, Queue: -1,
			VCPU: 0, CPU: i, Ran: float64(60-i) / 100})
	}
	return &bottleneck.Look{Schema: bottleneck.LookSchema, At: time.Date(2026, 11, 22, 20, 14, 3, 0, time.UTC),
		Host: h.Name, Seconds: 2, Method: l.Method, CostMS: l.CostMS, CPUs: l.CPUs, Stations: bottleneck.Stations(h, l),
		Diagnosis: &bottleneck.Diagnosis{Why: "nothing holds the path back: no stage is short of anything and " +
			"nothing is lost"}}
}

func idleLook() *bottleneck.Look {
	l := vhostLook()
	for i := range l.Stations {
		s := &l.Stations[i]
		s.In, s.Out, s.Use, s.Loss, s.Waits, s.Lost, s.Parts = 0, 0, -1, 0, nil, nil, nil
	}
	l.Diagnosis = &bottleneck.Diagnosis{Why: "nothing passes"}
	return l
}

// frame is what stands on a terminal.
func frame(l *bottleneck.Look, columns int, v View) string {
	return report.Draw(columns, func(t *report.Text) { Draw(t, l, &v) }) + "\n"
}

func TestTopFrames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		look    *bottleneck.Look
		columns int
		view    View
	}{
		{"once-80", vhostLook(), 80, View{}},
		{"live-80x24", vhostLook(), 80, View{Rows: 24, Keys: true, Sort: ByPath, Every: time.Second}},
		{"live-80x24-all", vhostLook(), 80, View{Rows: 24, Keys: true, Sort: ByPath, Detail: All, Offset: 6}},
		{"live-60x24", vhostLook(), 60, View{Rows: 24, Keys: true, Sort: ByPath}},
		{"live-200x50", vhostLook(), 200, View{Rows: 50, Keys: true, Sort: ByPath}},
		{"folded-80", vhostLook(), 80, View{Detail: None, Idle: true}},
		{"one-guest-80", vhostLook(), 80, View{Rows: 24, Keys: true, Typing: true, Guest: "db"}},
		{"idle-80", idleLook(), 80, View{Rows: 24, Keys: true, Sort: ByPath}},
		{"many-80x24", wideLook(), 80, View{Rows: 24, Keys: true, Sort: ByLost, Paused: true, Offset: 10}},
		{"many-200x30", wideLook(), 200, View{Rows: 30, Keys: true, Sort: ByRate, Detail: All}},
		{"help-80", vhostLook(), 80, View{Help: true, Every: time.Second}},
		{"why-80x24", vhostLook(), 80, View{Rows: 24, Keys: true, Why: true}},
	} {
		golden.File(t, "testdata/"+c.name+".txt", frame(c.look, c.columns, c.view))
	}
}

// TestTopFits draws every view on terminals of many sizes: no line is wider, and there are no more lines than the
// terminal has.
func TestTopFits(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]*bottleneck.Look{"vhost": vhostLook(), "wide": wideLook(), "idle": idleLook()} {
		for _, columns := range []int{40, 60, 80, 81, 200} {
			for _, rows := range []int{0, 12, 24, 50} {
				for _, by := range Sorts {
					v := View{Rows: rows, Sort: by, Keys: rows > 0, Paused: rows == 24, Idle: rows == 50, Offset: rows}
					text := frame(look, columns, v)
					for line := range strings.Lines(text) {
						if n := report.Visible(strings.TrimSuffix(line, "\n")); n > columns &&
							(columns >= 80 || rows > 0) {
							t.Errorf("%s, %d columns: %d: %q", name, columns, n, line)
						}
					}
					if n := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; rows >= 24 && columns >= 60 &&
						n > rows {
						t.Errorf("%s, %d×%d: %d lines", name, columns, rows, n)
					}
				}
			}
		}
	}
}

// TestTopScrolls: each line of the path can be reached, and none is passed over.
func TestTopScrolls(t *testing.T) {
	t.Parallel()
	look, seen := wideLook(), map[string]bool{}
	scroll := 1
	for at := 0; at <= scroll; at++ {
		text := report.Draw(80, func(t *report.Text) {
			scroll = Draw(t, look, &View{Rows: 24, Keys: true, Offset: at})
		})
		for line := range strings.Lines(text) {
			seen[strings.TrimSpace(line)] = true
		}
	}
	must.Need(t, scroll >= 60, "60 guests in 24 lines scroll by %d", scroll)
	for line := range strings.Lines(report.Draw(80, func(t *report.Text) { Draw(t, look, &View{}) })) {
		if !seen[strings.TrimSpace(line)] && !strings.HasPrefix(line, "CPU") {
			t.Errorf("never on the terminal: %s", line)
		}
	}
}

// TestTopOrder: the guest that lost packets comes first where that is asked for, and a filter leaves the others out.
func TestTopOrder(t *testing.T) {
	t.Parallel()
	first := func(v View) string {
		for line := range strings.Lines(frame(wideLook(), 80, v)) {
			if strings.HasPrefix(line, "├") {
				return strings.Fields(line)[2]
			}
		}
		return ""
	}
	for by, want := range map[Sort]string{ByPath: "vnet0", ByRate: "vnet59", ByLost: "vnet7", ByUse: "vnet0"} {
		must.Equal(t, first(View{Sort: by, Idle: true}), want, "by %s: first", by)
	}
	if text := frame(wideLook(), 80, View{Guest: "vm07"}); !strings.Contains(text, "vnet7 ") ||
		strings.Contains(text, "vnet8") {
		t.Errorf("filtered: %s", text)
	}
	if text := frame(wideLook(), 80, View{Guest: "nobody"}); strings.Contains(text, "vnet") {
		t.Errorf("filtered: %s", text)
	}
}

// TestTopNames: names come from files that anybody may have written.
func TestTopNames(t *testing.T) {
	t.Parallel()
	look := vhostLook()
	look.Host, look.Stations[0].Name, look.Stations[0].Parts[0].Of = "evil\x1b[2J", "eth\x1b]0;x\a\n", "CPU\x1b[1A"
	look.Diagnosis.Bottleneck.Say = "a\x1b[31mb"
	if text := frame(look, 80, View{Guest: "\x1b[2J", Typing: true, Keys: true}); strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("a name steers the terminal: %q", text)
	}
}

// TestPress plays keys and looks at what the view has become.
func TestPress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys []report.Key
		want View
		quit bool
	}{
		{[]report.Key{"q"}, View{}, true},
		{[]report.Key{" "}, View{Paused: true}, false},
		{[]report.Key{" ", " "}, View{}, false},
		{[]report.Key{"s"}, View{Sort: ByRate}, false},
		{[]report.Key{"s", "s", "s", "s"}, View{Sort: ByPath}, false},
		{[]report.Key{"d"}, View{Detail: All}, false},
		{[]report.Key{"d", "d", "d"}, View{Detail: Fit}, false},
		{[]report.Key{"i"}, View{Idle: true}, false},
		{[]report.Key{"g", "v", "q", report.KeyBackspace, "m", report.KeyEnter}, View{Guest: "vm"},
			false}, // q is a letter here
		{[]report.Key{"g", "v", report.KeyEnter, report.KeyEscape}, View{}, false},
		{[]report.Key{"g", "v", report.KeyEscape}, View{}, false},
		{[]report.Key{"g", report.KeyUp, report.KeyBackspace}, View{Typing: true}, false},
		{[]report.Key{report.KeyLeft, report.KeyLeft, report.KeyRight}, View{Paused: true, Step: -1}, false},
		{[]report.Key{report.KeyRight}, View{Step: 1}, false}, // the newest stays the newest, and nothing is paused
		{[]report.Key{"e", "t"}, View{Why: true, Trend: true}, false},
		{[]report.Key{"e", report.KeyDown, "e"}, View{}, false},
		{[]report.Key{"e", report.KeyEscape}, View{}, false},
		{[]report.Key{"?"}, View{Help: true}, false},
		{[]report.Key{"?", "s"}, View{}, false},
		{[]report.Key{"?", "q"}, View{}, true},
		{[]report.Key{report.KeyUp}, View{}, false},
		{[]report.Key{report.KeyDown, report.KeyPageDown}, View{Offset: 11}, false},
		{[]report.Key{report.KeyEnd, report.KeyDown}, View{Offset: 30}, false},
		{[]report.Key{report.KeyEnd, report.KeyPageUp, report.KeyHome, "j"}, View{Offset: 1}, false},
	} {
		v, quit := View{}, false
		for _, k := range c.keys {
			quit = v.Press(k, 30, 10)
		}
		must.Hold(t, v == c.want && quit == c.quit, "%q: %+v, quit %v; wanted %+v, %v", c.keys, v, quit, c.want, c.quit)
	}
}
