package gallery

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// goals are those that every host is judged for, as flags; "" names none.
var goals = []string{"", "--pps 1.8M", "--nic vf", "--latency 20us"}

// moreGoals are around the limits of what rules ask of a goal: each is for every sixth host.
var moreGoals = []string{"--pps 100k", "--pps 500k", "--pps 6M", "--bulk 40G", "--latency 5us", "--latency 100us"}

// parseGoal returns the goal of a command line's flags.
func parseGoal(text string) (goal.Goal, error) {
	g := goal.Goal{Frame: 64}
	if text == "" {
		return goal.Gentlest(), nil
	}
	set := flag.NewFlagSet("goal", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	rate := func(at *float64) func(string) error {
		return func(text string) (err error) { *at, err = goal.ParseRate(text); return err }
	}
	set.Func("pps", "", rate(&g.PPS))
	set.Func("bulk", "", rate(&g.Bulk))
	set.DurationVar(&g.Latency, "latency", 0, "")
	set.StringVar(&g.NIC, "nic", "", "")
	set.IntVar(&g.Frame, "frame", 64, "")
	set.StringVar(&g.Guest, "guest", "", "")
	set.Func("cpus", "", func(text string) (err error) { g.CPUs, err = setting.ParseCPUs(text); return err })
	set.Func("consent", "", func(text string) error {
		for risk := range strings.SplitSeq(text, ",") {
			g.Consent = append(g.Consent, goal.Risk(risk))
		}
		return nil
	})
	if err := set.Parse(strings.Fields(text)); err != nil {
		return g, err
	}
	return g, g.Check()
}

// hosts are the files below hosts.
var hosts = sync.OnceValues(func() ([]*Spec, error) { return Read(os.DirFS(".")) })

func allHosts(t *testing.T) []*Spec {
	t.Helper()
	all := must.Get(hosts())(t)
	return all
}

// verdict is what mpps says of a host for a goal.
type verdict struct {
	flags  string
	goal   goal.Goal
	report audit.Report
	plan   *plan.Plan
	took   time.Duration // CPU time
	paths  []reach.Path
	guests []facts.Guest
	polled setting.CPUSet // CPUs of polling processes
	// guests that a control group or the goal gives certain CPUs
	bounded map[string]bool

	topology facts.Topology
}

// mostTime is how much CPU time an audit and a plan may take: most take a tenth, 300 guests a third of a second on a
// quiet core. A core whose other thread is busy takes twice as long.
const mostTime = 2 * time.Second

// judge audits a host and plans for it.
func judge(m *Machine, flags string) (v verdict, err error) {
	v = verdict{flags: flags}
	if v.goal, err = parseGoal(flags); err != nil {
		return v, err
	}
	took := cpuTimer()
	v.report, err = m.audit(v.goal)
	if err == nil {
		v.plan, err = plan.From(m.Host, v.goal, v.report, knob.Catalogue())
	}
	if v.took = took(); err != nil {
		return v, err
	}
	v.paths, v.guests, v.topology = reach.Of(m.Host).Paths, m.Guests, m.Topology
	v.bounded = map[string]bool{}
	for g := range facts.Each(m.Guests) {
		top := m.TopGroup(g)
		v.bounded[g.Name] = m.OwnGroup(g) != nil || top != nil && len(top.CPUs) > 0 ||
			len(v.goal.CPUs) > 0 && v.goal.ForGuest(g.Name)
	}
	for _, p := range m.Pollers {
		v.polled = v.polled.Or(p.CPUs)
	}
	return v, err
}

// audit judges a host as it is now.
func (m *Machine) audit(g goal.Goal) (r audit.Report, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("panic: %v", wrong)
		}
	}()
	return audit.Run(m.Host, g, knob.Catalogue()), nil
}

// judged returns the verdicts on a host, in the order of the goals: those of all hosts, and after them those of its own
// that are not among these.
func judged(s *Spec) ([]verdict, error) {
	m, err := s.Machine()
	if err != nil {
		return nil, err
	}
	var all []verdict
	for _, flags := range s.allGoals() {
		v, err := judge(m, flags)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", flags, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// allGoals returns the goals of all hosts and those of this one.
func (s *Spec) allGoals() []string {
	all := append([]string{}, goals...)
	for _, flags := range s.ownGoals() {
		if !slices.Contains(all, flags) {
			all = append(all, flags)
		}
	}
	return all
}

// ownGoals returns the goals that Says is about.
func (s *Spec) ownGoals() []string {
	if len(s.Goals) == 0 {
		return []string{"--pps 1.8M"}
	}
	return s.Goals
}

// owns reports whether a verdict is for one of the host's own goals.
func (s *Spec) owns(v verdict) bool { return slices.Contains(s.ownGoals(), v.flags) }
