package bench

import (
	"context"

	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
)

// Reach returns an error unless the end's agent answers with this version and the secret, and has the interface. It is
// asked from the namespace of From.
func (e *Ends) Reach(ctx context.Context, version string) error {
	o, err := e.agent(version)
	if err != nil {
		return err
	}
	o.Netns = e.From.Netns
	return rig.Reach(ctx, o)
}

// CheckLink returns an error unless an end of this machine is there and up: IFACE or netns:NAME/IFACE, or a bridge.
func CheckLink(name string, bridge bool) error {
	if bridge {
		return rig.CheckBridge(name)
	}
	e, err := traffic.ParseEndpoint(name)
	if err != nil {
		return err
	}
	return rig.CheckEnd(e)
}
