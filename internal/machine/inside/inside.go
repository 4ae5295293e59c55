// Package inside reads and writes inside guests, through their QEMU agents: what a guest's inventory needs, and single
// values.
package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// How many guests are asked for their kernel and system, how long one reply may take, in whole seconds, and all of them
// together: one hanging agent must not take the time of the others. A guest whose agent is not connected is not asked.
const (
	maxAsked    = 16
	askTimeout  = 2
	askPatience = 5 * time.Second
)

// readPatience is how long the files of a guest may take to read, once they are here.
const readPatience = 5 * time.Second

var errSlow = fmt.Errorf("its files take more than %v to read", readPatience)

// NoGuest is not the name of any guest: with it, no agent is asked.
const NoGuest = "/"

// Guests are the guests of one machine. They are the mechanism of setting.Inside: reading fetches the files of the
// values and reads them as a host's, writing runs tee, ethtool, systemctl or swapon in the guest.
type Guests struct {
	tree      *tree.Tree
	inventory func(context.Context, *tree.Tree) *facts.Host // reads the files of a guest as a host's
	agents    libvirt.Agents                                // nil: libvirt's
	selected  string                                        // empty: any for counters, else the only one that runs
	hung      sync.Map                                      // guests whose agent did not reply: name → hang
}

// New returns the guests of a machine. inventory reads a host's files.
func New(t *tree.Tree, inventory func(context.Context, *tree.Tree) *facts.Host) *Guests {
	return &Guests{tree: t, inventory: inventory}
}

// Select sets the guest that is read inside; empty: the only one that runs.
func (in *Guests) Select(guest string) { in.selected = guest }

// Selected reports whether a guest is the one of Select, or whether that is empty.
func (in *Guests) Selected(guest string) bool {
	return in.selected != NoGuest && (in.selected == "" || in.selected == guest)
}

// Files returns the texts of files in a guest by their absolute paths, without those that it does not have. It runs one
// grep there.
func (in *Guests) Files(ctx context.Context, guest string, names ...string) (map[string]string, error) {
	a, err := in.ask(guest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.AgentPatience, libvirt.ErrAgentHangs)
	defer cancel()
	results, err := libvirt.Execute(ctx, a, guest, libvirt.Call{Argv: append([]string{"grep", "-Hsa", ""}, names...)})
	if err == nil {
		err = results[0].Failed
	}
	reported := newGuestTree(ctx)
	if err == nil {
		err = reported.addFiles(results[0].Out)
	}
	if err != nil {
		return nil, in.noteHang(guest, err)
	}
	found, files := reported.Tree(guest), map[string]string{}
	for _, name := range names {
		if text, err := found.Read(name); err == nil {
			files[name] = text
		}
	}
	return files, nil
}

// Inventory asks the agents of running guests for their kernel, and reads the inside of one of them. It needs a
// read-write connection to libvirt, so root. Inside.Why says why a guest could not be read.
func (in *Guests) Inventory(ctx context.Context, h *facts.Host) {
	var running []int
	tree := in.tree.Within(ctx)
	for i := range h.Guests {
		if g := &h.Guests[i]; g.Managed && g.Active() {
			g.Job = libvirt.Job(tree, g.Name)
			running = append(running, i)
		}
	}
	if !in.tree.Live() || os.Geteuid() != 0 || len(running) == 0 || in.selected == NoGuest {
		return
	}
	l, err := libvirt.Open(in.tree)
	if err != nil {
		return
	}
	v, isVirsh := l.(libvirt.Virsh)
	if !isVirsh {
		return
	}
	chosen := slices.IndexFunc(h.Guests, func(g facts.Guest) bool {
		return g.Managed && g.Active() && (g.Name == in.selected || in.selected == "" && len(running) == 1)
	})
	in.askSystems(ctx, v, h, slices.DeleteFunc(running, func(i int) bool { return i == chosen }))
	if chosen >= 0 {
		g := &h.Guests[chosen]
		g.Inside = in.lookInside(ctx, v, g)
	}
}

