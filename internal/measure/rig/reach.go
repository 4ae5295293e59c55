package rig

import (
	"context"
	"errors"

	"github.com/vishvananda/netlink"

	"mpps/internal/measure/traffic"
)

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
