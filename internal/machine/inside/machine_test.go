package inside_test

import (
	"context"

	"mpps/internal/machine"
	"mpps/internal/machine/inside"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// The tests of package inside, which machine imports, read a guest's files with the inventory of machine.
func init() {
	inside.Inventory = func(ctx context.Context, t *tree.Tree) *facts.Host {
		return machine.Of(t).Inventory(ctx)
	}
}
