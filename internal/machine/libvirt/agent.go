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

// The QEMU guest agent (qga/qapi-schema.json of QEMU) is reached through libvirt, which owns its channel. Programs are
// run in the guest by their argument vector (guest-exec, since 2.5), never by a shell.

// Agents sends commands to guest agents: virsh, or a test's fake.
type Agents interface {
	// Ask sends commands to one guest's agent, one after another, and returns the "return" of each reply; nil for a
	// command that failed, with the reason in the error. An agent that does not reply costs a few seconds.
	Ask(ctx context.Context, guest string, commands ...AgentCommand) ([]json.RawMessage, error)
}

// AgentCommand is one command of the protocol.
type AgentCommand struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

const (
	AgentTimeout  = 5                // how long an agent may take for one reply, in whole seconds for virsh
	AgentPatience = 25 * time.Second // for all replies about one value, or one program
	// LookPatience is for a whole look inside a guest: a dozen programs, which take 5 s each on an emulated processor.
	// An agent that hangs is detected by the first reply.
	LookPatience = 60 * time.Second
)

// Ask sends all commands in one run of virsh.
func (v Virsh) Ask(ctx context.Context, guest string, commands ...AgentCommand) ([]json.RawMessage, error) {
	lines := make([]string, len(commands))
	for i, c := range commands {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		lines[i] = fmt.Sprintf("qemu-agent-command --timeout %d --domain %s --cmd %s", AgentTimeout, Quote(guest),
			Quote(string(text)))
	}
	outputs, stderr, err := v.runVerbose(ctx, "", lines...)
	if err == nil && stderr != "" {
		err = errors.New(stderr)
	}
	answers := make([]json.RawMessage, len(commands))
	for i, output := range outputs {
		answers[i] = ReturnValue(output)
		if answers[i] == nil && err == nil {
			err = fmt.Errorf("libvirt says %.200q to %s", strings.TrimSpace(output), commands[i].Execute)
		}
	}
	if err != nil {
		err = AgentFailure(err)
	}
	return answers, err
}

// ReturnValue returns the "return" of an agent's reply; nil if it is not a reply.
func ReturnValue(output string) json.RawMessage {
	var answer struct {
		Return json.RawMessage `json:"return"`
	}
	if json.Unmarshal([]byte(strings.TrimSpace(output)), &answer) != nil {
		return nil
	}
	return answer.Return
}

// The reasons why an agent cannot be reached, each with what to do.
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

// AgentFailure translates libvirt's messages (src/qemu/qemu_agent.c, qemu_domain.c) into the errors above. Other errors
// are returned unchanged.
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

// Result is the result of a program in the guest. Failed is set if it has none: there is no such program, or it did not
// end in time.
type Result struct {
	Code     int
	Out, Err string
	Failed   error
}

// errNotEnded is the error for a program whose end is unknown.
var errNotEnded = fmt.Errorf("%w: the program in the guest was started and its end was not seen", setting.ErrInDoubt)

// execPauses are the pauses between polls; the last one is repeated.
var execPauses = []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	200 * time.Millisecond}

// Execute runs programs in a guest in parallel and waits until all have ended. It returns an error if none could be
// started. If the guest or its agent disappears, programs that had not ended fail with errNotEnded.
func Execute(ctx context.Context, a Agents, guest string, programs ...Call) ([]Result, error) {
	commands := make([]AgentCommand, len(programs))
	for i, p := range programs {
		arguments := map[string]any{"path": p.Argv[0], "arg": p.Argv[1:], "capture-output": true}
		if p.Stdin != "" {
			arguments["input-data"] = base64.StdEncoding.EncodeToString([]byte(p.Stdin))
		}
		commands[i] = AgentCommand{"guest-exec", arguments}
	}
	results := make([]Result, len(programs))
	answers, err := a.Ask(ctx, guest, commands...)
	if len(answers) != len(programs) {
		return nil, err
	}
	var open []int
	pids := make([]int64, len(programs))
	for i, answer := range answers {
		pid := StartedPID(answer)
		if pid == 0 {
			results[i].Failed = fmt.Errorf("%s cannot be run in the guest: %w", programs[i].Argv[0], AskError(err))
			continue
		}
		pids[i], open = pid, append(open, i)
	}
	if len(open) == 0 {
		return nil, AskError(err)
	}
	for look := 0; len(open) > 0; look++ {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(execPauses[min(look, len(execPauses)-1)]):
			open, err = Poll(ctx, a, guest, pids, open, results)
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, ErrNotRunning): // if the guest is gone, so are its effects
			err = fmt.Errorf("%w: %w", errNotEnded, err)
		}
		for _, i := range open {
			results[i].Failed = fmt.Errorf("%s: %w", programs[i].Argv[0], err)
		}
		break
	}
	return results, nil
}

