package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/golden"
	"mpps/internal/measure/acceptance"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
)

// setUps are what people may say of a set-up: each experiment has other steps for some.
func setUps() map[string]acceptance.Inputs {
	whole := acceptance.Inputs{
		Guest: "vm1", From: "eth1", Agent: "192.0.2.2:7878", SecretFile: "/root/secret", VFAgent: "192.0.2.3:7878",
		TunnelAgent: "192.0.2.4:7878", TunnelFrom: "vxlan0", MoreVFAgents: []string{"192.0.2.6:7878"},
		VFTunnelAgent: "192.0.2.7:7878",
		PF:            "ens1f0", NIC: "ens1f0", CPUs: "20-23", GuestCPU: "1", Generator: "xdp", Sink: "xdp-skb",
		SendOn:  "2-3",
		Consent: []string{"security", "connectivity"},
		Modes:   []string{"native=192.0.2.1:7878,from=eth1", "vf=192.0.2.5:7878,from=eth1"}, Dir: "out/run-1",
	}.Defaults()
	routed := whole
	routed.Agent, routed.From, routed.Via, routed.Out, routed.Gateway = "", "", "br0", "br1", "198.18.0.254"
	trial := acceptance.Inputs{Guest: "vm1", Trial: "trex.py --server 192.0.2.9",
		HostTrials: []string{"l3=trex.py --server 192.0.2.9 --ports 2,3", "dpdk=trex.py --ports 4,5"}, MaxPPS: "14.88M",
		Compliant: true, Dir: "d"}.Defaults()
	short := whole
	short.Short = true
	contained := whole
	contained.Guest, contained.Container, contained.Engine, contained.Trials = "", true, "netperf", "3x60s"
	lab := acceptance.Inputs{
		Guest: "web1", Via: "br0", Agent: "10.50.0.2:7878", SecretFile: "/share/secret", Sink: "af_packet",
		PPS: "500k", Consent: []string{"security"}, NoReboot: true, Short: true, Dir: "d",
	}.Defaults()
	made := acceptance.Inputs{MakeGuests: true, Via: "br0", From: "eth1", GuestAddress: "192.0.2.10/24", Dir: "d",
		SecretFile: "/root/secret", Modes: []string{"native=192.0.2.1:7878,from=eth1"}}.Defaults()
	made = acceptance.Find("modes").Settle(made, &facts.Host{})
	return map[string]acceptance.Inputs{"made": made, "agent": whole, "routed": routed, "trial": trial, "short": short,
		"in the lab": lab, "contained": contained}
}

// TestAcceptanceCommands: every command of every experiment is one that the program takes.
func TestAcceptanceCommands(t *testing.T) {
	n := 0
	parse := func(where string, argv []string) {
		n++
		w := written{where: where, words: argv}
		must.Succeed(t, w.parses(), "%s", w)
	}
	for name, in := range setUps() {
		for _, e := range acceptance.All() {
			for _, s := range e.Steps(in) {
				where := name + ", " + e.Name + ", " + s.ID
				if len(s.Argv) > 0 {
					parse(where, s.Argv)
				}
				if len(s.Again) > 0 {
					parse(where+", again", s.Again)
				}
				if len(s.Beside) > 0 {
					parse(where+", beside", s.Beside)
				}
			}
			for _, f := range e.Figures(in) {
				for _, look := range f.Look {
					parse(name+", "+f.ID, strings.Fields(look)[1:])
				}
			}
		}
	}
	must.Hold(t, n >= 100, "only %d commands were looked at", n)
}

// TestAcceptanceHints: what people are told to do about what is missing are commands that there are.
func TestAcceptanceHints(t *testing.T) {
	empty := acceptance.Seen{Host: &facts.Host{NICs: []facts.NIC{{Name: "ens1f0", SRIOV: &facts.SRIOV{Total: 8}}}}}
	refused := errors.New("refused")
	busy := acceptance.Seen{Making: &acceptance.Making{Kernel: refused, KVM: refused, Vhost: refused, Init: refused,
		Libvirt: refused, Modules: map[string]error{"e1000": refused}}, Agents: map[acceptance.Agent]error{{At: "192.0.2.2:7878"}: errors.New("refused")}, Host: &facts.Host{
		Guests: []facts.Guest{{Name: "vm1", State: "shut off"}, {Name: "mpps-vhost"}}, VFs: []facts.VF{{PF: "ens1f0", Guest: "vm1"}},
		NICs: empty.Host.NICs}}
	n := 0
	for _, in := range append(slices.Collect(maps.Values(setUps())), acceptance.Inputs{}) {
		for _, seen := range []acceptance.Seen{empty, busy} {
			for _, e := range acceptance.All() {
				for _, c := range e.Look(in, seen) {
					for _, quoted := range regexp.MustCompile(`'(mpps [^']*)'`).FindAllStringSubmatch(c.Hint, -1) {
						n++
						for _, w := range commandsIn(e.Name+", "+c.Code, quoted[1]) {
							must.Succeed(t, w.parses(), "%s", w)
						}
					}
				}
			}
		}
	}
	must.Hold(t, n >= 20, "only %d commands were looked at", n)
}

