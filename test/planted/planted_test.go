package planted

import (
	"embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/owned"
)

//go:embed scenarios/*.yaml
var files embed.FS

// scenarios are those of this tree and of the directories in MPPS_PLANTED, as far as MPPS_PLANTED_ONLY (a pattern of
// filepath.Match) names them.
func scenarios(t *testing.T) []Scenario {
	t.Helper()
	own := must.Get(fs.Sub(files, "scenarios"))(t)
	dirs := []fs.FS{own}
	for _, dir := range filepath.SplitList(os.Getenv("MPPS_PLANTED")) {
		dirs = append(dirs, os.DirFS(dir))
	}
	var all []Scenario
	for _, dir := range dirs {
		some := must.Get(Read(dir))(t)
		all = append(all, some...)
	}
	if only := os.Getenv("MPPS_PLANTED_ONLY"); only != "" {
		all = slices.DeleteFunc(all, func(s Scenario) bool {
			return !slices.ContainsFunc(strings.Split(only, ","), func(pattern string) bool {
				ok, err := filepath.Match(pattern, s.Name)
				must.Need(t, err == nil, "MPPS_PLANTED_ONLY: %v", err)
				return ok
			})
		})
	}
	if os.Getenv("MPPS_PLANTED_OWN_KERNEL") == "only" {
		all = slices.DeleteFunc(all, func(s Scenario) bool { return !s.Needs.OwnKernel })
	}
	must.Need(t, len(all) != 0, "no scenarios")
	return all
}

// chosen are the scenarios to play: all that MPPS_PLANTED_ONLY names, else the short ones.
func chosen(all []Scenario) []Scenario {
	if os.Getenv("MPPS_PLANTED_ONLY") != "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s Scenario) bool { return !s.Short })
}

// TestShort: the short ones stand for the others. Most stages are among them, and healthy paths.
func TestShort(t *testing.T) {
	t.Setenv("MPPS_PLANTED_ONLY", "")
	some, stages, healthy := chosen(scenarios(t)), map[string]bool{}, 0
	for _, s := range some {
		for _, kind := range s.Expect.Kinds {
			stages[bottleneck.About(bottleneck.Kind(kind)).Stage] = true
		}
		if s.Expect.Healthy() {
			healthy++
		}
		must.Hold(t, !s.Needs.OwnKernel && s.KnownWrong == "",
			"%s cannot be played everywhere, or is known to be wrong", s.Name)
	}
	if len(some) < 10 || len(some) > 14 || healthy < 2 || len(stages) < 7 {
		t.Errorf("%d short scenarios, expected 10 to 14; %d healthy, expected 2; of the stages %v, expected 7",
			len(some), healthy, slices.Sorted(maps.Keys(stages)))
	}
	t.Setenv("MPPS_PLANTED_ONLY", "*")
	if n := len(chosen(scenarios(t))); n <= 2*len(some) {
		t.Errorf("%d of all, expected more than the short ones", n)
	}
}

// TestScenarios: the files are read, and expect what mpps diagnose can say.
func TestScenarios(t *testing.T) {
	t.Parallel()
	healthy := 0
	lab := must.Get(Read(os.DirFS("lab")))(t)
	for _, s := range slices.Concat(scenarios(t), lab) {
		if s.Expect.Healthy() {
			healthy++
		}
		if s.KnownWrong != "" && s.Expect.Healthy() {
			t.Errorf("%s: something is named where nothing is wrong, and that may not stand", s.Name)
		}
		for _, kind := range s.Expect.Kinds {
			must.Hold(t, bottleneck.About(bottleneck.Kind(kind)).Kind != "",
				"%s expects %q, which is no kind", s.Name, kind)
		}
		if len(s.Expect.Kinds) > 1 && s.Expect.Why == "" {
			t.Errorf("%s takes several answers for right, and does not say why", s.Name)
		}
		if s.Expect.Stage != "" && !slices.Contains(bottleneck.StageNames(), s.Expect.Stage) {
			t.Errorf("%s expects stage %q, which is none", s.Name, s.Expect.Stage)
		}
	}
	must.Hold(t, healthy >= 3, "%d healthy paths, expected 3", healthy)
}

