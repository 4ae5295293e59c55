package planted

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Scenario is one path, what is planted in it, the traffic, and what mpps diagnose has to say of it.
type Scenario struct {
	Name    string   `yaml:"-"` // of its file, without .yaml
	Title   string   `yaml:"title"`
	Needs   Needs    `yaml:"needs"`
	Path    Path     `yaml:"path"`
	Plant   []Step   `yaml:"plant"`
	Traffic []Stream `yaml:"traffic"`
	For     float64  `yaml:"for"` // seconds that mpps watches; 0: 3
	Expect  Expect   `yaml:"expect"`
	// Short ones stand for the others where there is no time for all, as among all other tests.
	Short bool `yaml:"short"`
	// KnownWrong says why the answer is not the expected one and why that stands. It is shown and not counted; once the
	// answer is right that is an error, so that the reason goes away.
	KnownWrong string `yaml:"known_wrong"`
}

// Needs are what not every machine has. Where something is missing the scenario is left out, and the table says why.
type Needs struct {
	CPUs     int      `yaml:"cpus"`     // 0: one
	Programs []string `yaml:"programs"` // on the path of executables
	Files    []string `yaml:"files"`    // that exist, as a namespace sees them
	// command lines that succeed in the host's namespace, in this order, before anything is planted
	Works [][]string `yaml:"works"`
	// writes values of the whole kernel: only where MPPS_PLANTED_OWN_KERNEL is set, as in the lab
	OwnKernel bool `yaml:"own_kernel"`
}

// Path is a wire, a host with a NIC, and what lies behind.
type Path struct {
	Queues  int    `yaml:"queues"`  // of the NIC; 0: one
	Forward string `yaml:"forward"` // bridge (as when empty) or route
	// CPUs that receive from the NIC in place of the sender's, one list for all its queues
	Steer  []int `yaml:"steer"`
	Tunnel *struct {
		Queues int `yaml:"queues"` // 0: one
		// that the far end sends the flows inside from; 0: the kernel's range, a port by the hash of each
		SourcePorts int `yaml:"source_ports"`
	} `yaml:"tunnel"` // VXLAN over the NIC
	Ends []End `yaml:"ends"`
}

// End is who lies behind the host.
type End struct {
	Name string `yaml:"name"`
	// counter: whatever comes is counted and dropped by XDP; socket: a program reads UDP; guest: behind a tap; bare:
	// nobody is there
	Kind string `yaml:"kind"`

	// Of a guest. A packet costs the vhost thread of its queue and then a vCPU so many microseconds of CPU time.
	Queues    int     `yaml:"queues"`     // 0: one
	VCPUs     int     `yaml:"vcpus"`      // 0: as many as queues
	VhostUS   float64 `yaml:"vhost_us"`   // beside reading or writing the tap
	VCPUUS    float64 `yaml:"vcpu_us"`    //
	VhostCPUs []int   `yaml:"vhost_cpus"` // where vhost threads may run; empty: everywhere
	VCPUCPUs  []int   `yaml:"vcpu_cpus"`
	Node      *int    `yaml:"memory_node"` // NUMA node that its memory is on; none: wherever the kernel puts it
	Emulated  bool    `yaml:"emulated"`    // no vhost: QEMU's own thread reads the tap
	Plain     bool    `yaml:"plain"`       // no guest but a program with a tap, as a VPN is; with emulated

	// Of a socket.
	ReadUS  float64 `yaml:"read_us"`  // CPU time that the program takes for a packet
	PauseUS float64 `yaml:"pause_us"` // that it sleeps after each packet
	Buffer  int     `yaml:"buffer"`   // bytes asked for with SO_RCVBUF; 0: the system's default
	Port    int     `yaml:"port"`     // 0: 9
	CPUs    []int   `yaml:"cpus"`

	Unwatched bool `yaml:"unwatched"` // mpps is not asked for its namespace
}

