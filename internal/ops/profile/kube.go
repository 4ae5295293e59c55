package profile

import (
	"context"
	"fmt"
	"time"

	"mpps/internal/advise/kube"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
	"mpps/internal/outcome"
)

// Kinds of what clusters take.
const (
	SRIOVPolicy = "sriov-policy"
	Features    = "nfd"
	Problems    = "npd"
	DaemonSet   = "daemonset"
)

// KubeRequest says what to export for a cluster.
type KubeRequest struct {
	Kind     string
	Goal     goal.Goal
	Snapshot string
	Label    string        // of the nodes, as key=value; empty: the host's own name
	Image    string        // of the DaemonSet
	Valid    time.Duration // how long features hold
	Output   string        // file to write; empty: none
}

// Kube makes a file for what tunes or watches a node of Kubernetes.
func Kube(ctx context.Context, env *ops.Env, a KubeRequest) (*facts.Host, *kube.Export, []outcome.Warning, error) {
	look := ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest}
	gather := env.Host
	if a.Kind == Features {
		gather = env.Gather
	}
	h, err := gather(ctx, look)
	if err != nil {
		return nil, nil, nil, err
	}
	defer h.Close()
	var e *kube.Export
	switch a.Kind {
	case SRIOVPolicy:
		e, err = kube.SRIOVPolicy(h.Facts, env.Version, a.Label)
	case Features:
		r := judging.Audit(h.Facts, a.Goal, h.Site.Adjust)
		e = kube.Features(r, env.Version, h.Facts.Name, h.Facts.Taken, a.Valid)
	case Problems:
		e, err = kube.Problems()
	case DaemonSet:
		e, err = kube.DaemonSet(env.Version, h.Facts.Name, a.Image, a.Label)
	}
	if err == nil {
		err = WriteKube(e, a.Output)
	}
	return h.Facts, e, ops.UnseenWarnings(h.Facts), err
}

// Tuned makes an object of the Node Tuning Operator of a profile.
func Tuned(p *export.Profile, version, host, label, pool, output string) (*kube.Export, error) {
	e, err := kube.Tuned(p, version, host, label, pool)
	if err != nil {
		return nil, outcome.Failed(err, "--name takes another")
	}
	return e, WriteKube(e, output)
}

// WriteKube writes an export to a file, unless its name is empty.
func WriteKube(e *kube.Export, output string) error {
	if output == "" {
		return nil
	}
	e.Written = output
	if err := ops.ReplaceFile(output, []byte(e.Text)); err != nil {
		return outcome.Failed(fmt.Errorf("export to %s: %w", output, err), "-o takes a file that you may write to")
	}
	return nil
}
