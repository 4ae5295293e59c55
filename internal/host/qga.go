package host

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"mpps/internal/facts"
)

// How many guests are asked what runs in them, and how long all of them together may take to answer. A guest whose agent
// hangs takes a second (--timeout); one whose agent is not connected is answered for by libvirt at once.
const (
	maxAsked    = 16
	askPatience = 5 * time.Second
)

// insides asks the agents of running guests which kernel runs there (QEMU guest agent, guest-get-osinfo, since 2.10). It
// needs a connection that may write, so root; a guest that does not answer is left as it is.
func (m *Machine) insides(ctx context.Context, h *facts.Host) {
	if !m.live || os.Geteuid() != 0 {
		return
	}
	l, err := m.libvirt()
	if err != nil {
		return
	}
	v, isVirsh := l.(virsh)
	if !isVirsh {
		return
	}
	var asked []int
	var commands []string
	for i, g := range h.Guests {
		if g.Managed && g.Agent && g.State == "running" && len(asked) < maxAsked {
			asked = append(asked, i)
			commands = append(commands, "qemu-agent-command --timeout 1 --domain "+quoted(g.Name)+` --cmd '{"execute":"guest-get-osinfo"}'`)
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answers, _ := v.run(ctx, "", commands...) // an agent that is not there is an error of the whole, and no answer
	for i, answer := range answers {
		h.Guests[asked[i]].Inside = parseOSInfo(answer)
	}
}

// parseOSInfo reads the answer of guest-get-osinfo; nil where it is none.
func parseOSInfo(text string) *facts.Inside {
	var answer struct {
		Return struct {
			Release string `json:"kernel-release"`
			Version string `json:"kernel-version"`
			Name    string `json:"pretty-name"`
		} `json:"return"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &answer); err != nil || answer.Return.Release == "" {
		return nil
	}
	return &facts.Inside{Release: answer.Return.Release, Version: answer.Return.Version, OS: answer.Return.Name}
}
