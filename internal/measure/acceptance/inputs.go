package acceptance

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inputs describe the user's set-up. They are saved with a run, so that it continues as it started.
type Inputs struct {
	Guest   string   `json:"guest,omitempty"`
	Consent []string `json:"consent,omitempty"` // risks by name

	// The packets' path, as in bench pps and search.
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`
	Via        string `json:"via,omitempty"`
	Out        string `json:"out,omitempty"`
	Gateway    string `json:"gateway,omitempty"`
	Agent      string `json:"agent,omitempty"`
	SecretFile string `json:"secret_file,omitempty"`
	Generator  string `json:"generator,omitempty"`
	Sink       string `json:"sink,omitempty"`
	SendOn     string `json:"generator_cpus,omitempty"`

	Trial string `json:"trial_command,omitempty"` // adapter of another generator
	// HostTrials are the same, cabled and set up so that the host itself forwards: KIND=COMMAND, see ParseHostTrial.
	HostTrials []string `json:"host_trials,omitempty"`
	MaxPPS     string   `json:"max_pps,omitempty"`
	Compliant  bool     `json:"compliant,omitempty"`

	PPS    string `json:"pps,omitempty"`    // target of the plan
	Queues int    `json:"queues,omitempty"` // of the guest
	// Container means that a network namespace takes the guest's place: no definition is changed.
	Container bool   `json:"container,omitempty"`
	NIC       string `json:"nic,omitempty"` // to steer; empty: all
	PF        string `json:"pf,omitempty"`
	VFAgent   string `json:"vf_agent,omitempty"`
	// TunnelAgent and TunnelFrom are the guest's agent behind a VXLAN, and the sender into it.
	TunnelAgent string `json:"tunnel_agent,omitempty"`
	TunnelFrom  string `json:"tunnel_from,omitempty"`
	// MoreVFAgents are agents of other guests, each reached over a function of the same card. VFTunnelAgent is the
	// guest's agent behind a VXLAN that ends in the guest, over the function.
	MoreVFAgents  []string `json:"more_vf_agents,omitempty"`
	VFTunnelAgent string   `json:"vf_tunnel_agent,omitempty"`
	Modes         []string `json:"modes,omitempty"`
	// MakeGuests has the command make a guest for each mode that Modes does not name, on the bridge Via, with addresses
	// from GuestAddress on. Made are these guests; Modes has theirs, too.
	MakeGuests   bool        `json:"make_guests,omitempty"`
	GuestAddress string      `json:"guest_address,omitempty"`
	Made         []MadeGuest `json:"made_guests,omitempty"`
	Engine       string      `json:"engine,omitempty"` // of streams and transactions: netperf or iperf3
	Latency      string      `json:"latency,omitempty"`
	GuestCPU     string      `json:"guest_cpu,omitempty"` // where wake-ups are measured
	CPUs         string      `json:"cpus,omitempty"`

	NoReboot bool `json:"no_reboot,omitempty"` // continue without what needs one

	// Trials is how many trials bench makes and how long each is, such as 3x60s; empty: 12x10s.
	Trials string `json:"trials,omitempty"`

	Keep  bool `json:"keep,omitempty"`  // keep the changes
	Short bool `json:"short,omitempty"` // a trial run: too short to prove anything
	Lab   bool `json:"lab,omitempty"`

	Dir string `json:"dir"` // directory for the steps' files
}

// Defaults fills in unset inputs.
func (in Inputs) Defaults() Inputs {
	in.PPS, in.Latency = cmp.Or(in.PPS, "1.8M"), cmp.Or(in.Latency, "20us")
	in.Queues = cmp.Or(in.Queues, 9)
	return in
}

// Forwards reports whether the guest forwards packets, as in the founding experiment.
func (in Inputs) Forwards() bool { return in.To != "" || in.Out != "" }

// Link is an interface of this host that the inputs name.
type Link struct {
	Flag, Name string // Name is IFACE or netns:NAME/IFACE
	Bridge     bool   // a temporary port of it sends or counts
}

// links returns the interfaces that packets leave from or arrive at between the ends.
func (in Inputs) links() []Link {
	if in.Trial != "" {
		return nil
	}
	return named([]Link{{"--from", in.From, false}, {"--to", in.To, false}, {"--via", in.Via, true},
		{"--out", in.Out, true}})
}

// modeLinks returns the interfaces that the modes name.
func (in Inputs) modeLinks() []Link {
	var all []Link
	for _, mode := range in.Modes {
		for _, word := range strings.Split(mode, ",")[1:] {
			key, value, _ := strings.Cut(word, "=")
			if key == "from" || key == "via" {
				all = append(all, Link{"--mode " + mode, value, key == "via"})
			}
		}
	}
	return named(all)
}

// Links returns all interfaces that the inputs name.
func (in Inputs) Links() []Link {
	return slices.Concat(in.links(), named([]Link{{"--tunnel-from", in.TunnelFrom, false}}), in.modeLinks())
}

func named(all []Link) []Link {
	return slices.DeleteFunc(all, func(l Link) bool { return l.Name == "" })
}

// Agent is an agent that the inputs name.
type Agent struct {
	At  string // HOST:PORT
	NIC string // its interface; empty: the one with the address
	// Netns is the network namespace that a mode's conversations start in; empty: the host's own.
	Netns string
}

// Agents returns the agents that must answer when a run begins. That of a frozen guest cannot: the campaign lets the
// guest run and asks it before its first sample. That of a guest to make answers once it is made.
func (in Inputs) Agents() []Agent {
	var all []Agent
	for _, at := range append([]string{in.Agent, in.TunnelAgent}, in.MoreVFAgents...) {
		if at != "" {
			all = append(all, Agent{At: at})
		}
	}
	for _, mode := range in.Modes {
		if a := modeAgent(mode); a.At != "" && !strings.Contains(mode, ",frozen=") && !in.makes(a) {
			all = append(all, a)
		}
	}
	return all
}

// makes reports whether an agent is that of a guest to make.
func (in Inputs) makes(a Agent) bool {
	return slices.ContainsFunc(in.Made, func(g MadeGuest) bool { return g.Agent() == a.At })
}

// MadeAgents returns the agents of the guests to make, in their order.
func (in Inputs) MadeAgents() []Agent {
	var all []Agent
	for _, mode := range in.Modes {
		if a := modeAgent(mode); in.makes(a) {
			all = append(all, a)
		}
	}
	return all
}

// modeAgent returns the agent of NAME=HOST:PORT,….
func modeAgent(mode string) Agent {
	_, rest, _ := strings.Cut(mode, "=")
	words := strings.Split(rest, ",")
	a := Agent{At: words[0]}
	for _, word := range words[1:] {
		if nic, ok := strings.CutPrefix(word, "guest-nic="); ok {
			a.NIC = nic
		}
		if from, ok := strings.CutPrefix(word, "from=netns:"); ok {
			a.Netns, _, _ = strings.Cut(from, "/")
		}
	}
	return a
}

// ParseTrials reads a number of trials, 1 to 1000, and the length of each in whole seconds: 3x60s.
func ParseTrials(text string) (n int, each time.Duration, err error) {
	times, length, found := strings.Cut(text, "x")
	if n, err = strconv.Atoi(times); err == nil && found {
		each, err = time.ParseDuration(length)
	}
	if err != nil || !found || n < 1 || n > 1000 || each < time.Second || each > time.Hour || each%time.Second != 0 {
		return 0, 0, fmt.Errorf("found %q, expected a number of trials and their length in seconds, such as 3x60s",
			text)
	}
	return n, each, nil
}

// trials returns how many trials bench makes and how long each is: those asked for, else three of a second in the short
// form, else twelve of 10 s, of which one stray trial does not widen the 95 % interval.
func (in Inputs) trials() (n int, each time.Duration) {
	if n, each, err := ParseTrials(in.Trials); err == nil {
		return n, each
	}
	if in.Short {
		return 3, time.Second
	}
	return 12, 10 * time.Second
}

func (in Inputs) repeat() string {
	n, _ := in.trials()
	return strconv.Itoa(n)
}

func (in Inputs) duration() time.Duration {
	_, each := in.trials()
	return each
}

func (in Inputs) either(whole, short string) string {
	if in.Short {
		return short
	}
	return whole
}

// file returns a path in the run's directory.
func (in Inputs) file(name string) string { return in.Dir + "/" + name }

// flags returns pairs of flag and value, without those whose value is empty.
func flags(pairs ...string) []string {
	var argv []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			argv = append(argv, pairs[i], pairs[i+1])
		}
	}
	return argv
}

// fastest is the choice of a generator by the agents that send: see 'mpps bench pps'.
const fastest = "fastest"

// sending returns the flags for how packets are sent and counted.
func (in Inputs) sending() []string {
	return flags("--generator", in.Generator, "--sink", in.Sink, "--cpus", in.SendOn)
}

// way returns the flags for the ends.
func (in Inputs) way() []string {
	var argv []string
	if in.Forwards() {
		argv = append(argv, "--forward")
	}
	argv = append(argv, flags("--from", in.From, "--via", in.Via, "--to", in.To, "--out", in.Out, "--gateway",
		in.Gateway, "--agent", in.Agent)...)
	if in.Agent != "" {
		argv = append(argv, flags("--secret-file", in.SecretFile)...)
	}
	return append(argv, in.sending()...)
}

// search returns a search for the highest rates between the ends, or with another generator.
func (in Inputs) search(id string, phase Phase, does string) Step {
	argv := []string{"search", "--frame", "64", "--pdr", strconv.FormatFloat(almost, 'f', -1, 64), "--name", id,
		"--keep=false"}
	if in.Trial != "" {
		argv = append(argv, flags("--trial-command", in.Trial)...)
	} else {
		argv = append(argv, in.way()...)
	}
	argv = append(argv, flags("--max-pps", in.MaxPPS)...)
	switch {
	case in.Compliant:
		argv = append(argv, "--compliant")
	case in.Short:
		argv = append(argv, "--budget", "15s")
	}
	return Step{ID: id, Phase: phase, Does: does, Argv: argv, Gives: Searched, Codes: []int{limited}}
}

// bench measures 64-byte packets at full speed.
func (in Inputs) bench(id string, phase Phase, does string, way ...string) Step {
	argv := append([]string{"bench", "pps", "--frame", "64", "--repeat", in.repeat(), "--duration",
		in.duration().String(), "--name", id, "--keep=false"}, way...)
	return Step{ID: id, Phase: phase, Does: does, Argv: argv, Gives: GivesRun, Codes: []int{limited}}
}

// machine saves what the host is, without identifying it.
func (in Inputs) machine() Step {
	return Step{ID: "machine", Phase: Look, Does: "keep what this host is, without serials, addresses and names",
		Argv: []string{"snapshot", "--scrub", "-o", in.file("machine.json")}}
}

// plan plans for a goal and applies the plan.
func (in Inputs) plan(n string, when When, goal ...string) []Step {
	file := in.file("plan" + n + ".json")
	argv := append([]string{"plan", "-o", file}, goal...)
	argv = append(argv, flags("--guest", in.Guest, "--data-nic", in.dataNICs())...)
	for _, risk := range in.Consent {
		argv = append(argv, "--consent", risk)
	}
	return []Step{
		{ID: "plan" + n, Phase: Mend, Does: "plan what the goal calls for", Argv: argv, Gives: Planned, When: when},
		{ID: "apply" + n, Phase: Mend, Does: "make these changes, as one transaction", Argv: in.apply(file),
			Gives: Applied, When: when},
	}
}

// dataNICs names the bridges that packets pass on this host, whose NICs of the guest carry the load: queues and
// placement are planned for these alone. Empty: the plan finds them by their traffic.
func (in Inputs) dataNICs() string {
	bridges := slices.DeleteFunc([]string{in.Via, in.Out}, func(name string) bool { return name == "" })
	if in.Trial != "" { // the generator's cabling says nothing of bridges
		bridges = nil
	}
	return strings.Join(bridges, ",")
}

// apply makes changes. Nobody is there to confirm them in time, so those that can cut the connection need consent.
func (in Inputs) apply(what string) []string {
	argv := []string{"apply", what}
	if in.Consents("connectivity") {
		argv = append(argv, "--confirm", "0")
	}
	return argv
}

// Consents reports whether a risk was accepted by name.
func (in Inputs) Consents(risk string) bool { return slices.Contains(in.Consent, risk) }

// restart waits for the guest to be restarted.
func (in Inputs) restart(id, why string) Step {
	return Step{ID: id, Phase: Wait, Does: why, For: Restart, When: IfRestart}
}

// mend brings the host to a goal: first what takes effect at once, then what waits for a reboot or the guest, then what
// can only be planned since.
func (in Inputs) mend(goal ...string) []Step {
	var boot []Step
	if !in.NoReboot {
		boot = []Step{
			{ID: "boot", Phase: Wait, For: Boot, When: IfBoot, Does: "kernel, kernel arguments and huge pages are " +
				"there after a reboot of the host; start the guest afterwards"},
			{ID: "resume", Phase: Mend, When: IfBoot, Does: "go on with what had to wait for the reboot",
				Argv: in.apply("--resume"), Gives: Applied},
		}
	}
	return slices.Concat(
		in.plan("1", Always, goal...), boot,
		[]Step{in.restart("restart", "the guest gets its new definition at its next start")},
		in.plan("2", Restarted, goal...),
		[]Step{in.restart("again", "what could be planned only now waits for the guest once more")},
	)
}

// undo rolls everything back.
func (in Inputs) undo() []Step {
	if in.Keep {
		return nil
	}
	return []Step{
		{ID: "rollback", Phase: Undo, Does: "put back what was changed, the newest transaction first"},
		{ID: "verify", Phase: Look, Does: "say how the host stands now", Argv: []string{"status"}},
	}
}