// TestParseCanFail: what is wrong with a scenario is said.
func TestParseCanFail(t *testing.T) {
	t.Parallel()
	const good = "title: a\npath: {ends: [{name: a, kind: counter}]}\n"
	for text, want := range map[string]string{
		good: "",
		good + "traffic: [{pps: 1000}]\nexpect: {kinds: [softirq]}\n": "",
		good + "unknown: 1\n": "unknown",
		"title: a\n":          "no ends",
		"title: a\npath: {ends: [{name: a, kind: b}]}\n":                                                    `is a "b"`,
		good + "traffic: [{pps: 0}]\n":                                                                      "0 packets per second",
		good + "traffic: [{pps: 5, to: b}]\n":                                                               `to "b"`,
		good + "traffic: [{pps: 5, burst: -1}]\n":                                                           "bursts of -1",
		"title: a\npath: {ends: [{name: a, kind: guest}]}\ntraffic: [{from: a, pps: 5, burst: 9}]\n":        "no bursts",
		"title: a\npath: {forward: bridge, tunnel: {source_ports: -1}, ends: [{name: a, kind: counter}]}\n": "source_ports -1",
		good + "traffic: [{pps: 5, cpu: 1}]\n":                                                              "needs.cpus",
		good + "plant: [{}]\n":                                                                              "expected one",
		good + "plant: [{quota: {of: a, cpus: 1}}]\n":                                                       "expected an end that is",
		good + "plant: [{write: {file: /proc/sys/net/core/dev_weight, text: 1}}]\n":                         "own_kernel",
		good + "plant: [{write: {file: /proc/sys/net/ipv4/ip_forward, text: 1}}]\n":                         "",
		good + "plant: [{write: {file: /proc/sys/net/ipv4/../../x, text: 1}}]\n":                            "expected a file below",
		good + "plant: [{write: {file: /etc/passwd, text: 1}}]\n":                                           "expected a file below",
		good + "plant: [{run: {argv: [true], in: nowhere}}]\n":                                              "no place",
		good + "expect: {object: a}\n":                                                                      "no object",
		"title: a\npath: {forward: route, ends: [{name: a, kind: guest}]}\n":                                "needs a bridge",
		"title: a\npath: {ends: [{name: a, kind: counter}, {name: a, kind: socket}]}":                       "two ends",
	} {
		_, err := Parse("x", text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// TestBursts: a stream with bursts of its own keeps its rate, also on a slower machine.
func TestBursts(t *testing.T) {
	t.Parallel()
	s := must.Get(Parse("x", "title: a\npath: {ends: [{name: a, kind: counter}]}\ntraffic: [{pps: 50000, "+
		"burst: 5000}, {pps: 1000}]\n"))(t)
	for factor, want := range map[float64]time.Duration{1: 100 * time.Millisecond, 0.1: time.Second} {
		must.Equal(t, s.scaled(factor).Traffic[0].tick(time.Millisecond), want, "scaled by %g: a burst each", factor)
	}
	must.Equal(t, s.Traffic[1].tick(time.Millisecond), time.Millisecond, "without bursts of its own: each")
}

// TestJudge: a wrong answer is seen, and so is a plant that holds nothing back.
func TestJudge(t *testing.T) {
	t.Parallel()
	planted := must.Get(Parse("x", "title: a\npath: {ends: [{name: a, kind: counter}]}\ntraffic: [{pps: 1000}]\n"+
		"expect: {kinds: [softirq], object: 'CPU {cpu0}', delivers: {below: 0.9}}\n"))(t)
	healthy := planted
	healthy.Expect = Expect{}
	healthy.Expect.Delivers.Above = 0.99
	at := &scene{cpus: []int{7}, wire: &place{}}
	for _, c := range []struct {
		name             string
		s                Scenario
		found            *bottleneck.Bottleneck
		delivered        uint64
		right            bool
		wrong, unplanted bool
	}{
		{"right", planted, &bottleneck.Bottleneck{Kind: bottleneck.Softirq, Object: "CPU 7"}, 50, true, false, false},
		{"another kind", planted, &bottleneck.Bottleneck{Kind: bottleneck.Vhost, Object: "CPU 7"}, 50, false, true,
			false},
		{"another object", planted, &bottleneck.Bottleneck{Kind: bottleneck.Softirq, Object: "CPU 8"}, 50, false, true,
			false},
		{"nothing", planted, nil, 50, false, true, false},
		{"all arrived", planted, &bottleneck.Bottleneck{Kind: bottleneck.Softirq, Object: "CPU 7"}, 100, false, false,
			true},
		{"healthy", healthy, nil, 100, true, false, false},
		{"healthy, and something named", healthy, &bottleneck.Bottleneck{Kind: bottleneck.Softirq}, 100, false, true,
			false},
		{"healthy, and packets lost", healthy, nil, 90, false, false, true},
	} {
		o := Outcome{Scenario: c.s, Sent: 100, Seconds: 1, Delivered: c.delivered,
			Found: &bottleneck.Diagnosis{Bottleneck: c.found}}
		o.judge(at.words())
		if o.Right() != c.right || (o.Wrong != "") != c.wrong || (o.Blunt != "") != c.unplanted {
			t.Errorf("%s: right %v, wrong %q, blunt %q", c.name, o.Right(), o.Wrong, o.Blunt)
		}
	}
	table, right, ran := Table([]Outcome{{Scenario: planted, LeftOut: "needs 2 CPUs"},
		{Scenario: planted, Error: errors.New("a|b")}})
	must.Hold(t, right == 0 && ran == 1 && strings.Contains(table, "left out: needs 2 CPUs") &&
		strings.Contains(table, "failed: a/b"), "%d of %d right:\n%s", right, ran, table)
}

// TestKnownWrong: what is known to be wrong does not count while it is wrong, and does once it is right.
func TestKnownWrong(t *testing.T) {
	t.Parallel()
	found := func(kind bottleneck.Kind) *bottleneck.Diagnosis {
		return &bottleneck.Diagnosis{Bottleneck: &bottleneck.Bottleneck{Kind: kind}}
	}
	s := Scenario{Name: "x", KnownWrong: "nobody counts that", Expect: Expect{Kinds: []string{"vhost"}}}
	for _, c := range []struct {
		name       string
		o          Outcome
		say        string
		right, ran int
	}{
		{"still wrong", Outcome{Scenario: s, Found: found(bottleneck.TapQueue)}, "nobody counts that", 0, 0},
		{"right now", Outcome{Scenario: s, Found: found(bottleneck.Vhost)}, "take that away", 0, 1},
		{"it failed", Outcome{Scenario: s, Error: errors.New("no namespace")}, "no namespace", 0, 1},
		{"another program", Outcome{Scenario: Scenario{Name: "x", Expect: s.Expect}, Found: found(bottleneck.CPUHog),
			Others: 1.24}, "disturbed: programs outside of the scene took 1.2 CPUs", 0, 0},
		{"right beside others", Outcome{Scenario: Scenario{Name: "x", Expect: s.Expect}, Found: found(bottleneck.Vhost),
			Others: 1.24}, "right", 1, 1},
		{"wrong beside little", Outcome{Scenario: Scenario{Name: "x", Expect: s.Expect}, Found: found(bottleneck.CPUHog),
			Others: 0.24}, "wrong: cpu-hog, expected vhost", 0, 1},
		{"played once more", Outcome{Scenario: Scenario{Name: "x", Expect: s.Expect}, Found: found(bottleneck.TapQueue),
			Repeated: true}, "tap-queue, expected vhost; played once more", 0, 0},
	} {
		if c.o.Found != nil {
			c.o.judge(strings.NewReplacer())
			c.o.disturb()
		}
		table, right, ran := Table([]Outcome{c.o})
		must.Hold(t, right == c.right && ran == c.ran && strings.Contains(table, c.say),
			"%s: %d of %d, expected %d of %d and %q:\n%s", c.name, right, ran, c.right, c.ran, c.say, table)
	}
}

// TestPlayTwice: what did not come out right is played once more, and both are told.
func TestPlayTwice(t *testing.T) {
	t.Parallel()
	wrong, blunt, right := Outcome{Wrong: "softirq, expected vhost"}, Outcome{Blunt: "all arrived"}, Outcome{}
	known := Outcome{Scenario: Scenario{KnownWrong: "it stands"}, Wrong: "tap-queue, expected vhost"}
	for _, c := range []struct {
		name       string
		plays      []Outcome
		right, ran int
	}{
		{"right at once", []Outcome{right}, 1, 1},
		{"right at the second time", []Outcome{wrong, right}, 1, 1},
		{"blunt, and then it bites", []Outcome{blunt, right}, 1, 1},
		{"wrong twice", []Outcome{wrong, wrong}, 0, 1},
		{"left out", []Outcome{{LeftOut: "needs 2 CPUs"}}, 0, 0},
		{"known to be wrong", []Outcome{known}, 0, 0},
	} {
		next := 0
		all := PlayTwice(func() Outcome { next++; return c.plays[min(next, len(c.plays))-1] })
		_, right, ran := Table(all)
		must.Hold(t, len(all) == len(c.plays) && next == len(c.plays) && right == c.right && ran == c.ran,
			"%s: played %d times, %d of %d right; expected %d times, %d of %d", c.name, next, right, ran, len(c.plays),
			c.right, c.ran)
	}
}

// recorded holds what was seen of planted paths: files of mpps diagnose -o, each named after its scenario.
const recorded = "../../internal/advise/bottleneck/testdata/recorded"

// recordings are the scenarios that were recorded, by the recording's name.
func recordings(t *testing.T) map[string]Scenario {
	t.Helper()
	all, found := map[string]Scenario{}, map[string]Scenario{}
	for _, dir := range []string{"scenarios", "lab"} {
		some := must.Get(Read(os.DirFS(dir)))(t)
		for _, s := range some {
			all[s.Name] = s
		}
	}
	names := must.Get(filepath.Glob(filepath.Join(recorded, "*.json")))(t)
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		of, _, _ := strings.Cut(name, ".") // NAME.2.json is another recording of it
		s, is := all[of]
		if !is {
			t.Errorf("%s: no scenario has that name", file)
			continue
		}
		found[name] = s
	}
	must.Hold(t, len(found) >= 30, "%d recordings, expected 30", len(found))
	return found
}

// TestRecorded judges the recordings again, on any machine.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for name, s := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			wrong, say := judgeFile(t, s, name, false)
			switch {
			case s.KnownWrong != "" && wrong == "":
				t.Errorf("right now: take its known_wrong away (%s)", s.KnownWrong)
			case s.KnownWrong != "":
				t.Logf("%s: %s (%s)", wrong, say, s.KnownWrong)
			case wrong != "":
				t.Errorf("%s: %s", wrong, say)
			}
		})
	}
}

