package acceptance

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	functions "mpps/internal/advise/sriov"
	"mpps/internal/model/facts"
	"mpps/internal/outcome"
)

// Seen is what prerequisites are judged by.
type Seen struct {
	Host *facts.Host
	Root bool
	// Agents tells why an agent does not answer with this version and the secret; nil if it does, absent if not asked.
	Agents map[Agent]error
	// Links tells why an interface cannot be used, by its name; nil if it can, absent if not looked at.
	Links map[string]error
	// Making is what guests to make lack; nil: not looked at.
	Making *Making
}

// Check is the result of checking a prerequisite.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Code string `json:"code"`
	Why  string `json:"why"`            // what was found, or is missing
	Hint string `json:"hint,omitempty"` // what to do
	Soft bool   `json:"soft,omitempty"` // the experiment works without it, but says less
}

// Need is one prerequisite.
type Need func(Inputs, Seen) []Check

// Look checks all prerequisites of an experiment.
func (e *Experiment) Look(in Inputs, s Seen) []Check {
	all := []Check{}
	for _, need := range e.Needs {
		all = append(all, need(in, s)...)
	}
	return all
}

// Missing reports whether a necessary prerequisite is missing.
func Missing(all []Check) bool {
	return slices.ContainsFunc(all, func(c Check) bool { return !c.OK && !c.Soft })
}

func ok(code, what, why string) Check { return Check{What: what, OK: true, Code: code, Why: why} }

func lacks(code, what, why, hint string) Check {
	return Check{What: what, Code: code, Why: why, Hint: hint}
}

// NeedRoot checks for the right to change the host.
func NeedRoot(_ Inputs, s Seen) []Check {
	if !s.Root {
		return []Check{lacks("root", "root", "settings are changed and packets sent, and this is not root",
			"repeat with sudo")}
	}
	return []Check{ok("root", "root", "yes")}
}

// NeedGuest checks for the guest to measure. mpps never restarts it.
func NeedGuest(in Inputs, s Seen) []Check {
	const what = "a guest"
	if in.Guest == "" {
		return []Check{lacks("guest", what, "nothing says which guest is measured", "--guest NAME; 'mpps inspect' "+
			"lists those of this host")}
	}
	g := guestOf(s.Host, in.Guest)
	switch why, hidden := guestsHidden(s.Host); {
	case g == nil && hidden:
		return []Check{lacks("guest-unseen", what, fmt.Sprintf("whether guest %s is there could not be seen: %s",
			in.Guest, why), "'virsh list --all' says what it lacks")}
	case g == nil:
		return []Check{lacks("guest", what, fmt.Sprintf("no guest %q on this host", in.Guest), guestsHint(s.Host))}
	case !g.Active():
		return []Check{lacks("guest-off", what, fmt.Sprintf("guest %s is %s", g.Name, g.State),
			"start it: 'virsh start "+g.Name+"'")}
	}
	return []Check{ok("guest", what, fmt.Sprintf("%s, %d vCPUs, %s; you restart it where a step asks for it", g.Name,
		g.VCPUs, g.State))}
}

// Unknown returns the check that failed because the named guest is not on the host; nil if it is, or if that could not
// be seen.
func Unknown(in Inputs, all []Check) *Check {
	return facts.Find(all, func(c *Check) bool { return in.Guest != "" && !c.OK && c.Code == "guest" })
}

// guestsHidden reports whether libvirt's guests could not be seen, and why.
func guestsHidden(h *facts.Host) (why string, hidden bool) {
	u := facts.Find(h.Unseen, func(u *facts.Unseen) bool { return u.Part == facts.UnseenGuests })
	if u == nil {
		return "", false
	}
	return u.Why, true
}

func guestsHint(h *facts.Host) string {
	names := facts.Map(h.Guests, func(g facts.Guest) string { return g.Name })
	if len(names) == 0 {
		return "this host has no guests, or they could not be seen"
	}
	return "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
}

// NeedSender checks for the guest that sends, with a CPU for each queue, or for the agent of a namespace in its place.
func NeedSender(in Inputs, s Seen) []Check {
	const what = "a namespace in the guest's place"
	switch {
	case !in.Container:
		return append(NeedGuest(in, s), NeedVCPUs(in, s)...)
	case in.Guest != "":
		return []Check{lacks("container", what, "--container and --guest "+in.Guest+": expected one of them",
			"leave one out")}
	case in.Agent == "":
		return []Check{lacks("container", what, "nothing says where its agent answers", "--agent HOST:PORT of 'mpps "+
			"agent' in the namespace")}
	}
	return []Check{ok("container", what, "its queues are those of a veth pair, and nothing is changed")}
}