// TestMeasurementsMeetTheirFlags: what a measuring step's flags add up to is not refused before it begins.
func TestMeasurementsMeetTheirFlags(t *testing.T) {
	for name, in := range setUps() {
		if name == "made" { // guests for modes alone
			continue
		}
		for _, e := range []string{"throughput", "queues", "sriov"} {
			if e == "sriov" && name != "agent" && name != "short" {
				continue // wants --from
			}
			for _, s := range acceptance.Find(e).Steps(in) {
				var err error
				switch {
				case s.Gives == acceptance.Searched:
					err = searchOf(s.Argv)
				case s.Gives == acceptance.GivesRun:
					err = planOf(s.Argv)
				}
				if err == nil && len(s.Beside) > 0 {
					err = planOf(s.Beside)
				}
				if err != nil {
					t.Errorf("%s, %s, %s: %s: %v", name, e, s.ID, founding.Command(s.Argv), err)
				}
			}
		}
	}
}

// searchOf turns the flags of a search into its options and, with our own generator, a load.
func searchOf(argv []string) error {
	var f searchFlags
	cmd := (&app{}).searchCommand()
	cmd.ResetFlags()
	f.add(cmd)
	if err := cmd.ParseFlags(argv[1:]); err != nil {
		return err
	}
	if _, err := f.options(); err != nil || f.command != "" {
		return err
	}
	_, err := f.load()
	return err
}

// planOf turns the flags of a bench pps into a load.
func planOf(argv []string) error {
	var f ppsFlags
	cmd := (&app{}).benchPPS()
	cmd.ResetFlags()
	f.add(cmd)
	if err := cmd.ParseFlags(argv[2:]); err != nil {
		return err
	}
	_, err := f.load()
	return err
}

// bareTree is a recorded machine without libvirt, where a plan can be carried out.
func bareTree(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "machine")
	must.Do(t, golden.Tree("testdata/trees/two-nodes.txtar", root))
	// a definition is written by libvirt alone
	for _, guest := range []string{"etc/libvirt", "run/libvirt", "proc/2001"} {
		must.Do(t, os.RemoveAll(filepath.Join(root, guest)))
	}
	return root
}

// TestAcceptanceRun carries steps out on a recorded machine, over a reboot: what is applied is put back in the end, and
// the report tells.
func TestAcceptanceRun(t *testing.T) {
	root, dir := bareTree(t), t.TempDir()
	var out, said bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &said, root: root, quiet: true}
	a.out = report.NewPrinter(&out, &said, report.Options{Quiet: true})
	p := &accept.Report{Report: &acceptance.Report{Schema: acceptance.Schema, Runs: []*acceptance.Run{}}, Dir: dir}
	in := acceptance.Inputs{Dir: filepath.Join(dir, "throughput-1")}.Defaults()
	step := func(id string, phase acceptance.Phase, gives acceptance.Gives, argv ...string) acceptance.StepDone {
		return acceptance.StepDone{Step: acceptance.Step{ID: id, Phase: phase, Does: id, Argv: argv, Gives: gives},
			State: acceptance.Pending}
	}
	run := &acceptance.Run{Name: "throughput", Title: "t", Inputs: in, Started: time.Unix(0, 0),
		State: acceptance.Running, Machine: &acceptance.Machine{}}
	wait := step("boot", acceptance.Wait, "")
	wait.For = acceptance.Boot
	run.Steps = []acceptance.StepDone{
		step("machine", acceptance.Look, "", "snapshot", "--scrub", "-o", filepath.Join(in.Dir, "machine.json")),
		step("plan1", acceptance.Mend, acceptance.Planned, "plan", "--pps", "500k", "-o",
			filepath.Join(in.Dir, "plan1.json")),
		step("apply1", acceptance.Mend, acceptance.Applied, "apply", filepath.Join(in.Dir, "plan1.json"), "--confirm",
			"0"),
		wait,
		step("verify", acceptance.Look, "", "verify"),
		step("rollback", acceptance.Undo, ""),
		step("status", acceptance.Look, "", "status"),
	}
	must.Do(t, p.Add(run))
	before := snapshotOf(t, root)
	must.Do(t, a.acceptanceRunner(p).Continue(t.Context(), run))
	must.Need(t, run.State == acceptance.Waiting && len(run.Standing) == 1 && strings.Contains(run.Hint, "--resume"),
		"%s: %s (%s), standing %v", run.State, run.Why, run.Hint, run.Standing)
	must.Hold(t, !bytes.Equal(before, snapshotOf(t, root)), "nothing was changed")
	// Before the reboot it waits on, whoever asks.
	again := must.Get(accept.Open(dir))(t)
	run = again.Last("throughput")
	if err := a.acceptanceRunner(again).Continue(t.Context(), run); err != nil || run.State != acceptance.Waiting {
		t.Fatalf("without a reboot: %s, %v", run.State, err)
	}
	boot := filepath.Join(root, "proc/sys/kernel/random/boot_id")
	must.Do(t, os.WriteFile(boot, []byte("11111111-2222-3333-4444-555555555555\n"), 0o644))
	must.Do(t, a.acceptanceRunner(again).Continue(t.Context(), run))
	must.Hold(t, run.State == acceptance.Done && len(run.Standing) == 0 && run.Restarted,
		"%s: %s; standing %v, steps %+v", run.State, run.Why, run.Standing, run.Steps)
	for _, s := range run.Steps {
		must.Hold(t, s.State == acceptance.Ended, "step %s: %s %s", s.ID, s.State, s.Problem)
	}
	for _, file := range []string{accept.HTML, accept.JSON, "throughput-1/machine.json", "throughput-1/plan1.json",
		"throughput-1/apply1.json", "throughput-1/rollback-1.json"} {
		must.Try(t, must.Err(os.Stat(filepath.Join(dir, file))))
	}
	must.Hold(t, out.Len() <= 0, "steps printed: %s", out.String())
	must.Do(t, os.Remove(boot))
	if after := snapshotOf(t, root); !bytes.Equal(before, after) {
		t.Error("the machine is not as it was")
	}
}