// judgeFile judges one recording by its scenario, and says what is wrong with the answer.
// Counters leaves of it what counters alone tell.
func judgeFile(t *testing.T, s Scenario, name string, counters bool) (wrong, say string) {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(recorded, name+".json")))(t)
	defer f.Close()
	h := must.Get(facts.ReadSnapshot(f))(t)
	if counters {
		l := h.Load
		l.Method, l.Profile, l.Drops, l.Delays, l.Locks = facts.ByCounters, nil, nil, nil, nil
	}
	s.Expect.Object = strings.NewReplacer("{nic}", nicName, "{port}", "port"+s.Path.Ends[0].Name, "{bridge}",
		bridgeName, "{tunnel}", tunnelName).Replace(s.Expect.Object)
	if s.Path.Ends[0].Kind == "guest" {
		s.Expect.Object = strings.ReplaceAll(s.Expect.Object, "port"+s.Path.Ends[0].Name, "tap"+s.Path.Ends[0].Name)
	}
	s.Expect.Delivers.Above, s.Expect.Delivers.Below = 0, 0 // how many arrived is not recorded
	s.Expect.Share = false                                  // a recording does not have what arrived
	o := Outcome{Scenario: s, Sent: 1, Found: bottleneck.Find(h, h.Load)}
	o.judge(strings.NewReplacer())
	return o.Wrong, o.Found.Why
}