// NeedVCPUs checks that the guest has a CPU for each queue.
func NeedVCPUs(in Inputs, s Seen) []Check {
	g := guestOf(s.Host, in.Guest)
	if g == nil || g.VCPUs >= in.Queues {
		return nil
	}
	return []Check{lacks("vcpus", "vCPUs", fmt.Sprintf("guest %s has %d, and %d queues are to be used", g.Name, g.VCPUs,
		in.Queues), "--queues "+strconv.Itoa(g.VCPUs)+", or give it more vCPUs")}
}

// lackingLinks returns a check for each interface that cannot be used.
func lackingLinks(all []Link, s Seen) []Check {
	var checks []Check
	for _, l := range all {
		if err := s.Links[l.Name]; err != nil {
			checks = append(checks, lacks("link", "interface "+l.Name, l.Flag+": "+err.Error(),
				hintOf(err, "'ip -br link' lists the interfaces, 'ip netns' the namespaces, 'mpps inspect' the "+
					"bridges")))
		}
	}
	return checks
}

// hintOf returns an error's own hint, or another if it has none.
func hintOf(err error, other string) string {
	_, hint := outcome.Of(err)
	return cmp.Or(hint, other)
}

// NeedWay checks for a path into the guest and a counter at its end.
func NeedWay(in Inputs, s Seen) []Check {
	const what = "a generator and a receiver"
	if lacking := append(lackingLinks(in.links(), s), offBridges(in, s)...); len(lacking) > 0 {
		return lacking
	}
	switch {
	case in.Trial == "" && in.Via != "" && in.Via == in.Out:
		return []Check{lacks("way", what, "--via and --out are both "+in.Via+": packets would not pass the guest",
			"--out takes the bridge on the other side of a guest that routes")}
	case in.Trial == "" && in.From != "" && in.From == in.To:
		return []Check{lacks("way", what, "--from and --to are both "+in.From+": packets would not pass the guest",
			"--to takes the interface on the other side of a guest that routes")}
	case in.Trial != "" && in.MaxPPS == "":
		return []Check{lacks("way", what, "--trial-command needs --max-pps: nothing else says how much it can send",
			"64-byte frames fill 10 Gbit/s at 14.88M")}
	case in.Trial != "":
		return []Check{ok("way", what, "trials by "+in.Trial)}
	case in.From == "" && in.Via == "":
		return []Check{lacks("way", what, "nothing says where packets leave",
			"--via BRIDGE --out BRIDGE --gateway IP for a guest that routes, --from IFACE --agent HOST:PORT into "+
				"one, or --trial-command for another generator")}
	case in.Agent == "" && !in.Forwards():
		return []Check{lacks("way", what, "nothing says where packets arrive", "--out BRIDGE or --to IFACE behind "+
			"the guest, or --agent HOST:PORT in it")}
	case in.Agent != "" && in.Forwards():
		return []Check{lacks("way", what, "--agent ends packets in the guest, and --out or --to behind it: expected "+
			"one of them", "leave --agent out for a guest that routes")}
	}
	return []Check{ok("way", what, "this host's own, which takes CPU time from what is measured")}
}

// offBridges returns a check for each named bridge on which the guest has no NIC.
func offBridges(in Inputs, s Seen) []Check {
	g := guestOf(s.Host, in.Guest)
	if g == nil || in.Trial != "" {
		return nil
	}
	var checks []Check
	for _, l := range named([]Link{{"--via", in.Via, true}, {"--out", in.Out, true}}) {
		on := func(i facts.Interface) bool { return slices.Contains(i.Names(), l.Name) }
		if s.Links[l.Name] == nil && !slices.ContainsFunc(g.NICs(), on) {
			checks = append(checks, lacks("off-bridge", "the guest's NIC on "+l.Name,
				l.Flag+": guest "+g.Name+" has no NIC "+
					"on "+l.Name, "'mpps domain show "+g.Name+"' lists its NICs with their bridges"))
		}
	}
	return checks
}

