//go:build lab

package guests

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

const guestName = "vm1"

// scene is the host with its guest.
type scene struct {
	*labtest.Scene
	guest *lab.Guest
}

// furnish makes the bridge of the guest.
func (s *scene) furnish(ctx context.Context) error { return s.Lab.Bridge(ctx, "br0", "10.50.0.1/24") }

// openScene boots the host and starts the guest.
func openScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: labtest.On(t, labtest.Host(t, labtest.Fresh))}
	must.Do(t, s.furnish(t.Context()))
	s.startGuest("isolcpus=2")
	return s
}

// startGuest starts a guest with an agent, three vCPUs, two queues and some kernel arguments.
func (s *scene) startGuest(args ...string) {
	s.Helper()
	s.guest = must.Get(s.Lab.StartGuestFresh(s.Context(), lab.GuestSpec{
		Name: guestName, Binary: labtest.Init(s), Programs: []string{labtest.Binary(s)}, Agent: true, VCPUs: 3,
		Modules: []string{"zram"}, Args: args,
		NICs: []lab.NIC{{Model: lab.Vhost, Queues: 2, Bridge: "br0", Addr: "10.50.0.2/24"}},
	}, s.furnish))(s)
	s.LogTime("the guest runs, its agent answers")
}

// agent hands a command to the guest's agent by virsh and returns its answer.
func (s *scene) agent(command any, into any) {
	s.Helper()
	labtest.Agent(s, s.Lab, guestName, command, into)
}

// start starts a program in the guest.
func (s *scene) start(argv ...string) (pid int) {
	s.Helper()
	var started struct{ PID int }
	s.agent(map[string]any{"execute": "guest-exec", "arguments": map[string]any{"path": argv[0], "arg": argv[1:],
		"capture-output": true}}, &started)
	return started.PID
}

// hangs stops the guest's agent and returns once the guest's console says so. The function that it returns pulls the
// plug of the guest's NIC, at which the agent goes on, and waits until it answers.
func (s *scene) hangs() (answers func()) {
	s.Helper()
	s.start("sh", "-c", "p=$(pidof qemu-ga); kill -STOP $p; echo agent stopped >/dev/console; "+
		"while [ $(cat /sys/class/net/eth0/carrier) = 1 ]; do sleep 0.2; done; kill -CONT $p")
	s.Must("until grep -q 'agent stopped' /run/lab/" + guestName + ".console; do sleep 0.1; done")
	plug := func(state string) {
		s.Must("virsh -q domif-setlink " + guestName + " $(virsh -q domiflist " + guestName + " | awk '{print $1}') " + state)
	}
	return func() {
		s.Helper()
		plug("down")
		s.Must("until virsh -q qemu-agent-command " + guestName +
			` --timeout 2 '{"execute":"guest-ping"}' >/dev/null 2>&1; do sleep 0.2; done`)
		plug("up")
	}
}

// inside runs a shell's text in the guest and returns what it printed.
func (s *scene) inside(script string) string {
	s.Helper()
	pid := s.start("sh", "-c", script)
	for range 600 {
		var status struct {
			Exited   bool
			ExitCode int
			Out      string `json:"out-data"`
			Err      string `json:"err-data"`
		}
		s.agent(map[string]any{"execute": "guest-exec-status", "arguments": map[string]any{"pid": pid}}, &status)
		if !status.Exited {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		text := func(coded string) string {
			raw := must.Get(base64.StdEncoding.DecodeString(coded))(s)
			return strings.TrimSpace(string(raw))
		}
		if status.ExitCode != 0 {
			s.Fatalf("in the guest: %s: exit %d: %s", script, status.ExitCode, text(status.Err))
		}
		return text(status.Out)
	}
	s.Fatalf("in the guest: %s: does not end", script)
	return ""
}

// plan makes a plan on the host for the guest.
func (s *scene) plan(goal ...string) *plan.Plan {
	s.Helper()
	s.MPPS(0, append([]string{"plan", "--guest", guestName, "-o", "/share/plan.json"}, goal...)...)
	text := must.Get(os.ReadFile(filepath.Join(s.Lab.ShareDir(), "plan.json")))(s)
	p := must.Get(plan.Decode(bytes.NewReader(text)))(s)
	return p
}

// write writes a plan for the host to apply, of those changes alone that are made inside the guest.
func (s *scene) write(name string, p *plan.Plan, more ...plan.Change) {
	s.Helper()
	p.Changes = append(insideOf(p, setting.Inside), more...)
	p.Seal()
	var text bytes.Buffer
	must.Do(s, plan.Encode(&text, p))
	s.Put(name, text.String())
}
