package kube

import (
	"encoding/json"
	"fmt"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
)

// Features returns a file of features for Node Feature Discovery from 0.14 on (source/local/local.go: a name and a
// value a line; a comment "+expiry-time" ends what follows it), made of an audit at a time. Each becomes a label of the
// node below feature.node.kubernetes.io.
func Features(r audit.Report, version, host string, now time.Time, valid time.Duration) *Export {
	e := &Export{Target: "Node Feature Discovery",
		File: "/etc/kubernetes/node-feature-discovery/features.d/mpps", NotHeld: []Left{
			{What: "the findings themselves", Why: "a label holds a word of 63 characters", Command: "mpps audit"},
			{What: "what changes later", Why: "the file is as old as the audit",
				Command: "mpps export nfd, by a timer"}}}
	worst := knob.Info
	off := r.AtLeast(knob.Low)
	for _, f := range off {
		worst = max(worst, f.Severity)
	}
	e.Text = fmt.Sprintf("# Written by mpps %s for host %s: %s\n# +expiry-time=%s\n", version, unbroken(host),
		oneLine(r.Verdict), now.Add(valid).UTC().Format(time.RFC3339))
	for _, line := range [][2]string{
		{"tier", string(r.Tier)}, {"role", string(r.Role)}, {"limits", fmt.Sprint(len(off))}, {"worst", worst.String()},
		{"unknown", fmt.Sprint(r.Coverage.Unknown)}, {"unseen", fmt.Sprint(len(r.Coverage.Unseen))},
	} {
		e.Text += "mpps." + line[0] + "=" + line[1] + "\n"
	}
	return e
}

// npdConfig is the configuration of a custom plugin of the node problem detector (pkg/custompluginmonitor/types,
// CustomPluginConfig and CustomRule; statuses 0, 1 and 2 are fine, a problem, unknown).
type npdConfig struct {
	Plugin     string         `json:"plugin"`
	Config     npdGlobal      `json:"pluginConfig"`
	Source     string         `json:"source"`
	Metrics    bool           `json:"metricsReporting"`
	Conditions []npdCondition `json:"conditions"`
	Rules      []npdRule      `json:"rules"`
}

type npdGlobal struct {
	Interval    string `json:"invoke_interval"`
	Timeout     string `json:"timeout"`
	MostOutput  int    `json:"max_output_length"`
	Concurrency int    `json:"concurrency"`
}

type npdCondition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type npdRule struct {
	Type      string   `json:"type"` // permanent sets the condition, temporary makes an event
	Condition string   `json:"condition,omitempty"`
	Reason    string   `json:"reason"`
	Path      string   `json:"path"`
	Args      []string `json:"args"`
	Timeout   string   `json:"timeout"`
}

// Problems returns a configuration of a plugin for the node problem detector: a condition of the node that is true
// while values are not as they were applied.
func Problems() (*Export, error) {
	text, err := json.MarshalIndent(npdConfig{Plugin: "custom", Source: "mpps-monitor", Metrics: true,
		Config:     npdGlobal{"5m", "1m", 80, 1},
		Conditions: []npdCondition{{"MppsDrift", "AsApplied", "values are as mpps applied them"}},
		Rules: []npdRule{{"permanent", "MppsDrift", "Drifted", "/usr/bin/mpps",
			[]string{"verify", "--exit-codes", "npd"}, "50s"}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return &Export{Target: "the node problem detector", File: "/etc/node-problem-detector.d/mpps.json",
		Text: string(text) + "\n", NotHeld: []Left{
			{What: "which values drifted", Why: "a condition holds 80 characters", Command: "mpps verify"},
			{What: "a repair", Why: "the detector only reports", Command: "mpps apply"},
			{What: "a detector in a pod", Why: "it refuses a rule whose program its own container does not have " +
				"(CustomPluginConfig.Validate), and mpps verifies the host: run it as a service of the host"}}}, nil
}