// askSystems asks several guests for their kernel and system (guest-get-osinfo, since 2.10).
func (in *Guests) askSystems(ctx context.Context, v libvirt.Virsh, h *facts.Host, guests []int) {
	var asked []int
	var commands []string
	for _, i := range guests {
		if len(asked) < maxAsked && libvirt.Unreachable(in.tree, h.Guests[i].Name) == nil {
			asked = append(asked, i)
			commands = append(commands, fmt.Sprintf("qemu-agent-command --timeout %d --domain %s --cmd "+
				"'{\"execute\":\"guest-get-osinfo\"}'", askTimeout, libvirt.Quote(h.Guests[i].Name)))
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answers, _ := v.Run(ctx, "", commands...) // one missing agent fails the whole run; the others still have replies
	for i, answer := range answers {
		h.Guests[asked[i]].Inside = parseOSInfo(libvirt.ReturnValue(answer))
	}
}

// lookInside reads the inside of a guest through its agent: its kernel and system, and the files that a host has.
func (in *Guests) lookInside(ctx context.Context, a libvirt.Agents, g *facts.Guest) *facts.Inside {
	inside := &facts.Inside{}
	if err := libvirt.Unreachable(in.tree, g.Name); err != nil {
		inside.Why = err.Error()
		return inside
	}
	ctx, cancel := context.WithTimeoutCause(ctx, libvirt.LookPatience, libvirt.ErrAgentSlow)
	defer cancel()
	// On its own: each command to a hanging agent takes the whole timeout.
	answers, err := a.Ask(ctx, g.Name, libvirt.AgentCommand{Execute: "guest-info"})
	if len(answers) != 1 || answers[0] == nil {
		inside.Why = libvirt.AskError(in.noteHang(g.Name, err)).Error()
		return inside
	}
	info := answers[0]
	// Older agents do not have this command.
	if answers, _ = a.Ask(ctx, g.Name, libvirt.AgentCommand{Execute: "guest-get-osinfo"}); len(answers) == 1 {
		if system := parseOSInfo(answers[0]); system != nil {
			inside = system
		}
	}
	if err := libvirt.Allows(info, "guest-exec", "guest-exec-status"); err != nil {
		inside.Why = err.Error()
		return inside
	}
	if strings.Contains(inside.OS, "Windows") {
		inside.Why = "it runs " + inside.OS + ", which has no /proc and /sys"
		return inside
	}
	host, err := in.readHost(ctx, a, g)
	if err != nil {
		inside.Why = in.noteHang(g.Name, err).Error()
		return inside
	}
	inside.Host = host
	if inside.Release == "" {
		inside.Release, inside.Version = host.Kernel.Release, host.Kernel.Version
	}
	return inside
}

// parseOSInfo reads a reply to guest-get-osinfo; nil if it is not one.
func parseOSInfo(answer json.RawMessage) *facts.Inside {
	var info struct {
		Release string `json:"kernel-release"`
		Version string `json:"kernel-version"`
		Name    string `json:"pretty-name"`
	}
	if json.Unmarshal(answer, &info) != nil {
		return nil
	}
	release := libvirt.FirstLine(info.Release)
	if release == "" {
		return nil
	}
	return &facts.Inside{Release: release, Version: libvirt.FirstLine(info.Version), OS: libvirt.FirstLine(info.Name)}
}

// readHost fetches a guest's files and reads them as a host's. It runs three rounds of programs, each with two or
// three runs of virsh.
func (in *Guests) readHost(ctx context.Context, a libvirt.Agents, g *facts.Guest) (*facts.Host, error) {
	paths := hostPaths(max(g.VCPUs, g.MaxVCPUs))
	services := []string{"systemctl", "show", "--property=Id,LoadState,ActiveState", "--"}
	for _, name := range guestServices {
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
	for _, r := range results[:5] { // the sixth is systemctl, which a guest may lack
		if r.Failed != nil {
			return nil, r.Failed
		}
	}
	h, err := in.readFiles(ctx, g.Name, append(results, runBoot(ctx, a, g.Name)...))
	if err != nil {
		return nil, err
	}
	if len(h.Topology.CPUs) == 0 {
		return nil, errors.New("its agent told no CPU: grep and find are missing there, or it may not read /proc and " +
			"/sys (virt_qemu_ga_selinux(8))")
	}
	h.Root, h.AsRoot, h.Lasting = "guest "+g.Name, true, nil
	if h.Virtual == "" {
		h.Virtual = "kvm"
	}
	if r := results[5]; r.Failed == nil {
		addServices(h, r.Out)
	}
	addChannels(ctx, a, g, h)
	return h, nil
}

// readFiles reads the output of the first five programs as a host's files, and that of bootPrograms. A separate
// goroutine reads it, so that a crash or a hang costs only the view of this guest.
func (in *Guests) readFiles(ctx context.Context, guest string, results []libvirt.Result) (h *facts.Host, err error) {
	ctx, cancel := setting.WithPatience(ctx, readPatience, errSlow)
	defer cancel()
	type view struct {
		host *facts.Host
		err  error
	}
	seen := make(chan view, 1)
	go func() {
		defer func() {
			if crash := recover(); crash != nil {
				seen <- view{nil, fmt.Errorf("what it reports crashed the reader (%.200v): please report this", crash)}
			}
		}()
		host, err := in.rebuild(ctx, guest, results)
		seen <- view{host, err}
	}()
	select {
	case v := <-seen:
		return v.host, v.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// rebuild makes a tree of what a guest reported and reads it.
func (in *Guests) rebuild(ctx context.Context, guest string, results []libvirt.Result) (*facts.Host, error) {
	reported := newGuestTree(ctx)
	err := reported.addLinks(results[0].Out)
	for _, take := range []func() error{
		func() error { return reported.addFiles(results[1].Out) },
		func() error { return reported.addDirs(results[2].Out) },
		func() error { return reported.addFiles(results[3].Out) },
		func() error { return reported.addFiles(results[4].Out) },
	} {
		if err == nil {
			err = take()
		}
	}
	if err != nil {
		return nil, err
	}
	files := reported.Tree("guest " + guest)
	if n := len(files.List(tree.ClassNet)); n > maxNICs {
		return nil, fmt.Errorf("it reports %d NICs, and at most %d are read", n, maxNICs)
	}
	h := in.inventory(ctx, files)
	if err := reported.Err(); err != nil {
		return nil, err
	}
	h.Unseen, h.Boot = []facts.Unseen{}, nil // of files that it was not asked for
	readBoot(ctx, guest, results[6:], h)
	return h, nil
}

// guestServices are the daemons whose state is read in a guest.
var guestServices = []string{"irqbalance", "ksmtuned", "numad", "tuned"}

// addServices reads the output of systemctl show for several units, separated by empty lines.
func addServices(h *facts.Host, text string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		name, isService := strings.CutSuffix(tree.Variable(block, "Id"), ".service")
		if isService {
			h.Readings[setting.Of(setting.Service, name)] = systemd.UnitState(block, name)
		}
	}
}

// addChannels reads the channels of every virtio NIC with ethtool. Without ethtool only the number of queues in use is
// known, from sysfs, and not the maximum.
func addChannels(ctx context.Context, a libvirt.Agents, g *facts.Guest, h *facts.Host) {
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
		if why != nil {
			h.Unseen = append(h.Unseen, facts.ChannelsUnseen(n.Name, why.Error()))
		} else {
			n.Channels = parseChannels(results[i].Out)
		}
	}
}

// parseChannels reads the output of "ethtool -l": the maxima, then what is in use, each as RX, TX, Other and Combined.
// A driver may lack some of them ("n/a", before ethtool 5.13 "0"). It is nil if the output is something else.
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

// plainName reports whether a device name is neither an option nor a path.
func plainName(name string) bool { return name != "" && name[0] != '-' && !strings.Contains(name, "/") }
