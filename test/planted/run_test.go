package planted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/bottleneck"
)

// Options say how scenarios are run.
type Options struct {
	Mpps   string // the program
	Record string // directory that loads are written to, NAME.json; empty: none
	Args   []string
	Scale  float64 // of rates, for machines that are slower than those that the scenarios were written on; 0: 1
}

// Outcome is what came of a scenario.
type Outcome struct {
	Scenario  Scenario
	LeftOut   string // why it was not run; empty: it was
	Error     error  // it could not be built or diagnosed
	Sent      uint64 // while mpps watched, about: from before it began until after it ended
	Delivered uint64
	Seconds   float64
	Found     *bottleneck.Diagnosis
	Wrong     string  // why the answer is not the expected one; empty: it is
	Blunt     string  // why the plant is none: the path carries what it should not, or the other way round
	Others    float64 // how many of the path's CPUs programs outside of the scene took meanwhile
	// it did not come out right and programs outside of the scene took too much of the path's CPUs to say why
	Disturbed bool
	Repeated  bool // it did not come out right and was played once more: that counts in its place
}

// Right reports whether mpps said first what was planted.
func (o Outcome) Right() bool {
	return o.LeftOut == "" && o.Error == nil && o.Wrong == "" && o.Blunt == ""
}

// CPUs are those that this process may use.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var all []int
	for n := range 1024 {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// alone waits until no other runner has a scenario on this machine: each would be found in the other's answers.
func alone() (release func(), err error) {
	f, err := os.OpenFile("/run/mpps-planted.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for other runners: %w", err)
	}
	return func() { f.Close() }, nil
}

// missing says what a scenario needs and is not here; empty: nothing.
func (s *Scenario) missing(cpus []int) string {
	if len(cpus) < s.Needs.CPUs {
		return fmt.Sprintf("needs %d CPUs", s.Needs.CPUs)
	}
	for _, program := range s.Needs.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return "needs the program " + program
		}
	}
	if s.Needs.OwnKernel && os.Getenv("MPPS_PLANTED_OWN_KERNEL") == "" {
		return "needs its own kernel: the lab, or MPPS_PLANTED_OWN_KERNEL=1"
	}
	return ""
}