// TestRecordedByCounters judges what an old kernel, or one without privilege, would have told of the same paths: less
// is found, and still nothing is named where nothing is wrong.
func TestRecordedByCounters(t *testing.T) {
	t.Parallel()
	right, all := 0, recordings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		wrong, say := judgeFile(t, all[name], name, true)
		switch {
		case wrong == "":
			right++
		case all[name].Expect.Healthy():
			t.Errorf("%s: %s: %s", name, wrong, say)
		default:
			t.Logf("%s: %s: %s", name, wrong, say)
		}
	}
	t.Logf("%d of %d right by counters alone", right, len(all))
	if float64(right) < 0.75*float64(len(all)) {
		t.Errorf("%d of %d right by counters alone, expected three quarters", right, len(all))
	}
}

// What a child uses is the scene's, while it runs and once it was waited for; what others use is the rest.
func TestOthers(t *testing.T) {
	t.Parallel()
	cpus := must.Get(CPUs())(t)
	read := func() cpuTime {
		now := must.Get(readCPUTime(cpus))(t)
		return now
	}
	before := read()
	child := exec.Command("sh", "-c", "while :; do :; done")
	must.Do(t, owned.Start(child))
	running := before
	for deadline := time.Now().Add(20 * time.Second); running.ours < before.ours+10 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		running = read()
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	after := read()
	must.Hold(t, running.ours >= before.ours+10 && after.ours >= running.ours,
		"a busy child: found %d, %d and %d ticks", before.ours, running.ours, after.ours)
	must.Hold(t, after.all-before.all >= 10, "all CPUs: found %d ticks more", after.all-before.all)
	second := cpuTime{at: before.at.Add(time.Second), ours: before.ours + 50, all: before.all + 170}
	if got := others(before, second); got != 1.2 {
		t.Errorf("170 ticks of which 50 are ours: found %g CPUs of others, want 1.2", got)
	}
	second.ours += 200
	if got := others(before, second); got != 0 {
		t.Errorf("more of ours than of all: found %g CPUs of others, want 0", got)
	}
}
