package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/measure/traffic/counters"
)

// AgentOptions say how to reach an agent.
type AgentOptions struct {
	Address string // host:port
	Version string // of mpps
	Secret  []byte // nil: none
	NIC     string // the agent's interface for packets in either direction; empty: the one that has Address
	Netns   string // network namespace of this machine to reach it from; empty: the process's own
}

// far is a session with an agent.
type far struct {
	client *agent.Client
	info   agent.Info
	nic    agent.Link
	addr   string
}

// How long an agent waits for a sign of life before it stops. If the control connection is lost, an agent that sends or
// serves a conversation stops within 2 s. An agent that only counts has nothing to stop, and test frames may flood the
// link that the control connection shares: TCP doubles its retransmission timeout with every loss. Emulated machines
// are silent for seconds.
const (
	countingSilence = 20 * time.Second
	emulatedSilence = 5 * time.Second
	trafficSilence  = 1800 * time.Millisecond
	dialTimeout     = 15 * time.Second
)

// silence returns how long an agent waits, depending on whether it sends test frames (sends) and serves conversations
// (talks).
func (m *Machine) silence(sends, talks bool) time.Duration {
	switch {
	case !m.Patient && (sends || talks):
		return trafficSilence
	case sends:
		return emulatedSilence
	}
	return countingSilence
}

// dialAgent opens a session and finds the agent's interface.
func dialAgent(ctx context.Context, o AgentOptions, silence time.Duration) (*far, error) {
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		if _, local := agent.SocketPath(o.Address); !local {
			return nil, usage("an agent's address is HOST:PORT or unix:PATH", "agent %q: %w", o.Address, err)
		}
	}
	client, err := agent.Dial(ctx, o.Address, agent.DialOptions{Netns: o.Netns, Version: o.Version, Secret: o.Secret,
		Timeout: dialTimeout, Silence: silence})
	if err != nil {
		return nil, explainDial(o, err)
	}
	f := &far{client: client, addr: o.Address}
	if f.info, err = client.Info(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("agent %s: %w", o.Address, err), client.Close())
	}
	if f.nic, err = findNIC(f.info, o); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return f, nil
}

func explainDial(o AgentOptions, err error) error {
	hint := "is 'mpps agent' running there, and does its address answer?"
	switch {
	case errors.Is(err, agent.ErrVersion):
		hint = "install the same version of mpps on both sides (here: " + o.Version + ")"
	case errors.Is(err, agent.ErrSecret):
		hint = "give the agent's secret with --secret-file"
	case errors.Is(err, agent.ErrHello):
		hint = "something else answers at " + o.Address
	case errors.Is(err, agent.ErrBusy):
		hint = "try again when other measurements have ended"
	case errors.Is(err, agent.ErrUser):
		hint = "measure as the agent's user, or as root with an agent of root's"
	}
	return fault(hint, "%w", err)
}

// listOf returns the beginning of a list of names that an agent answered.
func listOf(names []string) string {
	const most = 16
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "…")
	}
	return strings.Join(names, ", ")
}

// findNIC returns the requested interface of the agent, or the one with the address that the agent was reached at.
func findNIC(info agent.Info, o AgentOptions) (agent.Link, error) {
	var names []string
	host, _ := hostOf(o.Address)
	address, _ := netip.ParseAddr(host)
	for _, l := range info.Links {
		names = append(names, l.Name)
		if l.Name == o.NIC {
			return l, nil
		}
		for _, a := range l.Addrs {
			prefix, err := netip.ParsePrefix(a)
			if o.NIC == "" && err == nil && prefix.Addr() == address.Unmap() {
				return l, nil
			}
		}
	}
	hint := "the agent has " + listOf(names)
	if o.NIC != "" {
		return agent.Link{}, usage(hint, "agent %s has no interface %s", o.Address, o.NIC)
	}
	return agent.Link{}, usage("say with --guest-nic which; "+hint, "agent %s has no interface with the address %s",
		o.Address, host)
}

// workerCPUs returns the agent's CPUs for sending with one worker for each transmit queue of its interface.
func (f *far) workerCPUs() []int { return traffic.WorkerCPUs(f.info.Allowed, f.nic.TxQueues) }

func (f *far) where() string { return "agent " + f.addr }

func (f *far) cpuTimes(ctx context.Context) (measure.CPUTimes, error) {
	text, err := f.client.Stat(ctx)
	if err != nil {
		return measure.CPUTimes{}, err
	}
	taken := time.Now()
	times, err := measure.ParseStat(strings.NewReader(text))
	times.Taken = taken
	return times, err
}

func (f *far) counters(ctx context.Context) (measure.Counters, error) {
	statistics, err := f.client.Counters(ctx, traffic.Endpoint{Iface: f.nic.Name})
	if err != nil {
		return nil, err
	}
	all := measure.Counters{}
	for name, n := range statistics {
		c := measure.Counter{Where: f.where(), Name: name}
		if !counters.OfMachine(name) {
			c.Interface, c.Kind = f.nic.Name, f.nic.Kind
		}
		all[c] = n
	}
	return all, nil
}

func (f *far) endpoint() measure.Endpoint {
	return measure.Endpoint{Where: f.where(), Interface: f.nic.Name, MAC: f.nic.MAC, Driver: f.nic.Kind}
}

// generatorAlone measures the agent's generator. Packet sockets are measured by what they send into a veth pair there.
func (f *far) generatorAlone(ctx context.Context, c traffic.Config, d time.Duration) (traffic.Alone, error) {
	if c.Method == traffic.XDP || c.Method == traffic.Auto && f.info.Live == string(traffic.Yes) {
		return f.client.GeneratorAlone(ctx, c, d)
	}
	a, err := f.client.ReceiverAlone(ctx, traffic.SinkConfig{}, c, d)
	if a.Elapsed > 0 {
		a.PPS, a.AtLeast = float64(a.Sent)/a.Elapsed.Seconds(), false
	}
	return a, err
}

// Reach returns an error unless an agent answers with the version and the secret, and has the interface that packets
// take, which is up.
func Reach(ctx context.Context, o AgentOptions) error {
	f, err := dialAgent(ctx, o, countingSilence)
	if err != nil {
		return err
	}
	if !f.nic.Up {
		err = usage("set it up there", "interface %s of agent %s is down", f.nic.Name, f.addr)
	}
	return errors.Join(err, f.client.Close())
}

// CheckEnd returns an error unless an interface of this machine exists and is up.
func CheckEnd(e traffic.Endpoint) error {
	d, err := e.Device()
	switch {
	case err != nil:
		return fault("'ip link' lists the interfaces there are, 'ip netns' the namespaces", "%w", err)
	case !d.Up:
		return usage("ip link set "+e.Iface+" up", "interface %s is down", e)
	}
	return nil
}

// CheckBridge returns an error unless a temporary port can be made in a bridge.
func CheckBridge(name string) error {
	_, err := findBridge(name)
	return err
}

// findBridge looks a bridge up.
func findBridge(name string) (netlink.Link, error) {
	master, err := netlink.LinkByName(name)
	if err != nil {
		return nil, usage("'mpps inspect' shows the bridges", "bridge %s: %w", name, err)
	}
	if master.Type() != "bridge" {
		return nil, usage("'mpps inspect' shows the bridges", "%s is a %s, not a bridge", name, master.Type())
	}
	return master, nil
}