// Step is one thing that is planted: exactly one of its fields is set.
type Step struct {
	Run     *Run     `yaml:"run"`
	Write   *Write   `yaml:"write"`
	Hog     *Hog     `yaml:"hog"`
	Quota   *Quota   `yaml:"quota"`
	Capture *Capture `yaml:"capture"`
	Filter  *Filter  `yaml:"filter"`
}

// Filter is a program in the kernel that drops packets of a device at random and lets the others pass, or sends them
// to another device.
type Filter struct {
	In     string  `yaml:"in"`     // host (as when empty), or the name of an end
	Device string  `yaml:"device"` // {nic} and the like
	At     string  `yaml:"at"`     // xdp, xdp-generic, ingress or egress
	Drops  float64 `yaml:"drops"`  // share of the packets, 0 to 1
	Turns  int     `yaml:"turns"`  // of an empty loop that it takes for each packet, of about half a nanosecond
	To     string  `yaml:"to"`     // device that the others are sent out by; empty: they go on
}

// Run starts a program and waits for it, or lets it run until the end.
type Run struct {
	In   string   `yaml:"in"`   // host (as when empty), wire, or the name of an end
	Argv []string `yaml:"argv"` // {nic}, {tap}, {port} of the first end, {mac} of it
	// Input goes to its standard input, Lines behind it: Text so many times, with {i} counted from 0 and {i256} as
	// I/256 "." I%256.
	Input string `yaml:"input"`
	Lines struct {
		Count int    `yaml:"count"`
		Text  string `yaml:"text"`
	} `yaml:"lines"`
	After      string  `yaml:"after"`      // input behind the lines
	Background bool    `yaml:"background"` // it runs until the end, and is interrupted then
	Wait       float64 `yaml:"wait"`       // seconds until it does what it is there for
}

// Write writes a file of the host's namespace below /proc/sys or /sys. Values of the whole kernel are put back at the
// end.
type Write struct {
	File string `yaml:"file"`
	Text string `yaml:"text"`
}

// Hog is a program that computes.
type Hog struct {
	CPUs    []int `yaml:"cpus"`
	Nice    int   `yaml:"nice"`
	Threads int   `yaml:"threads"` // 0: one
	// with SCHED_FIFO: whoever is on its CPU gets what realtime throttling leaves, 5 %
	Realtime bool `yaml:"realtime"`
}

// Quota limits the CPU time of an end, by a control group.
type Quota struct {
	Of   string  `yaml:"of"`
	CPUs float64 `yaml:"cpus"` // CPU seconds a second
}

// Capture is a program that takes a copy of every packet of a device, as tcpdump does.
type Capture struct {
	Device  string `yaml:"device"`  // of the host; {nic} and the like
	Sockets int    `yaml:"sockets"` // 0: one
	CPUs    []int  `yaml:"cpus"`
}

// Stream is UDP traffic at a steady rate, in a burst each millisecond or of so many packets.
type Stream struct {
	From  string `yaml:"from"` // wire (as when empty) or a guest
	To    string `yaml:"to"`   // an end; empty: the first one, and from a guest the wire
	PPS   int    `yaml:"pps"`
	Frame int    `yaml:"frame"` // bytes with FCS; 0: 64
	Flows int    `yaml:"flows"` // 0: one
	CPU   int    `yaml:"cpu"`   // of the sender on the wire
	Port  int    `yaml:"port"`  // UDP port that it is sent to; 0: 9
	Burst int    `yaml:"burst"` // packets that are sent at once; 0: those of a millisecond
	// first two bytes of the source addresses; empty: 198.18, which the host has a route to
	Source string `yaml:"source"`
	TTL    int    `yaml:"ttl"`     // 0: 64
	BadSum string `yaml:"bad_sum"` // ip or udp: that checksum is wrong
	Whole  bool   `yaml:"whole"`   // no router may fragment it (DF)
	// Targets are the destinations: the end's address and those that follow it. 0: one
	Targets int `yaml:"targets"`
	// Unknown sends to a MAC address that no bridge knows.
	Unknown bool `yaml:"unknown"`
}

