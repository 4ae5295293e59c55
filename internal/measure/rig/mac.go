package rig

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
)

// checkMAC refuses the MAC address that an agent named unless the agent shows that frames for it arrive there. What the
// kernel's table of neighbours says is no proof: its entries are what the guest answers to ARP. A bridge of this host
// must know at which port the address is: otherwise it sends the frames to all guests, and any of them can show that.
func checkMAC(ctx context.Context, f *far, w With, near traffic.Device, mac net.HardwareAddr) error {
	if w.Bridge == "" {
		return proveMAC(ctx, f, near, mac)
	}
	bridge, err := netlink.LinkByName(w.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", w.Bridge, err)
	}
	refuse := func(what string) error {
		return fault("'bridge fdb show br "+w.Bridge+"' shows what the bridge knows", "agent %s names the MAC address "+
			"%s, and bridge %s %s", f.addr, mac, w.Bridge, what)
	}
	ports, err := fdb(bridge)
	if err != nil {
		return err
	}
	if ports[string(mac)] < 0 {
		return refuse("or one of its ports has it itself")
	}
	if err := proveMAC(ctx, f, near, mac); err != nil {
		return err
	}
	if ports, err = fdb(bridge); err == nil && ports[string(mac)] <= 0 {
		err = refuse("does not know where that is, and would send packets to all its ports")
	}
	return err
}

func proveMAC(ctx context.Context, f *far, near traffic.Device, mac net.HardwareAddr) error {
	err := f.client.ProveArrival(ctx, near, mac, f.nic.Name)
	if errors.Is(err, agent.ErrElsewhere) {
		return fault("is interface "+f.nic.Name+" of the agent on this path, and does nothing drop packets to "+
			"198.19.0.1 on the way? --guest-nic names another", "agent %s: %s: %w", f.addr, mac, err)
	}
	return explain(err)
}

// fdb returns the index of the port at which a bridge knows each MAC address; −1 for those of the host itself, which
// the kernel marks as permanent (fdb_to_nud in net/bridge/br_fdb.c).
func fdb(bridge netlink.Link) (map[string]int, error) {
	all, err := netlink.NeighList(0, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("addresses known to bridge %s: %w", bridge.Attrs().Name, err)
	}
	ports := map[string]int{}
	for _, entry := range all {
		if entry.MasterIndex != bridge.Attrs().Index || len(entry.HardwareAddr) != 6 {
			continue
		}
		mac := string(entry.HardwareAddr)
		switch {
		case entry.State&netlink.NUD_PERMANENT != 0:
			ports[mac] = -1
		case ports[mac] == 0:
			ports[mac] = entry.LinkIndex
		}
	}
	return ports, nil
}