// snapshotOf are the values of a recorded machine that a plan changes, as the catalogue reads them.
func snapshotOf(t *testing.T, root string) []byte {
	t.Helper()
	var out, said bytes.Buffer
	if code := run([]string{"audit", "--pps", "500k", "--root", root}, strings.NewReader(""), &out,
		&said); code != outcome.CodeOK {
		t.Fatalf("audit: %d, %s", code, said.String())
	}
	return out.Bytes()
}

// TestAcceptanceBreaks: a step that fails ends the run, which says what stands and goes on with the step when it is
// resumed.
func TestAcceptanceBreaks(t *testing.T) {
	root, dir := bareTree(t), t.TempDir()
	var out, said bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &said, root: root, quiet: true}
	a.out = report.NewPrinter(&out, &said, report.Options{Quiet: true})
	p := &accept.Report{Report: &acceptance.Report{Schema: acceptance.Schema}, Dir: dir}
	r := &acceptance.Run{Name: "modes", Inputs: acceptance.Inputs{Dir: filepath.Join(dir, "modes-1")},
		Machine: &acceptance.Machine{}, Steps: []acceptance.StepDone{
			{Step: acceptance.Step{ID: "bad", Argv: []string{"audit", "--pps", "nonsense"}}, State: acceptance.Pending},
		}}
	must.Do(t, p.Add(r))
	must.Do(t, a.acceptanceRunner(p).Continue(t.Context(), r))
	if s := r.Steps[0]; r.State != acceptance.Failed || s.State != acceptance.Broke || s.Code != outcome.CodeUsage ||
		!strings.Contains(r.Why, "--pps") || r.Hint == "" {
		t.Errorf("%s: %s (%s); %+v", r.State, r.Why, r.Hint, s)
	}
	r.Steps[0].Argv = []string{"audit", "--pps", "500k"}
	if err := a.acceptanceRunner(p).Continue(t.Context(), r); err != nil || r.State != acceptance.Done ||
		r.Steps[0].Problem != "" {
		t.Errorf("resumed: %s %s, %v", r.State, r.Why, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Steps[0].State = acceptance.Pending
	if err := a.acceptanceRunner(p).Continue(ctx, r); err != nil || r.State != acceptance.Failed ||
		r.Steps[0].State != acceptance.Pending {
		t.Errorf("interrupted: %s %s, step %s, %v", r.State, r.Why, r.Steps[0].State, err)
	}
	must.Try(t, p.SetMachine(&acceptance.Machine{CPU: "one"}))
	must.Refuse(t, p.SetMachine(&acceptance.Machine{CPU: "another"}), "two machines in one report")
}

func TestAcceptanceCode(t *testing.T) {
	of := func(states ...acceptance.RunState) []*acceptance.Run {
		return facts.Map(states, func(s acceptance.RunState) *acceptance.Run { return &acceptance.Run{State: s} })
	}
	for _, c := range []struct {
		runs []*acceptance.Run
		code int
	}{
		{of(acceptance.Done, acceptance.Done), outcome.CodeOK}, {of(acceptance.Done, acceptance.Lacking),
			outcome.CodeNotConfigured},
		{of(acceptance.Lacking, acceptance.Waiting), outcome.CodeChanges}, {of(acceptance.Lacking, acceptance.Failed),
			outcome.CodeFailed},
	} {
		must.Equal(t, accept.Code(c.runs), c.code, "%+v", c.runs)
	}
}