// NeedFrom checks for the port that sends and counts.
func NeedFrom(in Inputs, s Seen) []Check {
	const what = "a second port"
	lacking := lackingLinks(named([]Link{{"--from", in.From, false}, {"--tunnel-from", in.TunnelFrom, false}}), s)
	switch {
	case len(lacking) > 0:
		return lacking
	case in.From != "" && in.From == in.PF:
		return []Check{lacks("from", what, "--from and --pf are both "+in.PF+": a port does not count what it sends "+
			"itself", "--from takes the port that is cabled to the one under test")}
	case in.From == "":
		return []Check{lacks("from", what, "nothing says which port sends and counts", "--from IFACE, cabled to the "+
			"port under test; or --from netns:NAME/IFACE")}
	case in.Agent == "":
		return []Check{lacks("agent", what, "nothing says where the guest's agent answers over tap and bridge",
			"--agent HOST:PORT of 'mpps agent' in the guest")}
	}
	return []Check{ok("from", what, in.From)}
}

// NeedAgents checks the named agents, except the one that answers only once the guest has its function.
func NeedAgents(in Inputs, s Seen) []Check {
	in.Modes = nil
	return checkAgents(in.Agents(), s)
}

// checkAgents checks that agents answer as those of this version with the secret do.
func checkAgents(all []Agent, s Seen) []Check {
	var checks []Check
	for _, a := range all {
		if err := s.Agents[a]; err != nil {
			checks = append(checks, lacks("agent-silent", "the guest's agent", err.Error(), hintOf(err,
				"in the guest: 'mpps agent --listen "+a.At+" --secret-file FILE', and the same file here")))
			continue
		}
		checks = append(checks, ok("agent", "the guest's agent", a.At+" answers"))
	}
	return checks
}

// NeedNIC checks that the NIC to steer is one of this host's.
func NeedNIC(in Inputs, s Seen) []Check {
	if in.NIC == "" || slices.ContainsFunc(s.Host.NICs, func(n facts.NIC) bool { return n.Name == in.NIC }) {
		return nil
	}
	return []Check{lacks("nic", "the NIC under the tunnel", "--nic: this host has no NIC "+in.NIC,
		"'mpps inspect' shows the NICs; without --nic all are steered")}
}

// NeedTunnel looks for a tunnel like that of the founding experiment.
func NeedTunnel(_ Inputs, s Seen) []Check {
	for _, t := range s.Host.Tunnels {
		if t.Type != "vlan" && t.Type != "bond" {
			return []Check{ok("tunnel", "a tunnel", fmt.Sprintf("%s, %s, %d queues", t.Name, t.Type, t.TxQueues))}
		}
	}
	c := lacks("tunnel", "a tunnel", "none was seen on this host: queues meet in tunnels, and without one there may "+
		"be nothing to mend", "'ip link add vxlan0 type vxlan …', as a port of the guest's bridge")
	c.Soft = true
	return []Check{c}
}

// NeedFunctions checks for a card with a free virtual function.
func NeedFunctions(in Inputs, s Seen) []Check {
	const what = "virtual functions"
	var able []string
	total, free := 0, 0
	for _, n := range s.Host.NICs {
		if n.SRIOV != nil && n.SRIOV.Total > 0 && (in.PF == "" || in.PF == n.Name) {
			able = append(able, n.Name)
		}
	}
	var holders []string
	for i := range s.Host.VFs {
		v := &s.Host.VFs[i]
		if in.PF == "" || in.PF == v.PF {
			total++
			switch who := functions.Holder(s.Host, v); {
			case who != "":
				holders = append(holders, who)
			case v.Guest != "": // it is on no PCI bus
				holders = append(holders, "guest "+v.Guest)
			default:
				free++
			}
		}
	}
	all := []Check{}
	switch {
	case len(able) == 0 && in.PF != "":
		all = append(all, lacks("functions", what, in.PF+" has none, or is not there", "'mpps sriov list' shows the "+
			"cards that do"))
	case len(able) == 0:
		all = append(all, lacks("functions", what, "no NIC of this host has any", "SR-IOV must be on in the "+
			"firmware; 'mpps explain firmware.sriov'"))
	case total == 0:
		all = append(all, lacks("functions", what, able[0]+" could have some and has none", "'mpps sriov create "+
			able[0]+" -n 4'"))
	case free == 0:
		all = append(all, lacks("functions", what, fmt.Sprintf("all %d have an owner: %s", total,
			strings.Join(holders[:min(len(holders), 8)], "; ")),
			"'mpps sriov list' shows whose they are"))
	default:
		all = append(all, ok("functions", what, fmt.Sprintf("%d, %d of them free", total, free)))
	}
	if in.VFAgent != "" && in.VFAgent == in.Agent {
		all = append(all, lacks("vf-agent", "an address on the function", "--vf-agent and --agent are both "+in.Agent+
			": the same path would be measured twice", "give the function a separate address in the guest"))
	}
	if in.VFAgent == "" {
		all = append(all, lacks("vf-agent", "an address on the function", "nothing says where the guest's agent will "+
			"answer over the function", "--vf-agent HOST:PORT, an address that the guest gets on the new interface"))
	}
	return all
}

