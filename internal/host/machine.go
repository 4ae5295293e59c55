package host

import (
	"sync"

	"mpps/internal/machine/tree"
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
