package kube

import (
	"fmt"
	"strings"

	"mpps/internal/advise/tuned/export"
)

// Namespace and names of the Node Tuning Operator (cluster-node-tuning-operator, manifests/20-tuned.crd.yaml).
const (
	tunedNamespace = "openshift-cluster-node-tuning-operator"
	// profiles of the operator itself have priorities from 20 on; the lowest number wins
	tunedPriority = 15
)

type tunedSpec struct {
	Profile   []tunedProfile   `yaml:"profile"`
	Recommend []tunedRecommend `yaml:"recommend"`
}

type tunedProfile struct {
	Name string `yaml:"name"`
	Data string `yaml:"data"`
}

type tunedRecommend struct {
	MachineConfigLabels map[string]string `yaml:"machineConfigLabels,omitempty"`
	Match               []tunedMatch      `yaml:"match,omitempty"`
	Priority            int               `yaml:"priority"`
	Profile             string            `yaml:"profile"`
}

type tunedMatch struct {
	Label string `yaml:"label"`
	Value string `yaml:"value,omitempty"`
}

// poolLabel is the label of machine configurations that the operator makes for a pool, of which kernel arguments are
// part.
const poolLabel = "machineconfiguration.openshift.io/role"

// Tuned returns a profile of TuneD as an object of the Node Tuning Operator. It is recommended for nodes with a label,
// or, with a pool, for those of a machine configuration pool: kernel arguments need that.
func Tuned(p *export.Profile, version, host, label, pool string) (*Export, error) {
	e := &Export{Target: "the Node Tuning Operator", File: nameOf(p.Name) + ".yaml", NotHeld: []Left{}}
	for _, l := range p.NotHeld {
		e.NotHeld = append(e.NotHeld, Left{What: l.ID + "  " + l.Address.String() + " = " + oneLine(l.Wanted),
			Why: l.Why, Command: l.Command})
	}
	recommend := tunedRecommend{Priority: tunedPriority, Profile: p.Name}
	if pool != "" {
		recommend.MachineConfigLabels = map[string]string{poolLabel: pool}
	} else {
		key, value := labelOf(label, host)
		recommend.Match = []tunedMatch{{key, value}}
		if arguments := kernelArguments(p); len(arguments) > 0 {
			e.NotHeld = append(e.NotHeld, Left{What: "kernel arguments " + strings.Join(arguments, " "),
				Why: "the operator gives them to nodes of a machine configuration pool alone", Command: "--pool NAME"})
		}
	}
	name := nameOf(p.Name)
	if name == "" {
		return nil, fmt.Errorf("profile name %q: it holds no letter or digit, as names of objects must", p.Name)
	}
	var err error
	e.Text, err = documents(comments(version, host, e.Target, e.NotHeld), object{"tuned.openshift.io/v1", "Tuned",
		metadata{Name: name, Namespace: tunedNamespace}, tunedSpec{[]tunedProfile{{p.Name, inline(p)}},
			[]tunedRecommend{recommend}}})
	return e, err
}

// kernelArguments returns the kernel arguments that a profile sets itself.
func kernelArguments(p *export.Profile) (all []string) {
	for _, h := range p.Held {
		if strings.HasPrefix(h.Option, "bootloader.") {
			all = append(all, h.Address.Rest()+"="+h.Value)
		}
	}
	return all
}

// inline returns a profile's tuned.conf with its variables in it: an object has one text. The head's comments are the
// object's.
func inline(p *export.Profile) string {
	conf, variables := "", ""
	for _, f := range p.Files {
		switch f.Name {
		case "tuned.conf":
			conf = f.Text
		case "variables.conf":
			variables = f.Text
		}
	}
	if at := strings.Index(conf, "[main]"); at > 0 {
		conf = conf[at:]
	}
	return strings.ReplaceAll(conf, "include=${i:PROFILE_DIR}/variables.conf\n", variables)
}
