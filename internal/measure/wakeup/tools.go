package wakeup

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Program is a supported tool: how to probe, start and parse it.
type Program struct {
	Name    string // as in --tool
	Argv0   string
	Package string   // the package of distributions that has it
	What    string   // what it measures
	Probe   []string // reports its version and options; must not measure
	// Needs is text that the probe must print; empty: none.
	Needs string
	start func(Asked, probed) []string
	read  func(string, Asked) (*Output, error)

	probed probed
}

// probed is what the probe of a tool found.
type probed struct {
	json, spike bool
	trigger     uint64
}

// histogramCap is where the histograms end, in µs: 100 ms. Memory for that is small, and only rows with a count are
// printed.
const histogramCap = 100_000

// timerlatCap is the same for rtla, which allocates it per CPU and context.
const timerlatCap = 20_000

// spikeRoom is how many long wake-ups cyclictest keeps with their times. LongPerSlice is how many are aimed at.
const (
	spikeRoom    = 4096
	LongPerSlice = 200
)

// Programs returns the supported tools in the order in which they are tried. oslat measures something else and is only
// used on request.
func Programs(self string) []Program {
	return []Program{
		{Name: "cyclictest", Argv0: "cyclictest", Package: "rt-tests", What: "how late a sleeping thread runs after " +
			"its timer was due, in whole µs",
			Probe: []string{"cyclictest", "--help"}, Needs: "cyclictest", start: startCyclictest,
			read: func(s string, a Asked) (*Output, error) { return ParseCyclictest(s, histogramCap, a.CPUs) }},
		{Name: "timerlat", Argv0: "rtla", Package: "rtla (Debian, Fedora) or linux-tools (Ubuntu)",
			What:  "how late a kernel thread runs after its timer was due (timerlat tracer), in whole µs",
			Probe: []string{"grep", "-w", "timerlat", "/sys/kernel/tracing/available_tracers"}, Needs: "timerlat",
			start: startTimerlat,
			read:  func(s string, _ Asked) (*Output, error) { return ParseTimerlat(s, timerlatCap) }},
		{Name: "own", Argv0: self, Package: "mpps itself, in $PATH", What: "how late a sleeping thread of mpps runs " +
			"after its timer was due",
			Probe: []string{self, "latency", "loop", "--help"}, Needs: "loop", start: startOwn(self),
			read: func(s string, _ Asked) (*Output, error) { return ParseOwn(s) }},
		{Name: "oslat", Argv0: "oslat", Package: "rt-tests", What: "how long a busy loop was interrupted, in whole " +
			"µs; nothing sleeps, and percentiles are of turns of the loop",
			Probe: []string{"oslat", "--help"}, Needs: "--json", start: startOslat,
			read: func(s string, _ Asked) (*Output, error) { return ParseOslat(s) }},
	}
}

// Automatic reports whether a tool is tried if the user names none.
func (p *Program) Automatic() bool { return p.Name != "oslat" }

// CheckProbe takes the output of the probe, from either stream, and returns an error if the tool lacks something.
func (p *Program) CheckProbe(text string) error {
	if !strings.Contains(text, p.Needs) {
		return fmt.Errorf("%s cannot be used: it does not say %q", p.Argv0, p.Needs)
	}
	p.probed.json, p.probed.spike = strings.Contains(text, "--json"), strings.Contains(text, "--spike-nodes")
	return nil
}

// Exact reports whether the tool reports when long wake-ups happened.
func (p *Program) Exact() bool {
	return p.Name == "own" || p.Name == "cyclictest" && p.probed.json && p.probed.spike
}

// Start returns the command for a slice of whole seconds that reports the times of wake-ups longer than the trigger (in
// nanoseconds; 0: none).
func (p *Program) Start(a Asked, slice time.Duration, triggerNs uint64) []string {
	a.Slice = slice
	state := p.probed
	state.trigger = triggerNs
	return p.start(a, state)
}

// Read parses the output of a slice.
func (p *Program) Read(text string, a Asked) (*Output, error) { return p.read(text, a) }

func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

func startCyclictest(a Asked, p probed) []string {
	us := func(d time.Duration) string { return strconv.Itoa(int(d / time.Microsecond)) }
	argv := []string{"cyclictest", "-q", "-m", "-p", strconv.Itoa(a.Priority), "-i", us(a.Interval), "-d", "0", "-t",
		strconv.Itoa(len(a.CPUs)), "-a", list(a.CPUs),
		"-D", wholeSeconds(a.Slice), "-h", strconv.Itoa(histogramCap)}
	if p.json {
		argv = append(argv, "--json=-", "--histfile=/dev/null")
	}
	if p.spike && p.trigger > 0 {
		argv = append(argv, "--spike="+strconv.FormatUint(p.trigger/1000, 10), "--spike-nodes="+strconv.Itoa(spikeRoom))
	}
	return argv
}

func startTimerlat(a Asked, _ probed) []string {
	return []string{"rtla", "timerlat", "hist", "-c", list(a.CPUs), "-d", wholeSeconds(a.Slice) + "s", "-p",
		strconv.Itoa(max(int(a.Interval/time.Microsecond), 100)),
		"-P", "f:" + strconv.Itoa(a.Priority), "-E", strconv.Itoa(timerlatCap)}
}

func startOslat(a Asked, _ probed) []string {
	return []string{"oslat", "-q", "-c", list(a.CPUs), "-D", wholeSeconds(a.Slice), "-b", "1024", "-f",
		strconv.Itoa(a.Priority), "--json=-"}
}

func startOwn(self string) func(Asked, probed) []string {
	return func(a Asked, _ probed) []string {
		return []string{self, "latency", "loop", "--cpu", list(a.CPUs), "--for", a.Slice.String(), "--interval",
			a.Interval.String(), "--priority", strconv.Itoa(a.Priority)}
	}
}

// list returns CPUs as all tools accept them, each listed by itself: cyclictest assigns them to its threads in order.
func list(cpus []int) string {
	texts := make([]string, len(cpus))
	for i, cpu := range cpus {
		texts[i] = strconv.Itoa(cpu)
	}
	return strings.Join(texts, ",")
}

// toolVersion finds "V 2.40" in a probe's text.
var toolVersion = regexp.MustCompile(`\bV ([0-9][0-9.]*)`)

// VersionIn returns the version in a probe's output; empty if there is none.
func VersionIn(text string) string {
	if m := toolVersion.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
