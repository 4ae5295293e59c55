package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtKthreads = &Knob{
	ID: "rt.kthreads", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.workqueue"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.ThreadCPUs, "kernel")),
	Want: keptOff("kernel threads that can be moved run on the host's CPUs; those of one CPU cannot be moved",
		"kernel threads that belong to no CPU may run on the guests' CPUs"),
}
