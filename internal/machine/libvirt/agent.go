package libvirt

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// The QEMU guest agent (qga/qapi-schema.json of QEMU) is asked through libvirt, which owns its channel. Programs are
// run in the guest by their argument vector (guest-exec, since 2.5); no shell is asked for.

// Agents hand commands to the agents of guests: virsh, or a test's own.
type Agents interface {
	// ask hands commands to one guest's agent, one after another, and returns the "return" of each answer; nil where a
	// command failed, with what was said of it in the error. An agent that does not answer costs a few seconds.
	Ask(ctx context.Context, guest string, commands ...AgentCommand) ([]json.RawMessage, error)
}

// AgentCommand is one command of the protocol.
type AgentCommand struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

// How long an agent has for one answer, in whole seconds as virsh takes them, and all of them for one look at a guest
// or one value of it. A program in the guest may take longer than an answer. All of a guest's inside takes a dozen
// programs, where its processor is emulated five seconds each; an agent that hangs is known by the first answer then.
const (
	AgentTimeout  = 2
	AgentPatience = 8 * time.Second
	LookPatience  = 20 * time.Second
)

// Ask runs all commands in one virsh.
func (v Virsh) Ask(ctx context.Context, guest string, commands ...AgentCommand) ([]json.RawMessage, error) {
	lines := make([]string, len(commands))
	for i, c := range commands {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		lines[i] = fmt.Sprintf("qemu-agent-command --timeout %d --domain %s --cmd %s", AgentTimeout, Quoted(guest),
			Quoted(string(text)))
	}
	outputs, said, err := v.saying(ctx, "", lines...)
	if err == nil && said != "" {
		err = errors.New(said)
	}
	answers := make([]json.RawMessage, len(commands))
	for i, output := range outputs {
		answers[i] = Returned(output)
		if answers[i] == nil && err == nil {
			err = fmt.Errorf("libvirt says %q to %s", strings.TrimSpace(output), commands[i].Execute)
		}
	}
	if err != nil {
		err = AgentFailure(err)
	}
	return answers, err
}

// Returned is what an answer returns; nil where it is none.
func Returned(output string) json.RawMessage {
	var answer struct {
		Return json.RawMessage `json:"return"`
	}
	if json.Unmarshal([]byte(strings.TrimSpace(output)), &answer) != nil {
		return nil
	}
	return answer.Return
}

// The reasons why an agent cannot be asked, each with what to do.
var (
	ErrAgentHangs = errors.New("its agent does not answer: it or the guest hangs; look at the guest's console, " +
		"restart qemu-guest-agent there, or run mpps in the guest")
	ErrAgentSlow = fmt.Errorf("its agent answers, and what was asked for took more than %v: look again when the "+
		"guest is less busy, or run mpps there", LookPatience)
	ErrNoAgent = errors.New("its agent is not connected: install and start qemu-guest-agent in the guest, or run " +
		"mpps there")
	ErrNoChannel = errors.New("it has no channel for an agent: add <channel type='unix'><target type='virtio' " +
		"name='org.qemu.guest_agent.0'/></channel> to its definition and qemu-guest-agent to the guest, or run mpps " +
		"there")
	ErrPaused      = errors.New("it is paused: resume it first")
	ErrMigrates    = errors.New("it is being migrated: look again when that is over, on the host where it runs then")
	ErrAgentRefuse = errors.New("its agent does not allow guest-exec: allow it there (qemu-ga --allow-rpcs or " +
		"--block-rpcs, on RHEL in /etc/sysconfig/qemu-ga), or run mpps in the guest")
)

// AgentFailure words what libvirt said (src/qemu/qemu_agent.c, qemu_domain.c), with what virsh said kept where it is
// none of the known reasons.
func AgentFailure(err error) error {
	for _, known := range []struct {
		said string
		is   error
	}{
		{"domain is not running", ErrNotRunning}, {"Domain not found", ErrNotRunning},
		{"failed to get domain", ErrNotRunning}, {"domain is not active", ErrNotRunning},
		{"guest agent is not connected", ErrNoAgent}, {"guest agent is not configured", ErrNoChannel},
		{"guest agent is not available", ErrAgentHangs},
		{"guest agent didn't respond", ErrAgentHangs}, {"Guest agent not available for now", ErrAgentHangs},
		{"guest agent command timed out", ErrAgentHangs},
		{"Guest agent disappeared", ErrNoAgent}, {"End of file from agent socket", ErrNoAgent},
	} {
		if tree.Mentions(err, known.said) {
			return known.is
		}
	}
	return err
}

// Call is a program for the agent to run in a guest.
type Call struct {
	Argv  []string
	Stdin string
}

// Ran is what became of a program in the guest. err says why nothing became of it: there is no such program, or it did
// not end in time.
type Ran struct {
	Code     int
	Out, Err string
	Failed   error
}

// errNotEnded marks a program of which it is not known whether and how it ended.
var errNotEnded = fmt.Errorf("%w: the program in the guest was started and its end was not seen", setting.ErrInDoubt)

// execPauses are the pauses between looks whether programs have ended; the last one is repeated.
var execPauses = []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	200 * time.Millisecond}

