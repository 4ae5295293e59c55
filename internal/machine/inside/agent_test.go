package inside

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/must"
)

// thisMachine is an agent that runs programs on this machine, as a guest's agent runs them there. ended are the results
// of those that have ended, by PID.
type thisMachine struct {
	t       *testing.T
	ended   []map[string]any
	asked   int
	vanish  int   // from this call on nobody answers; 0: never
	because error // then

	// dir holds the guest's files: programs run there, and absolute paths lead below it; empty: this machine's
	dir string
}

// below returns the path of a program and its arguments in the directory of the guest's files.
func (m *thisMachine) below(name string, args []string) (string, []string) {
	if m.dir == "" {
		return name, args
	}
	if own := filepath.Join(m.dir, "usr/sbin", name); !strings.Contains(name, "/") {
		if _, err := os.Stat(own); err == nil {
			name = own
		}
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if option, file, found := strings.Cut(arg, "/"); found && (option == "" || option == "of=") {
			args[i] = option + "./" + file
		}
	}
	return name, args
}

func (m *thisMachine) Ask(_ context.Context, guest string, commands ...libvirt.AgentCommand) ([]json.RawMessage,
	error) {
	m.asked++
	if m.vanish > 0 && m.asked >= m.vanish {
		return make([]json.RawMessage, len(commands)), m.because
	}
	var errs []error
	answers := make([]json.RawMessage, len(commands))
	for i, c := range commands {
		answer, err := m.do(guest, c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if answers[i], err = json.Marshal(answer); err != nil {
			m.t.Fatal(err)
		}
	}
	return answers, errors.Join(errs...)
}

func (m *thisMachine) do(guest string, c libvirt.AgentCommand) (any, error) {
	arguments, _ := c.Arguments.(map[string]any)
	switch c.Execute {
	case "guest-exec":
		name, _ := arguments["path"].(string)
		args, _ := arguments["arg"].([]string)
		name, args = m.below(name, args)
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("error: Guest agent command failed, error was 'Failed to execute child process %q'",
				name)
		}
		cmd := exec.Command(path, args...)
		cmd.Dir = m.dir
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if text, given := arguments["input-data"].(string); given {
			raw := must.Get(base64.StdEncoding.DecodeString(text))(m.t)
			cmd.Stdin = bytes.NewReader(raw)
		}
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			m.t.Fatal(err)
		}
		m.ended = append(m.ended, map[string]any{"exited": true, "exitcode": cmd.ProcessState.ExitCode(),
			"out-data": out.Bytes(), "err-data": said.Bytes()})
		return map[string]any{"pid": len(m.ended)}, nil
	case "guest-exec-status":
		pid, _ := arguments["pid"].(int64)
		return m.ended[pid-1], nil
	case "guest-info":
		return map[string]any{"supported_commands": []map[string]any{{"name": "guest-exec", "enabled": true},
			{"name": "guest-exec-status", "enabled": true}}}, nil
	case "guest-get-osinfo":
		return map[string]any{"kernel-release": "6.12.48", "kernel-version": "#1 SMP", "pretty-name": "Debian of " +
			guest}, nil
	}
	return nil, fmt.Errorf("error: %s has not been found", c.Execute)
}

// withStatus returns the guests of a machine that has libvirt's status file of a guest vm1, reached through an agent.
func withStatus(t *testing.T, status string, agents libvirt.Agents) *Guests {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, libvirt.RunningFolder, "vm1.xml")
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
	if status != "" {
		must.Do(t, os.WriteFile(file, []byte(status), 0o600))
	}
	m := must.Get(tree.Open(dir))(t)
	t.Cleanup(func() { m.Close() })
	in := New(m, Inventory)
	in.agents = agents
	return in
}

const (
	connected = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' " +
		"state='connected'/></channel>"
	disconnected = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' " +
		"state='disconnected'/></channel>"
)

func statusFile(state, job, channel string) string {
	return "<!-- WARNING -->\n<domstatus state='" + state + "' reason='booted' pid='313'>\n  " + job +
		"\n  <monitor path='/run/m' type='unix'/>\n  <domain type='kvm' id='1'>\n    <name>vm1</name>\n    <devices>" +
		channel + "</devices>\n  </domain>\n</domstatus>\n"
}

// fewFiles is the agent of a guest with a few files and two programs, grep and tee. Writes of some files are refused.
type fewFiles struct {
	files   map[string]string
	refuses string
	ended   []map[string]any
	rounds  int
}

func (g *fewFiles) Ask(_ context.Context, _ string, commands ...libvirt.AgentCommand) ([]json.RawMessage, error) {
	g.rounds++
	answers := make([]json.RawMessage, len(commands))
	for i, c := range commands {
		arguments, _ := c.Arguments.(map[string]any)
		var answer any
		if pid, is := arguments["pid"].(int64); is {
			answer = g.ended[pid-1]
		} else {
			args, _ := arguments["arg"].([]string)
			out, said, code := "", "", 0
			switch arguments["path"] {
			case "grep":
				for _, file := range args[2:] {
					if text, there := g.files[file]; there {
						out += file + ":" + text + "\n"
					} else {
						said, code = said+"grep: "+file+": No such file or directory\n", 2
					}
				}
			case "tee":
				raw, _ := base64.StdEncoding.DecodeString(fmt.Sprint(arguments["input-data"]))
				if strings.Contains(args[0], g.refuses) && g.refuses != "" {
					said, code = "tee: "+args[0]+": Invalid argument\n", 1
				} else {
					g.files[args[0]] = strings.TrimSpace(string(raw))
				}
			}
			g.ended = append(g.ended, map[string]any{"exited": true, "exitcode": code, "out-data": []byte(out),
				"err-data": []byte(said)})
			answer = map[string]any{"pid": len(g.ended)}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		answers[i] = text
	}
	return answers, nil
}
