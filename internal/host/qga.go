package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The QEMU guest agent (qga/qapi-schema.json of QEMU) is asked through libvirt, which owns its channel. Programs are run in
// the guest by their argument vector (guest-exec, since 2.5); no shell is asked for.

// agents hand commands to the agents of guests: virsh, or a test's own.
type agents interface {
	// ask hands commands to one guest's agent, one after another, and returns the "return" of each answer; nil where a
	// command failed, with what was said of it in the error. An agent that does not answer costs a few seconds.
	ask(ctx context.Context, guest string, commands ...agentCommand) ([]json.RawMessage, error)
}

// agentCommand is one command of the protocol.
type agentCommand struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

// How long an agent has for one answer, in whole seconds as virsh takes them, and all of them for one look at a guest or one
// value of it. A program in the guest may take longer than an answer. All of a guest's inside takes a dozen programs, where its
// processor is emulated five seconds each; an agent that hangs is known by the first answer then.
const (
	agentTimeout  = 2
	agentPatience = 8 * time.Second
	lookPatience  = 20 * time.Second
)

// ask runs all commands in one virsh.
func (v virsh) ask(ctx context.Context, guest string, commands ...agentCommand) ([]json.RawMessage, error) {
	lines := make([]string, len(commands))
	for i, c := range commands {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		lines[i] = fmt.Sprintf("qemu-agent-command --timeout %d --domain %s --cmd %s", agentTimeout, quoted(guest), quoted(string(text)))
	}
	outputs, said, err := v.saying(ctx, "", lines...)
	if err == nil && said != "" {
		err = errors.New(said)
	}
	answers := make([]json.RawMessage, len(commands))
	for i, output := range outputs {
		answers[i] = returned(output)
		if answers[i] == nil && err == nil {
			err = fmt.Errorf("libvirt says %q to %s", strings.TrimSpace(output), commands[i].Execute)
		}
	}
	if err != nil {
		err = agentFailure(err)
	}
	return answers, err
}

// returned is what an answer returns; nil where it is none.
func returned(output string) json.RawMessage {
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
	errAgentHangs  = errors.New("its agent does not answer: it or the guest hangs; look at the guest's console, restart qemu-guest-agent there, or run mpps in the guest")
	errAgentSlow   = fmt.Errorf("its agent answers, and what was asked for took more than %v: look again when the guest is less busy, or run mpps there", lookPatience)
	errNoAgent     = errors.New("its agent is not connected: install and start qemu-guest-agent in the guest, or run mpps there")
	errNoChannel   = errors.New("it has no channel for an agent: add <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel> to its definition and qemu-guest-agent to the guest, or run mpps there")
	errPaused      = errors.New("it is paused: resume it first")
	errMigrates    = errors.New("it is being migrated: look again when that is over, on the host where it runs then")
	errAgentRefuse = errors.New("its agent does not allow guest-exec: allow it there (qemu-ga --allow-rpcs or --block-rpcs, on RHEL in /etc/sysconfig/qemu-ga), or run mpps in the guest")
)

// agentFailure words what libvirt said (src/qemu/qemu_agent.c, qemu_domain.c), with what virsh said kept where it is none of
// the known reasons.
func agentFailure(err error) error {
	for _, known := range []struct {
		said string
		is   error
	}{
		{"domain is not running", errNotRunning}, {"Domain not found", errNotRunning}, {"failed to get domain", errNotRunning}, {"domain is not active", errNotRunning},
		{"guest agent is not connected", errNoAgent}, {"guest agent is not configured", errNoChannel}, {"guest agent is not available", errAgentHangs},
		{"guest agent didn't respond", errAgentHangs}, {"Guest agent not available for now", errAgentHangs}, {"guest agent command timed out", errAgentHangs},
		{"Guest agent disappeared", errNoAgent}, {"End of file from agent socket", errNoAgent},
	} {
		if says(err, known.said) {
			return known.is
		}
	}
	return err
}

// inGuest is a program for the agent to run in a guest.
type inGuest struct {
	argv  []string
	stdin string
}

// ran is what became of a program in the guest. err says why nothing became of it: there is no such program, or it did not
// end in time.
type ran struct {
	code     int
	out, err string
	failed   error
}

// errNotEnded marks a program of which it is not known whether and how it ended.
var errNotEnded = fmt.Errorf("%w: the program in the guest was started and its end was not seen", ErrInDoubt)

// execPauses are the pauses between looks whether programs have ended; the last one is repeated.
var execPauses = []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}