// Execute runs programs in a guest side by side, and waits until all have ended. The error says why none was started.
// Where the guest or its agent goes away meanwhile, what had not ended by then is errNotEnded.
func Execute(ctx context.Context, a Agents, guest string, programs ...Call) ([]Ran, error) {
	commands := make([]AgentCommand, len(programs))
	for i, p := range programs {
		arguments := map[string]any{"path": p.Argv[0], "arg": p.Argv[1:], "capture-output": true}
		if p.Stdin != "" {
			arguments["input-data"] = base64.StdEncoding.EncodeToString([]byte(p.Stdin))
		}
		commands[i] = AgentCommand{"guest-exec", arguments}
	}
	results := make([]Ran, len(programs))
	answers, err := a.Ask(ctx, guest, commands...)
	if len(answers) != len(programs) {
		return nil, err
	}
	var open []int
	pids := make([]int64, len(programs))
	for i, answer := range answers {
		pid := StartedPID(answer)
		if pid == 0 {
			results[i].Failed = fmt.Errorf("%s cannot be run in the guest: %w", programs[i].Argv[0], CannotRun(err))
			continue
		}
		pids[i], open = pid, append(open, i)
	}
	if len(open) == 0 {
		return nil, CannotRun(err)
	}
	for look := 0; len(open) > 0; look++ {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(execPauses[min(look, len(execPauses)-1)]):
			open, err = Ended(ctx, a, guest, pids, open, results)
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, ErrNotRunning): // otherwise what it did is gone with the guest
			err = fmt.Errorf("%w: %w", errNotEnded, err)
		}
		for _, i := range open {
			results[i].Failed = fmt.Errorf("%s: %w", programs[i].Argv[0], err)
		}
		break
	}
	return results, nil
}

// StartedPID is the number of the process that guest-exec tells; 0 where it tells none.
func StartedPID(answer json.RawMessage) int64 {
	var started struct {
		PID int64 `json:"pid"`
	}
	if answer == nil || json.Unmarshal(answer, &started) != nil {
		return 0
	}
	return started.PID
}

// CannotRun is an error, also where virsh said nothing.
func CannotRun(err error) error {
	if err == nil {
		return errors.New("its agent does not say why")
	}
	if tree.Mentions(err, "has been disabled", "guest-exec has not been found") {
		return ErrAgentRefuse
	}
	return err
}

// Ended asks for those that are open, and returns those that still are.
func Ended(ctx context.Context, a Agents, guest string, pids []int64, open []int, results []Ran) (still []int,
	err error) {
	commands := make([]AgentCommand, len(open))
	for k, i := range open {
		commands[k] = AgentCommand{"guest-exec-status", map[string]any{"pid": pids[i]}}
	}
	answers, err := a.Ask(ctx, guest, commands...)
	silent := false
	for k, i := range open {
		var status struct {
			Exited bool   `json:"exited"`
			Code   int    `json:"exitcode"`
			Signal int    `json:"signal"`
			Out    []byte `json:"out-data"`
			Err    []byte `json:"err-data"`
			Cut    bool   `json:"out-truncated"`
		}
		switch {
		case k >= len(answers) || answers[k] == nil || json.Unmarshal(answers[k], &status) != nil, !status.Exited:
			still, silent = append(still, i), silent || k >= len(answers) || answers[k] == nil
		case status.Signal != 0:
			results[i].Failed = fmt.Errorf("ended by signal %d", status.Signal)
		case status.Cut:
			results[i].Failed = errors.New("its output is larger than the agent keeps")
		default:
			results[i] = Ran{Code: status.Code, Out: string(status.Out), Err: string(status.Err)}
		}
	}
	if !silent {
		err = nil // virsh may say more than errors
	}
	return still, err
}

// Problem is why a program did not do what it was run for: what it said, without its own name.
func (r Ran) Problem() error {
	switch {
	case r.Failed != nil:
		return r.Failed
	case r.Code == 0:
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(r.Err), "\n")
	if said == "" {
		return fmt.Errorf("exit code %d", r.Code)
	}
	return errors.New(said)
}

// runningFile is what libvirt keeps of a guest that runs: state, job, channels (src/qemu/qemu_domain.c,
// qemuDomainObjPrivateXMLFormat). Only root can read it.
func runningFile(m *tree.Tree, guest string) (string, error) {
	return m.Read(RunningFolder + "/" + guest + ".xml")
}

// jobs are those of libvirt's asynchronous jobs that move a guest or its state away (virDomainAsyncJob).
var asyncJob = regexp.MustCompile(`<job [^>]*\basync='([a-z ]+)'`)

// Job is the asynchronous job that libvirt does with a guest ("migration out", "migration in", "save" …); empty where
// there is none or it cannot be seen.
func Job(m *tree.Tree, guest string) string {
	text, err := runningFile(m, guest)
	if err != nil {
		return ""
	}
	head, _, _ := strings.Cut(text, "<domain ")
	match := asyncJob.FindStringSubmatch(head)
	if match == nil || match[1] == "none" {
		return ""
	}
	return match[1]
}

// agentChannel finds the channel of the agent, of which libvirt knows whether somebody in the guest has opened it.
var agentChannel = regexp.MustCompile(`<target type='virtio' name='org\.qemu\.guest_agent\.0'(?: state='([a-z]+)')?/>`)

// Unreachable says from libvirt's own file why a guest's agent need not be asked; nil where nothing speaks against it.
// A guest of which there is no file does not run.
func Unreachable(m *tree.Tree, guest string) error {
	text, err := runningFile(m, guest)
	switch {
	case err != nil && tree.Unprivileged(err):
		return errors.New("needs root")
	case err != nil:
		return ErrNotRunning
	}
	state, definition := parseStatus(text)
	job := Job(m, guest)
	channel := agentChannel.FindStringSubmatch(definition)
	switch {
	case strings.HasPrefix(job, "migration"):
		return ErrMigrates
	case state == "paused":
		return ErrPaused
	case state != "running":
		return fmt.Errorf("it is %s", state)
	case channel == nil:
		return ErrNoChannel
	case channel[1] == "disconnected":
		return ErrNoAgent
	}
	return nil
}
