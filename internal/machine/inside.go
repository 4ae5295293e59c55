package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// How many guests are asked what runs in them, and how long all of them together may take to answer. One whose agent
// hangs takes agentTimeout; one whose agent is not connected is not asked.
const (
	maxAsked    = 16
	askPatience = 5 * time.Second
)

// NoGuest is no guest's name: with it nobody's agent is asked for anything.
const NoGuest = "/"

// LookInside names the guest whose inside the inventory shows; empty: the only one that runs.
func (m *Machine) LookInside(guest string) { m.inside = guest }

// insides asks the agents of running guests which kernel runs there, and shows the inside of one of them. It needs a
// connection to libvirt that may write, so root; a guest that does not answer says why.
func (m *Machine) insides(ctx context.Context, h *facts.Host) {
	var running []int
	for i := range h.Guests {
		if g := &h.Guests[i]; g.Managed && g.Active() {
			g.Job = libvirt.Job(m.Tree, g.Name)
			running = append(running, i)
		}
	}
	if !m.Live() || os.Geteuid() != 0 || len(running) == 0 || m.inside == NoGuest {
		return
	}
	l, err := libvirt.Open(m.Tree)
	if err != nil {
		return
	}
	v, isVirsh := l.(libvirt.Virsh)
	if !isVirsh {
		return
	}
	chosen := slices.IndexFunc(h.Guests, func(g facts.Guest) bool {
		return g.Managed && g.Active() && (g.Name == m.inside || m.inside == "" && len(running) == 1)
	})
	m.systems(ctx, v, h, slices.DeleteFunc(running, func(i int) bool { return i == chosen }))
	if chosen >= 0 {
		g := &h.Guests[chosen]
		g.Inside = m.lookInside(ctx, v, g)
	}
}

// systems asks several guests for their kernel and system (guest-get-osinfo, since 2.10).
func (m *Machine) systems(ctx context.Context, v libvirt.Virsh, h *facts.Host, guests []int) {
	var asked []int
	var commands []string
	for _, i := range guests {
		if len(asked) < maxAsked && libvirt.Unreachable(m.Tree, h.Guests[i].Name) == nil {
			asked = append(asked, i)
			commands = append(commands, fmt.Sprintf("qemu-agent-command --timeout %d --domain %s --cmd "+
				"'{\"execute\":\"guest-get-osinfo\"}'", libvirt.AgentTimeout, libvirt.Quote(h.Guests[i].Name)))
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answers, _ := v.Run(ctx, "", commands...) // an agent that is not there is an error of the whole, and no answer
	for i, answer := range answers {
		h.Guests[asked[i]].Inside = parseOSInfo(libvirt.ReturnValue(answer))
	}
}

// lookInside asks a guest's agent what runs there, and for the files of its kernel.
func (m *Machine) lookInside(ctx context.Context, a libvirt.Agents, g *facts.Guest) *facts.Inside {
	inside := &facts.Inside{}
	if err := libvirt.Unreachable(m.Tree, g.Name); err != nil {
		inside.Why = err.Error()
		return inside
	}
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.LookPatience, libvirt.ErrAgentSlow)
	defer cancel()
	// alone: each command to one that hangs takes its time
	answers, err := a.Ask(ctx, g.Name, libvirt.AgentCommand{Execute: "guest-info"})
	if len(answers) != 1 || answers[0] == nil {
		inside.Why = libvirt.AskError(m.remembered(g.Name, err)).Error()
		return inside
	}
	info := answers[0]
	// older agents do not know it
	if answers, _ = a.Ask(ctx, g.Name, libvirt.AgentCommand{Execute: "guest-get-osinfo"}); len(answers) == 1 {
		if told := parseOSInfo(answers[0]); told != nil {
			inside = told
		}
	}
	if err := allows(info, "guest-exec", "guest-exec-status"); err != nil {
		inside.Why = err.Error()
		return inside
	}
	if strings.Contains(inside.OS, "Windows") {
		inside.Why = "it runs " + inside.OS + ", which has no /proc and /sys"
		return inside
	}
	host, err := insideHost(ctx, a, g)
	if err != nil {
		inside.Why = m.remembered(g.Name, err).Error()
		return inside
	}
	inside.Host = host
	if inside.Release == "" {
		inside.Release, inside.Version = host.Kernel.Release, host.Kernel.Version
	}
	return inside
}

// parseOSInfo reads the answer of guest-get-osinfo; nil where it is none.
func parseOSInfo(answer json.RawMessage) *facts.Inside {
	var told struct {
		Release string `json:"kernel-release"`
		Version string `json:"kernel-version"`
		Name    string `json:"pretty-name"`
	}
	if json.Unmarshal(answer, &told) != nil || told.Release == "" {
		return nil
	}
	return &facts.Inside{Release: told.Release, Version: told.Version, OS: told.Name}
}

// allows reads the answer of guest-info: commands that were switched off are there and not enabled.
func allows(answer json.RawMessage, wanted ...string) error {
	var told struct {
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return fmt.Errorf("its agent answers %q to guest-info", answer)
	}
	for _, name := range wanted {
		found := false
		for _, c := range told.Commands {
			found = found || c.Name == name && c.Enabled
		}
		if !found {
			return libvirt.ErrAgentRefuse
		}
	}
	return nil
}

// insideHost fetches a guest's files and reads them as those of a host. It takes two rounds of programs, each two or
// three starts of virsh.
func insideHost(ctx context.Context, a libvirt.Agents, g *facts.Guest) (*facts.Host, error) {
	paths := insidePaths(max(g.VCPUs, g.MaxVCPUs))
	services := []string{"systemctl", "show", "--property=Id,LoadState,ActiveState", "--"}
	for _, name := range insideServices {
		services = append(services, name+".service")
	}
	programs := append(nicPrograms(),
		libvirt.Call{Argv: append([]string{"grep", "-rHsa", ""}, paths...)},
		libvirt.Call{Argv: []string{"find", "/proc", "-maxdepth", "2", "-name", "comm", "-exec", "grep", "-Hsa", "",
			"{}", "+"}},
		libvirt.Call{Argv: services})
	results, err := libvirt.Execute(ctx, a, g.Name, programs...)
	if err != nil {
		return nil, err
	}
	for _, r := range results[:5] { // a guest without systemctl is a guest too
		if r.Failed != nil {
			return nil, r.Failed
		}
	}
	tree := newInsideTree()
	err = tree.addLinks(results[0].Out)
	for _, take := range []error{tree.addFiles(results[1].Out), tree.addDirs(results[2].Out),
		tree.addFiles(results[3].Out), tree.addFiles(results[4].Out)} {
		err = errors.Join(err, take)
	}
	if err != nil {
		return nil, err
	}
	m, done, err := tree.write()
	if err != nil {
		return nil, err
	}
	h := m.Inventory(ctx)
	if err := done(); err != nil {
		return nil, err
	}
	if len(h.Topology.CPUs) == 0 {
		return nil, errors.New("its agent told no CPU: grep and find are missing there, or it may not read /proc and " +
			"/sys (virt_qemu_ga_selinux(8))")
	}
	h.Root, h.AsRoot, h.Unseen, h.Lasting, h.Boot = "guest "+g.Name, true, []facts.Unseen{}, nil, nil
	if h.Virtual == "" {
		h.Virtual = "kvm"
	}
	if r := results[5]; r.Failed == nil {
		takeServices(h, r.Out)
	}
	takeChannels(ctx, a, g, h)
	return h, nil
}

// insideServices are the daemons whose state is asked for in a guest.
var insideServices = []string{"irqbalance", "ksmtuned", "numad", "tuned"}

// takeServices takes what systemctl show printed of several units, an empty line between them.
func takeServices(h *facts.Host, text string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		name, isService := strings.CutSuffix(tree.Variable(block, "Id"), ".service")
		if isService {
			h.Readings[setting.Of(setting.Service, name)] = systemd.UnitState(block, name)
		}
	}
}

