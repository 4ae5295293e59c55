// Package kube writes objects and files for what tunes and watches nodes of Kubernetes: the Node Tuning Operator, the
// SR-IOV network operator, Node Feature Discovery, the node problem detector, a DaemonSet. Each lists what its target
// cannot hold. Data and pure code.
package kube

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Export is what one target takes.
type Export struct {
	Target  string `json:"target"`
	File    string `json:"file"` // where it belongs, or the name of the file to apply with kubectl
	Text    string `json:"text"`
	NotHeld []Left `json:"not_held"`
	Written string `json:"written,omitempty"`
}

// Left is something that the target cannot hold.
type Left struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"` // does it
}

// object is the head that all objects have.
type object struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       any      `yaml:"spec"`
}

type metadata struct {
	Name      string            `yaml:"name,omitempty"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

// hostLabel is the label of a node that has its name (k8s.io/api/core/v1, LabelHostname).
const hostLabel = "kubernetes.io/hostname"

// The syntax of labels (k8s.io/apimachinery/pkg/util/validation, IsQualifiedName and IsValidLabelValue): a prefix is a
// subdomain of DNS with at most 253 characters, name and value are words of at most 63.
var (
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelWord   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// CheckLabel reports why a text is no label of a node, "KEY=VALUE". The value may be empty.
func CheckLabel(text string) error {
	key, value, found := strings.Cut(text, "=")
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		prefix, name = "", key
	}
	word := func(s string) bool { return len(s) <= 63 && labelWord.MatchString(s) }
	if !found || !word(name) || prefixed && (len(prefix) > 253 || !labelPrefix.MatchString(prefix)) ||
		value != "" && !word(value) {
		return fmt.Errorf("found %q, expected KEY=VALUE as a label of a node has them", text)
	}
	return nil
}

// CheckPool reports why a text is no name of a machine configuration pool.
func CheckPool(text string) error {
	if len(text) > 253 || !labelPrefix.MatchString(text) {
		return fmt.Errorf("found %q, expected the name of a machine configuration pool, such as worker-kvm", text)
	}
	return nil
}

// labelOf returns the label of nodes that are meant: "key=value", or the host's own.
func labelOf(text, host string) (key, value string) {
	if text == "" {
		return hostLabel, host
	}
	key, value, _ = strings.Cut(text, "=")
	return key, value
}

// documents writes objects as YAML, one document each, below comments.
func documents(comments []string, objects ...object) (string, error) {
	var b bytes.Buffer
	for _, line := range comments {
		fmt.Fprintln(&b, strings.TrimRight("# "+unbroken(line), " "))
	}
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, o := range objects {
		if err := encoder.Encode(o); err != nil {
			return "", fmt.Errorf("write YAML: %w", err)
		}
	}
	return b.String(), nil
}

// comments returns the head of a file: who wrote it, and what its target cannot hold.
func comments(version, host, target string, left []Left) []string {
	all := []string{fmt.Sprintf("Written by mpps %s for host %s.", version, host)}
	if len(left) > 0 {
		all = append(all, "", "Not held by "+target+":")
	}
	for _, l := range left {
		all = append(all, "  "+oneLine(l.What)+": "+oneLine(l.Why))
		if l.Command != "" {
			all = append(all, "    "+oneLine(l.Command))
		}
	}
	return all
}

// unbroken returns a text with a blank for whatever ends a line somewhere, and with it a comment: parsers of YAML 1.1
// take U+0085, U+2028 and U+2029 for line breaks, and host names in snapshots may have the latter two.
func unbroken(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// nameOf returns a name of an object: a label of RFC 1123, at most 63 characters.
func nameOf(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(name[:min(len(name), 63)], "-")
}
