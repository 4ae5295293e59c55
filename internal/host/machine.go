package host

import (
	"sync"

	"mpps/internal/machine/boot"
	"mpps/internal/machine/tree"
	"mpps/internal/setting"
)

// Machine is one machine, live or recorded.
type Machine struct {
	*tree.Tree

	definitions definitions // of guests, as read before
	inside      string      // the guest whose inside the inventory shows; empty: the only one that runs
	hung        sync.Map    // guests whose agent did not answer: name → hungSince
}

// Open opens the machine whose files are below root; "/" is the live one.
func Open(root string) (*Machine, error) {
	t, err := tree.Open(root)
	if err != nil {
		return nil, err
	}
	return &Machine{Tree: t}, nil
}

// AtBoot returns the reading that an address would have if the running kernel were the one that is booted next.
func (m *Machine) AtBoot(a setting.Address) setting.Reading { return boot.AtBoot(m.Tree, a) }