// Play builds a scenario's path, plants, drives traffic, has mpps diagnose it, and takes everything down.
func Play(ctx context.Context, s Scenario, o Options) (out Outcome) {
	out.Scenario = s
	cpus, err := CPUs()
	if err != nil {
		out.Error = err
		return out
	}
	if out.LeftOut = s.missing(cpus); out.LeftOut != "" {
		return out
	}
	release, err := alone()
	if err != nil {
		out.Error = err
		return out
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	o.Scale = cmp.Or(o.Scale, 1)
	at := &scene{s: s.scaled(o.Scale), tick: time.Duration(float64(time.Millisecond) / o.Scale),
		base: fmt.Sprintf("pl%d-", os.Getpid()), cpus: cpus, mpps: o.Mpps}
	defer func() { out.Error = errors.Join(out.Error, at.close()) }()
	if out.Error = at.open(ctx); out.Error != nil {
		return out
	}
	if why, err := at.lacks(ctx); err != nil || why != "" {
		out.LeftOut, out.Error = why, err
		return out
	}
	for i, step := range s.Plant {
		if err := at.plant(ctx, step); err != nil {
			out.Error = fmt.Errorf("step %d: %w", i, err)
			return out
		}
	}
	if out.Error = at.send(ctx); out.Error != nil {
		return out
	}
	time.Sleep(500 * time.Millisecond) // until rings and queues are as full as they get
	out.Error = at.watch(ctx, o, &out)
	if out.Error == nil {
		out.judge(at.words())
		out.disturb()
	}
	return out
}

// lacks says what the kernel or the path does not have of what is needed.
func (s *scene) lacks(ctx context.Context) (string, error) {
	for _, file := range s.s.Needs.Files {
		_, err := s.host.read(s.words().Replace(file))
		if errors.Is(err, os.ErrNotExist) {
			return "needs " + file, nil
		}
		if err != nil {
			return "", err
		}
	}
	for _, words := range s.s.Needs.Works {
		if err := s.run(ctx, &Run{Argv: words}); err != nil {
			return "needs that this works: " + err.Error(), nil
		}
	}
	return "", nil
}

// send starts the streams that come from the wire; guests send from when they are there.
func (s *scene) send(ctx context.Context) error {
	for i, t := range s.s.Traffic {
		if t.From != wire {
			continue
		}
		var to *placedEnd
		for _, e := range s.ends {
			if e.Name == t.To {
				to = e
			}
		}
		link, err := s.wire.on.LinkByName(s.outer())
		if err != nil {
			return err
		}
		f := flow{Src: link.Attrs().HardwareAddr, Dst: to.mac, To: to.ip, Bytes: t.Frame, Flows: t.Flows, Port: t.Port,
			Source: t.Source, TTL: t.TTL, BadSum: t.BadSum, Whole: t.Whole, Targets: t.Targets}
		if s.s.Path.Forward == "route" {
			nic, err := s.host.on.LinkByName(nicName)
			if err != nil {
				return err
			}
			f.Dst = nic.Attrs().HardwareAddr
		}
		if t.Unknown {
			f.Dst = net.HardwareAddr{0x52, 0x54, 0, 0, 0xff, 0xfe}
		}
		p := &senderPart{Device: s.outer(), PPS: t.PPS, Flow: f, Tick: t.tick(s.tick)}
		a, err := startActor(ctx, fmt.Sprintf("sender %d", i),
			part{Netns: s.wire.netns, Comm: "wire", CPUs: s.real([]int{t.CPU}), Sender: p})
		if err != nil {
			return err
		}
		s.senders = append(s.senders, a)
		s.later(a.stop)
	}
	return nil
}

// total is what all have sent and received.
func (s *scene) total() (sum counts, err error) {
	add := func(c counts) {
		sum.Sent, sum.Received, sum.Refused = sum.Sent+c.Sent, sum.Received+c.Received, sum.Refused+c.Refused
	}
	actors := s.senders
	for _, e := range s.ends {
		if e.actor != nil {
			actors = append(actors[:len(actors):len(actors)], e.actor)
		}
	}
	for _, a := range actors {
		c, err := a.ask()
		if err != nil {
			return sum, err
		}
		add(c)
	}
	arrived := func(p *place, device string) error {
		l, err := p.on.LinkByName(device)
		if err == nil {
			add(counts{Received: l.Attrs().Statistics.RxPackets})
		}
		return err
	}
	for _, t := range s.s.Traffic {
		if t.From != wire {
			return sum, arrived(s.wire, "wire0")
		}
	}
	for _, e := range s.ends {
		if e.Kind == "counter" {
			if err := arrived(e.place, "eth0"); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// watch has mpps diagnose the host.
func (s *scene) watch(ctx context.Context, o Options, out *Outcome) error {
	before, err := s.total()
	if err != nil {
		return err
	}
	cpuBefore, err := readCPUTime(s.cpus)
	if err != nil {
		return err
	}
	argv := []string{o.Mpps, "--json", "diagnose", "--for", fmt.Sprintf("%gs", s.s.For)}
	if o.Record != "" {
		argv = append(argv, "-o", filepath.Join(o.Record, s.s.Name+".json"))
	}
	for _, e := range s.ends {
		if e.place != nil && !e.Unwatched {
			argv = append(argv, "--netns", e.place.netns)
		}
	}
	c, err := command(ctx, part{Netns: s.host.netns, Exec: append(argv, o.Args...)})
	if err != nil {
		return err
	}
	var said, told strings.Builder
	c.Stdout, c.Stderr = &said, &told
	err = c.Run()
	cpuAfter, failed := readCPUTime(s.cpus)
	if failed != nil {
		return failed
	}
	out.Seconds, out.Others = cpuAfter.at.Sub(cpuBefore.at).Seconds(), others(cpuBefore, cpuAfter)
	after, failed := s.total()
	if failed != nil {
		return failed
	}
	out.Sent, out.Delivered = after.Sent+after.Refused-before.Sent-before.Refused, after.Received-before.Received
	// 5 is its exit code where the measurement's own ends are the limit.
	if err != nil && c.ProcessState.ExitCode() != 5 {
		return fmt.Errorf("mpps diagnose: %w: %s", err, strings.TrimSpace(told.String()))
	}
	var envelope struct {
		Result bottleneck.Diagnosis `json:"result"`
	}
	if err := json.Unmarshal([]byte(said.String()), &envelope); err != nil {
		return fmt.Errorf("mpps diagnose: %w: %.200s", err, said.String())
	}
	out.Found = &envelope.Result
	if o.Record != "" {
		return slimFile(filepath.Join(o.Record, s.s.Name+".json"))
	}
	return nil
}
