package acceptance

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

var queues = &Experiment{
	Name:  "queues",
	Title: "one queue, many queues, and queues that are kept to the wire",
	Founding: "A guest sent small packets through a tunnel (GRE; VXLAN and GENEVE alike): 140 kpps with one queue, " +
		"200 kpps with several, because the tunnel " +
		"made them one again, and about 400 kpps once every device on the way kept the queue that the guest had " +
		"chosen.",
	Takes: 20 * time.Minute,
	Wants: []string{
		"a guest of four vCPUs or more behind a tunnel (GRE, VXLAN or GENEVE) on this host",
		"the tunnel's other end: a second port, cabled to the first, in a namespace of this host (--from " +
			"netns:far/vxlan0), or a second host with a generator (--trial-command)",
		"'mpps agent' in the guest, reached through the tunnel",
		"moments in which the guest may be shut down and started, by you: for one queue, for many, and after the " +
			"rollback",
	},
	Needs: []Need{NeedRoot, NeedSender, NeedWay, NeedAgents, NeedNIC, NeedTunnel},
	NoLab: "the tunnel's two ends would share the emulated host's CPUs, and rates say nothing: TestAcceptanceQueues " +
		"carries it out there",
	Steps: func(in Inputs) []Step {
		if in.Container {
			return in.queuesOfContainer()
		}
		return in.queuesOfGuest()
	},
	Figures: func(in Inputs) []Figure {
		read, ratio := rateOf, ratioOf
		if in.Trial != "" {
			read, ratio = ndrOf, gainOf
		}
		look := []string{"mpps path --guest " + guestArg(in.Guest), "mpps path --steer --dry-run",
			"mpps explain overlay.queues"}
		if in.Container {
			look = []string{"mpps path", "mpps explain overlay.queues"}
		}
		where := Conditions{Tunnel: true, Guest: true}
		figures := []Figure{
			{ID: "queues.one", What: "through the tunnel with one queue", Unit: "packet/s", Founding: 140e3,
				Conditions: where, Read: read("one"), Look: look},
			{ID: "queues.many", What: "with many queues", Unit: "packet/s", Founding: 200e3, Conditions: where,
				Read: read("many"), Look: look},
			{ID: "queues.gain-many", What: "many queues over one", Unit: "×", Founding: 200.0 / 140, Ratio: true,
				Read: ratio("one", "many"), Look: look},
			{ID: "queues.kept", What: "with many queues, kept up to the wire", Unit: "packet/s", Founding: 400e3,
				About: true, Conditions: where, Read: read("kept"), Look: look},
			{ID: "queues.gain-kept", What: "kept queues over many", Unit: "×", Founding: 2, About: true, Ratio: true,
				Read: ratio("many", "kept"), Look: look},
		}
		if in.Container { // queues are kept for taps
			figures = figures[:3]
		}
		return figures
	},
}

// queuesOfGuest changes how many queues the guest has, and keeps them apart.
func (in Inputs) queuesOfGuest() []Step {
	tune := func(id, does, queues string) Step {
		return Step{ID: id, Phase: Mend, Does: does, Gives: Applied,
			Argv: []string{"domain", "tune", in.Guest, "--driver", "vhost", "--queues", queues, "--apply"}}
	}
	steer := append([]string{"--steer", "--for", "10s"}, flags("--nic", in.NIC)...)
	watch := []string{"--guest", in.Guest, "--for", "10s"}
	return slices.Concat(
		[]Step{
			in.machine(),
			tune("queues1", "give the guest's NIC one queue", "1"),
			in.restart("restart1", "the guest has one queue at its next start"),
			in.lanes("one", "packets with one queue"),
			tune("queuesN", "give it "+strconv.Itoa(in.Queues)+" queues", strconv.Itoa(in.Queues)),
			in.restart("restartN", "the guest has its queues at its next start"),
			in.meeting(watch...),
			in.lanes("many", "packets with many queues, as the devices on the way treat them"),
			in.look("steer", "keep the queues apart up to the wire", Mend, Applied, steer...),
			in.lanes("kept", "packets with many queues that are kept"),
			in.look("apart", "see that they are", Look, Watched, watch...),
		},
		in.undo(),
	)
}

// queuesOfContainer has a namespace send with one worker, by one queue, and then with one for each queue. It changes
// nothing: there is no definition, and queues are kept for taps alone.
func (in Inputs) queuesOfContainer() []Step {
	in.Generator = cmp.Or(in.Generator, "af_packet") // a veth tells no queue of XDP frames
	single := in
	single.SendOn = cmp.Or(in.SendOn, "0")
	return []Step{
		in.machine(),
		single.lanes("one", "packets by one worker, which takes one queue"),
		in.meeting("--for", "10s"),
		in.lanes("many", "packets by a worker for each queue, as the devices on the way treat them"),
	}
}

// lanes measures packets from the guest.
func (in Inputs) lanes(id, does string) Step {
	if in.Trial != "" {
		return in.search(id, After, does)
	}
	return in.bench(id, After, does, append(in.way(), sends(in)...)...)
}

// look watches packets, or changes where they go, beside a load of the guest.
func (in Inputs) look(id, does string, phase Phase, gives Gives, argv ...string) Step {
	s := Step{ID: id, Phase: phase, Does: does, Gives: gives, Argv: append([]string{"path"}, argv...)}
	if in.Trial == "" { // else the other generator is started by hand: it only has traffic during its trials
		// It ends with the step: on a busy machine programs take half a minute until they watch.
		s.Beside = append(append([]string{"bench", "pps", "--frame", "64", "--repeat", "1", "--duration", "10m",
			"--keep=false"}, in.way()...), sends(in)...)
	}
	return s
}

// meeting watches that the guest's packets come by several queues: else "many" would measure one queue again.
func (in Inputs) meeting(argv ...string) Step {
	s := in.look("met", "see that the guest's packets come by several queues, and where these meet", Look, Watched,
		argv...)
	if in.Agent != "" && in.Trial == "" {
		s.Queues = 2
	}
	return s
}

// sends makes the guest the sender if it has an agent: the point is to keep the guest's choice of a queue.
func sends(in Inputs) []string {
	if in.Agent != "" {
		return []string{"--reverse"}
	}
	return nil
}
