package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/setting"
)

// virtNetworks reads and writes libvirt's networks (setting.VirtNetwork). It reads the files of the network driver
// (src/network/bridge_driver.c), which needs no daemon, and writes with virsh.
type virtNetworks struct{ machine *tree.Tree }

func (n virtNetworks) Read(_ context.Context, a setting.Address) setting.Reading {
	name, what := a.Object(), a.Rest()
	if name == "" || name == "." || name == ".." {
		return setting.CouldNotTell(fmt.Sprintf("%s: expected NAME/definition, NAME/active or NAME/autostart", a))
	}
	file := name + ".xml"
	switch what {
	case "definition":
		text, err := n.machine.Read(path.Join(networkFolder, file))
		if errors.Is(err, fs.ErrNotExist) {
			return setting.Missing("libvirt has no such network")
		}
		if err != nil {
			return tree.Unreadable("network "+name, err)
		}
		value, verbatim, err := domain.NetworkValue(text)
		if err != nil {
			return setting.CouldNotTell(fmt.Sprintf("network %s: %v", name, err))
		}
		reading := setting.Value(value)
		reading.Verbatim = verbatim
		return reading
	case "active":
		return n.presence(path.Join(activeNetworkFolder, file))
	case "autostart":
		return n.presence(path.Join(networkAutostart, file))
	}
	return setting.CouldNotTell(fmt.Sprintf("%s: expected NAME/definition, NAME/active or NAME/autostart", a))
}

// presence returns "yes" if a file or link exists, else "no".
func (n virtNetworks) presence(name string) setting.Reading {
	_, err := n.machine.Lstat(name)
	switch {
	case err == nil:
		return setting.Value("yes")
	case errors.Is(err, fs.ErrNotExist):
		return setting.Value("no")
	}
	return tree.Unreadable("/"+name, err)
}

// Write defines a network, starts it, enables autostart, or does the reverse. It refuses to stop or undefine a network
// that a running guest uses.
func (n virtNetworks) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	err := n.write(ctx, a.Object(), a.Rest(), to)
	if err == nil {
		if found := n.Read(ctx, a); !found.Same(to) {
			err = fmt.Errorf("wanted %s, but libvirt made it %s", to, found)
		}
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}

func (n virtNetworks) write(ctx context.Context, name, what string, to setting.Reading) error {
	asked, err := Open(n.machine)
	if err != nil {
		return err
	}
	v, live := asked.(Virsh)
	if !live {
		return tree.ErrNotLive
	}
	if to.State == setting.Unknown {
		return errors.New("an unknown value cannot be written")
	}
	switch on := to.Value == "yes"; {
	case what == "definition" && to.State == setting.Known:
		uuid := ""
		if text, err := n.machine.Read(path.Join(networkFolder, name+".xml")); err == nil {
			uuid = domain.NetworkUUID(text)
		}
		text, err := domain.NetworkXML(name, uuid, to.Value, to.Verbatim)
		if err != nil {
			return err
		}
		return v.change(ctx, text, "net-define", "--file", "/proc/self/fd/0")
	case what == "definition":
		if err := n.checkUnused(ctx, name); err != nil {
			return err
		}
		if n.presence(path.Join(activeNetworkFolder, name+".xml")).Value == "yes" {
			return errors.New("it is active: stop it first, or it goes on without a definition")
		}
		return v.change(ctx, "", "net-undefine", "--network", name)
	case to.State != setting.Known || to.Value != "yes" && to.Value != "no":
		return fmt.Errorf("expected yes or no, found %s", to)
	case what == "active" && on:
		return v.change(ctx, "", "net-start", "--network", name)
	case what == "active":
		if err := n.checkUnused(ctx, name); err != nil {
			return err
		}
		return v.change(ctx, "", "net-destroy", "--network", name)
	case what == "autostart" && on:
		return v.change(ctx, "", "net-autostart", "--network", name)
	case what == "autostart":
		return v.change(ctx, "", "net-autostart", "--network", name, "--disable")
	}
	return errors.New("expected NAME/definition, NAME/active or NAME/autostart")
}

// NetworkUsed is the error for a network that running guests use.
type NetworkUsed struct {
	Network string
	Guests  []string
}

func (u *NetworkUsed) Error() string {
	return fmt.Sprintf("network %s is used by running guests: %s", u.Network, strings.Join(u.Guests, ", "))
}

// Hint returns what to do.
func (u *NetworkUsed) Hint() string {
	return "take their interfaces of it out first, or shut them down: without its network libvirt does not know any " +
		"more which functions are taken"
}

// checkUnused returns an error if running guests use a network, or if it cannot be known because a guest cannot be
// read.
func (n virtNetworks) checkUnused(ctx context.Context, name string) error {
	used := &NetworkUsed{Network: name}
	for _, file := range n.machine.List(RunningFolder) {
		guest, isXML := strings.CutSuffix(file, ".xml")
		if !isXML {
			continue
		}
		doc, err := runningDocument(ctx, n.machine, guest)
		if errors.Is(err, errNoGuest) {
			continue
		}
		if err != nil {
			return fmt.Errorf("whether guest %s uses it cannot be determined: %w", guest, err)
		}
		if slices.ContainsFunc(doc.Guest().Interfaces, func(nic domain.Interface) bool {
			return nic.Type == "network" && nic.Source == name
		}) {
			used.Guests = append(used.Guests, guest)
		}
	}
	if len(used.Guests) > 0 {
		return used
	}
	return nil
}
