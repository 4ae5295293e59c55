// Package profile exports a goal as a TuneD profile.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/kube"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
	"mpps/internal/outcome"
)

// Request says what to export.
type Request struct {
	Goal     goal.Goal
	Flags    string // that name the goal
	Snapshot string // a file of 'mpps snapshot' instead of the machine
	Name     string // of the profile
	Output   string // directory in which to create the profile's directory; empty: write nothing
}

// Export makes a profile of the settings that a goal needs on a host.
func Export(ctx context.Context, env *ops.Env, a Request) (*facts.Host, *export.Profile, []outcome.Warning, error) {
	h, err := env.Gather(ctx, ops.Look{Snapshot: a.Snapshot, Guest: a.Goal.Guest})
	if err != nil {
		return nil, nil, nil, err
	}
	defer h.Close()
	if err := ops.CheckGoal(h.Facts, a.Goal); err != nil {
		return nil, nil, nil, err
	}
	request := export.Request{
		Name: a.Name, Flags: a.Flags, Version: env.Version, Host: h.Facts,
		Report: audit.RunWith(h.Facts, a.Goal, knob.Catalogue(), h.Site.Adjust),
	}
	request.Machine.Online = h.Facts.Topology.Online
	for _, c := range h.Facts.Topology.CPUs {
		request.Machine.Present = append(request.Machine.Present, c.ID)
	}
	if h.Machine != nil {
		request.Files, request.Machine = h.Machine.TunedFiles()
	}
	p, err := export.Make(request)
	if errors.Is(err, export.ErrNoCPUs) {
		err = outcome.Failed(err, "name them with --cpus, or the guest with --guest")
	}
	if err == nil && a.Output != "" {
		if p.Written, err = write(filepath.Join(a.Output, a.Name), p.Files); err != nil {
			err = outcome.Failed(fmt.Errorf("profile %s: %w", a.Name, err),
				"-o takes a directory that you may write to, such as /etc/tuned/profiles")
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return h.Facts, p, append(ops.Caveats(h.Facts, a.Goal), caveats(p)...), nil
}

// writtenBy begins every profile that mpps has written.
const writtenBy = "# Written by mpps"

// write writes a profile's directory and returns its name. It refuses a profile that mpps has not written.
func write(folder string, files []export.File) (string, error) {
	switch f, err := ops.OpenFile(filepath.Join(folder, "tuned.conf")); {
	case err == nil:
		defer f.Close()
		begin := make([]byte, len(writtenBy))
		if _, err := io.ReadFull(f, begin); err != nil || string(begin) != writtenBy {
			return "", errors.New(folder + " is there and was not written by mpps")
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if err := ops.MakeFolder(folder); err != nil {
		return "", outcome.FileCause(err)
	}
	for _, f := range slices.Backward(files) { // included files first
		if err := ops.ReplaceFile(filepath.Join(folder, f.Name), []byte(f.Text)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// caveats returns what to know before activating the profile.
func caveats(p *export.Profile) []outcome.Warning {
	var all []outcome.Warning
	if p.Assumed {
		all = append(all, outcome.Warning{
			Code: "tuned-not-seen",
			Text: "the profile " + p.Base + " of TuneD was not there to be read: " +
				"what its versions 2.20 to 2.25 have in common was counted on",
			Hint: "make the profile on the host where it is to be used, with TuneD installed",
		})
	}
	if slices.ContainsFunc(p.Held, func(h export.Held) bool { return h.Address.Kind == setting.NICCoalesce }) {
		all = append(all, outcome.Warning{
			Code: "tuned-coalesce",
			Text: "TuneD 2.25, for one, sets no coalescing at all where 'ethtool -c' prints parameters " +
				"that it does not know, such as tx-aggr-max-bytes",
			Hint: "'unknown coalesce parameter' in /var/log/tuned/tuned.log says so; " +
				"then 'mpps plan' still has these values, and 'mpps apply' sets them and makes them last",
		})
	}
	if len(p.Twice) > 0 {
		all = append(all, outcome.Warning{
			Code: "twice-at-boot",
			Text: "the boot loader's own files give these kernel arguments already, " +
				"and the kernel would get them twice: " + strings.Join(p.Twice, ", "),
			Hint: "'mpps rollback' takes out those that mpps has written; others are taken out of /etc/default/grub " +
				"or by grubby",
		})
	}
	return all
}

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
		if err := ops.CheckGoal(h.Facts, a.Goal); err != nil {
			return nil, nil, nil, err
		}
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