// NeedApart checks that the sending port is on another card than the one under test, and that each agent has its own
// path.
func NeedApart(in Inputs, s Seen) []Check {
	const what = "the sender on another card"
	var all []Check
	if in.MoreVFAgents != nil && in.VFAgent != "" {
		addresses := append([]string{in.Agent, in.VFAgent}, in.MoreVFAgents...)
		for i, at := range addresses {
			if slices.Contains(addresses[:i], at) {
				all = append(all, lacks("agent-twice", "agents on functions",
					at+" is named twice: its packets would be "+
						"counted as those of two functions", "--more-vf-agents takes the agents of other guests"))
			}
		}
	}
	under, from := nicOf(s.Host, in.PF), nicOf(s.Host, bare(in.From))
	if under == nil || from == nil || slot(under.PCI) == "" || slot(under.PCI) != slot(from.PCI) {
		return all
	}
	link := "its PCIe link"
	if under.Link != nil {
		link += " (" + strings.TrimSpace(under.Link.Speed+" "+lanes(under.Link.Width)) + ")"
	}
	shared := lacks("shared-bus", what, under.Name+" and "+from.Name+" are ports of one card and share "+link+
		": what one sends takes from what the other can receive", "--from takes a port of another card or host")
	shared.Soft = true
	return append(all, shared)
}

// nicOf returns a physical NIC by its name, nil if there is none.
func nicOf(h *facts.Host, name string) *facts.NIC {
	return facts.Find(h.NICs, func(n *facts.NIC) bool { return name != "" && n.Name == name && n.PhysFn == "" })
}

// slot returns a PCI address without its function, which the ports of a card share; empty if there is none.
func slot(address string) string {
	device, _, found := strings.Cut(address, ".")
	if !found {
		return ""
	}
	return device
}

// NeedModes checks the modes to compare.
func NeedModes(in Inputs, s Seen) []Check {
	const what = "modes"
	lacking := lackingLinks(in.modeLinks(), s)
	switch {
	case len(in.Modes) == 0:
		return []Check{lacks("modes", what, "nothing says which modes there are", "--mode native=HOST:PORT,from=eth1 "+
			"--mode virtio=HOST:PORT,from=eth1 …, one for each")}
	case !hasMode(in.Modes, "native"):
		return []Check{lacks("native", what, "none is called native, which is 100 %",
			"--mode native=HOST:PORT,from=eth1: an agent on this host, without virtualization")}
	}
	in.Agent, in.TunnelAgent = "", ""
	return slices.Concat([]Check{ok("modes", what, fmt.Sprintf("%d named", len(in.Modes)))}, lacking,
		checkAgents(in.Agents(), s))
}

// NeedIsolable checks for the CPUs that are reserved for the guest.
func NeedIsolable(in Inputs, s Seen) []Check {
	if in.CPUs == "" {
		return []Check{lacks("cpus", "CPUs for the guest", "nothing says which CPUs the guest gets for itself",
			"--cpus 20-23, of one node and with all threads of their cores; 'mpps place' proposes some")}
	}
	all := []Check{ok("cpus", "CPUs for the guest", in.CPUs)}
	if !s.Host.Kernel.Realtime {
		c := lacks("realtime-kernel", "a PREEMPT_RT kernel", "this host runs "+s.Host.Kernel.Release+
			", which is none: everything else is done without",
			"install one, such as linux-image-rt-amd64; 'mpps explain kernel.realtime'")
		c.Soft = true
		all = append(all, c)
	}
	return all
}

// NeedInside checks for the guest's own agent, through which programs are started inside.
func NeedInside(in Inputs, s Seen) []Check {
	if g := guestOf(s.Host, in.Guest); g != nil && !g.Agent {
		return []Check{lacks("guest-agent", "QEMU's agent in the guest", "the guest's definition has no channel for it",
			"docs/guests.md; install qemu-guest-agent in the guest")}
	}
	return nil
}
