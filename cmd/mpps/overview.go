package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/ops/judging"
	"mpps/internal/report"
)

// overviewPPS is the target of the overview, in packets per second: more than a guest gets out of the box, and what any
// host can carry.
const overviewPPS = 500e3

// overview says what this host is and which command helps most: 'mpps' without a command.
func (a *app) overview(ctx context.Context) error {
	if a.json {
		return usage(errors.New("--json: expected a command"), "see 'mpps --help'")
	}
	h, err := a.env().Gather(ctx, ops.Look{})
	if err != nil {
		return err
	}
	defer h.Close()
	r := judging.Audit(h.Facts, goal.Goal{PPS: overviewPPS}, h.Site.Adjust)
	s, err := change.ReadStatus(ctx, a.env(), false)
	if err != nil {
		s = &change.HostStatus{}
		s.Status.Why = "its state could not be read: " + err.Error()
	}
	return a.out.Answer(report.Answer{Verb: "overview", Host: h.Facts.Name,
		Text: func(t *report.Text) { report.Overview(t, h.Facts, r, s.Status) }})
}

// built is the result of 'mpps version'.
type built struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"` // GOOS/GOARCH
}

func (a *app) versionCommand() *cobra.Command {
	return verb("version", "show the version of mpps", cobra.NoArgs, func(*cobra.Command, []string) error {
		b := built{version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		return a.out.Answer(report.Answer{Verb: "version", Result: b,
			Text: func(t *report.Text) { t.Line("mpps %s, %s, %s", b.Version, b.Go, b.System) }})
	})
}