// tick is the time from burst to burst; that of others where the stream has none of its own.
func (t Stream) tick(others time.Duration) time.Duration {
	if t.Burst == 0 {
		return others
	}
	return time.Duration(float64(time.Second) * float64(t.Burst) / float64(t.PPS))
}

// Expect is what mpps diagnose has to find.
type Expect struct {
	Kinds  []string `yaml:"kinds"`  // the first answer is right with any of them; none: nothing may be named
	Object string   `yaml:"object"` // part of the object's name, {tap} and the like replaced; empty: any
	Stage  string   `yaml:"stage"`  // empty: any
	Reason string   `yaml:"reason"` // part of the name of the kernel's drop reason or function; empty: any
	Why    string   `yaml:"why"`    // why several kinds are right, for people
	// Share says that the packets that do not arrive are all lost at the place that is planted: the answer's share of
	// lost packets is right within shareSlack.
	Share    bool `yaml:"share"`
	Delivers struct {
		// share of what was sent that arrives at most, or the plant does not bite; 0: not asked
		Below float64 `yaml:"below"`
		Above float64 `yaml:"above"`
	} `yaml:"delivers"`
}

// Healthy reports whether nothing may be named.
func (e Expect) Healthy() bool { return len(e.Kinds) == 0 }

// Read reads all scenarios of a directory, in the order of their names.
func Read(dir fs.FS) ([]Scenario, error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Scenario
	var errs []error
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s, err := Parse(strings.TrimSuffix(path.Base(name), ".yaml"), string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		all = append(all, s)
	}
	return all, errors.Join(errs...)
}

// Parse reads one scenario. Unknown fields are errors.
func Parse(name, text string) (Scenario, error) {
	s := Scenario{Name: name}
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	s.defaults()
	return s, s.check()
}

func (s *Scenario) defaults() {
	fill := func(n *int, value int) {
		*n = cmp.Or(*n, value)
	}
	s.For = cmp.Or(s.For, 3)
	fill(&s.Needs.CPUs, 1)
	fill(&s.Path.Queues, 1)
	s.Path.Forward = cmp.Or(s.Path.Forward, "bridge")
	if s.Path.Tunnel != nil {
		fill(&s.Path.Tunnel.Queues, 1)
	}
	for i := range s.Path.Ends {
		e := &s.Path.Ends[i]
		fill(&e.Queues, 1)
		fill(&e.VCPUs, e.Queues)
		fill(&e.Port, 9)
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		t.From = cmp.Or(t.From, wire)
		if t.To == "" && t.From == wire && len(s.Path.Ends) > 0 {
			t.To = s.Path.Ends[0].Name
		}
		t.To = cmp.Or(t.To, wire)
		fill(&t.Frame, 64)
		fill(&t.Flows, 1)
		fill(&t.Port, 9)
		fill(&t.TTL, 64)
		fill(&t.Targets, 1)
		t.Source = cmp.Or(t.Source, "198.18")
	}
	for i := range s.Plant {
		if h := s.Plant[i].Hog; h != nil {
			fill(&h.Threads, 1)
		}
		if c := s.Plant[i].Capture; c != nil {
			fill(&c.Sockets, 1)
		}
	}
}

// wire and host are the places that every path has.
const (
	wire = "wire"
	host = "host"
)

// end finds an end by name.
func (p *Path) end(name string) *End {
	i := slices.IndexFunc(p.Ends, func(e End) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Ends[i]
}

// scaled is the scenario for a machine that is slower by a factor, as an emulated one is: rates are multiplied by it,
// costs divided, and bursts stay as large as they were.
func (s Scenario) scaled(factor float64) Scenario {
	s.Path.Ends, s.Traffic = slices.Clone(s.Path.Ends), slices.Clone(s.Traffic)
	for i := range s.Path.Ends {
		e := &s.Path.Ends[i]
		for _, us := range []*float64{&e.VhostUS, &e.VCPUUS, &e.ReadUS, &e.PauseUS} {
			*us /= factor
		}
	}
	for i := range s.Traffic {
		s.Traffic[i].PPS = max(1, int(float64(s.Traffic[i].PPS)*factor))
	}
	return s
}