// StartedPID returns the PID in a reply to guest-exec; 0 if there is none.
func StartedPID(answer json.RawMessage) int64 {
	var started struct {
		PID int64 `json:"pid"`
	}
	if answer == nil || json.Unmarshal(answer, &started) != nil {
		return 0
	}
	return started.PID
}

// AskError returns the error of a command without a reply, even if virsh printed none.
func AskError(err error) error {
	if err == nil {
		return errors.New("its agent does not say why")
	}
	if tree.Mentions(err, "has been disabled", "guest-exec has not been found") {
		return ErrAgentRefuse
	}
	return err
}

// Poll polls the open programs, stores the results of those that have ended, and returns those that still run.
func Poll(ctx context.Context, a Agents, guest string, pids []int64, open []int, results []Result) (still []int,
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
			results[i] = Result{Code: status.Code, Out: string(status.Out), Err: string(status.Err)}
		}
	}
	if !silent {
		err = nil // virsh's messages are not all errors
	}
	return still, err
}

// Problem returns why a program failed: the first line of its standard error, or its exit code; nil if it did not fail.
func (r Result) Problem() error {
	switch {
	case r.Failed != nil:
		return r.Failed
	case r.Code == 0:
		return nil
	}
	line := FirstLine(r.Err)
	if line == "" {
		return fmt.Errorf("exit code %d", r.Code)
	}
	return errors.New(line)
}

// mostShown is how many bytes of a text from a guest are shown or kept as one name.
const mostShown = 400

// FirstLine returns the beginning of a guest's text up to a line end, which need not come within 64 MiB.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > mostShown {
		line = strings.ToValidUTF8(line[:mostShown], "") + "…"
	}
	return line
}

// runningFile returns libvirt's status file of a running guest: state, job, channels (src/qemu/qemu_domain.c,
// qemuDomainObjPrivateXMLFormat). Only root can read it.
func runningFile(m *tree.Tree, guest string) (string, error) {
	return m.Read(RunningFolder + "/" + guest + ".xml")
}

// asyncJob matches libvirt's asynchronous job in a status file (virDomainAsyncJob).
var asyncJob = regexp.MustCompile(`<job [^>]*\basync='([a-z ]+)'`)

// Job returns libvirt's asynchronous job of a guest ("migration out", "migration in", "save" …); empty if there is none
// or it is unknown.
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

// agentChannel matches the agent's channel and its state: whether a process in the guest has opened it.
var agentChannel = regexp.MustCompile(`<target type='virtio' name='org\.qemu\.guest_agent\.0'(?: state='([a-z]+)')?/>`)

// Unreachable returns an error if libvirt's status file shows that a guest's agent cannot be reached. A guest without a
// status file does not run.
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

// Allows returns an error unless an agent's reply to guest-info has the wanted commands enabled. Disabled commands are
// in the reply, marked as not enabled.
func Allows(answer json.RawMessage, wanted ...string) error {
	var info struct {
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := json.Unmarshal(answer, &info); err != nil {
		return fmt.Errorf("its agent answers %.200q to guest-info", answer)
	}
	enabled := map[string]bool{}
	for _, c := range info.Commands {
		enabled[c.Name] = enabled[c.Name] || c.Enabled
	}
	for _, name := range wanted {
		if !enabled[name] {
			return ErrAgentRefuse
		}
	}
	return nil
}