// execute runs programs in a guest side by side, and waits until all have ended. The error says why none was started. Where
// the guest or its agent goes away meanwhile, what had not ended by then is errNotEnded.
func execute(ctx context.Context, a agents, guest string, programs ...inGuest) ([]ran, error) {
	commands := make([]agentCommand, len(programs))
	for i, p := range programs {
		arguments := map[string]any{"path": p.argv[0], "arg": p.argv[1:], "capture-output": true}
		if p.stdin != "" {
			arguments["input-data"] = base64.StdEncoding.EncodeToString([]byte(p.stdin))
		}
		commands[i] = agentCommand{"guest-exec", arguments}
	}
	results := make([]ran, len(programs))
	answers, err := a.ask(ctx, guest, commands...)
	if len(answers) != len(programs) {
		return nil, err
	}
	var open []int
	pids := make([]int64, len(programs))
	for i, answer := range answers {
		pid := startedPID(answer)
		if pid == 0 {
			results[i].failed = fmt.Errorf("%s cannot be run in the guest: %w", programs[i].argv[0], cannotRun(err))
			continue
		}
		pids[i], open = pid, append(open, i)
	}
	if len(open) == 0 {
		return nil, cannotRun(err)
	}
	for look := 0; len(open) > 0; look++ {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(execPauses[min(look, len(execPauses)-1)]):
			open, err = ended(ctx, a, guest, pids, open, results)
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, errNotRunning): // otherwise what it did is gone with the guest
			err = fmt.Errorf("%w: %w", errNotEnded, err)
		}
		for _, i := range open {
			results[i].failed = fmt.Errorf("%s: %w", programs[i].argv[0], err)
		}
		break
	}
	return results, nil
}

// startedPID is the number of the process that guest-exec tells; 0 where it tells none.
func startedPID(answer json.RawMessage) int64 {
	var started struct {
		PID int64 `json:"pid"`
	}
	if answer == nil || json.Unmarshal(answer, &started) != nil {
		return 0
	}
	return started.PID
}

// cannotRun is an error, also where virsh said nothing.
func cannotRun(err error) error {
	if err == nil {
		return errors.New("its agent does not say why")
	}
	if says(err, "has been disabled", "guest-exec has not been found") {
		return errAgentRefuse
	}
	return err
}

// ended asks for those that are open, and returns those that still are.
func ended(ctx context.Context, a agents, guest string, pids []int64, open []int, results []ran) (still []int, err error) {
	commands := make([]agentCommand, len(open))
	for k, i := range open {
		commands[k] = agentCommand{"guest-exec-status", map[string]any{"pid": pids[i]}}
	}
	answers, err := a.ask(ctx, guest, commands...)
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
			results[i].failed = fmt.Errorf("ended by signal %d", status.Signal)
		case status.Cut:
			results[i].failed = errors.New("its output is larger than the agent keeps")
		default:
			results[i] = ran{code: status.Code, out: string(status.Out), err: string(status.Err)}
		}
	}
	if !silent {
		err = nil // virsh may say more than errors
	}
	return still, err
}

// problem is why a program did not do what it was run for: what it said, without its own name.
func (r ran) problem() error {
	switch {
	case r.failed != nil:
		return r.failed
	case r.code == 0:
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(r.err), "\n")
	if said == "" {
		return fmt.Errorf("exit code %d", r.code)
	}
	return errors.New(said)
}

// runningFile is what libvirt keeps of a guest that runs: state, job, channels (src/qemu/qemu_domain.c,
// qemuDomainObjPrivateXMLFormat). Only root can read it.
func (m *Machine) runningFile(guest string) (string, error) {
	return m.read(runningFolder + "/" + guest + ".xml")
}

// jobs are those of libvirt's asynchronous jobs that move a guest or its state away (virDomainAsyncJob).
var asyncJob = regexp.MustCompile(`<job [^>]*\basync='([a-z ]+)'`)

// job is the asynchronous job that libvirt does with a guest ("migration out", "migration in", "save" …); empty where there
// is none or it cannot be seen.
func (m *Machine) job(guest string) string {
	text, err := m.runningFile(guest)
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

// unreachable says from libvirt's own file why a guest's agent need not be asked; nil where nothing speaks against it. A guest
// of which there is no file does not run.
func (m *Machine) unreachable(guest string) error {
	text, err := m.runningFile(guest)
	switch {
	case err != nil && unprivileged(err):
		return errors.New("needs root")
	case err != nil:
		return errNotRunning
	}
	state, definition := parseStatus(text)
	job := m.job(guest)
	channel := agentChannel.FindStringSubmatch(definition)
	switch {
	case strings.HasPrefix(job, "migration"):
		return errMigrates
	case state == "paused":
		return errPaused
	case state != "running":
		return fmt.Errorf("it is %s", state)
	case channel == nil:
		return errNoChannel
	case channel[1] == "disconnected":
		return errNoAgent
	}
	return nil
}