// takeChannels asks ethtool of every virtio NIC; where the guest has no ethtool the folders of the queues tell how many
// are in use, and nobody how many there could be.
func takeChannels(ctx context.Context, a libvirt.Agents, g *facts.Guest, h *facts.Host) {
	var programs []libvirt.Call
	var nics []*facts.NIC
	for i := range h.NICs {
		if n := &h.NICs[i]; n.Driver == "virtio_net" && plainName(n.Name) {
			nics, programs = append(nics, n), append(programs, libvirt.Call{Argv: []string{"ethtool", "-l", n.Name}})
		}
	}
	if len(programs) == 0 {
		return
	}
	results, err := libvirt.Execute(ctx, a, g.Name, programs...)
	for i, n := range nics {
		why := err
		if err == nil {
			why = results[i].Problem()
		}
		switch {
		case why != nil:
			h.Unseen = append(h.Unseen, facts.ChannelsUnseen(n.Name, why.Error()))
		default:
			n.Channels = parseChannels(results[i].Out)
		}
	}
}

// parseChannels reads what "ethtool -l" prints: the maxima, then what is in use, each RX, TX, Other and Combined, of
// which a driver may have none ("n/a", before ethtool 5.13 "0"); nil where it is not that.
func parseChannels(text string) *facts.Channels {
	c := &facts.Channels{}
	most := map[string]*int{"RX": &c.MaxRx, "TX": &c.MaxTx, "Other": &c.MaxOther, "Combined": &c.MaxCombined}
	used := map[string]*int{"RX": &c.Rx, "TX": &c.Tx, "Other": &c.Other, "Combined": &c.Combined}
	at, seen := most, 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasPrefix(name, "Current hardware settings") {
			at = used
		}
		field, isField := at[name]
		if n, err := strconv.Atoi(strings.TrimSpace(value)); isField && err == nil && n >= 0 {
			*field = min(n, tree.MaxQueues)
			seen++
		}
	}
	if seen == 0 {
		return nil
	}
	return c
}

// plainName reports whether a name of a device is no option and no path.
func plainName(name string) bool { return name != "" && name[0] != '-' && !strings.Contains(name, "/") }
