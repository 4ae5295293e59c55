package site

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mpps/internal/model/goal"
)

// GoalPath is the path below the root of the goal that counts where the command line names none: a mapping of the goal
// flags to their values.
//
//	pps: 1.8M
//	guest: fw1
//	consent: [security]
const GoalPath = "etc/mpps/goal.yaml"

// goalForm is the hint for a file of another form.
const goalForm = "it has the goal flags of 'mpps plan --help': 'pps: 1.8M' on a line, 'consent: [security]' on another"

// GoalFile is the goal file.
type GoalFile struct {
	Goal  goal.Goal
	Parts []Part
}

// Part is one part of the goal as written.
type Part struct {
	Name   string // of goal.Names
	Values []string

	line int
}

// LoadGoal reads the goal file below a root; nil if there is none, or nothing in it, or no such root: whoever opens the
// machine says so.
func LoadGoal(root string) (*GoalFile, error) {
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	text, err := read(root, GoalPath)
	if text == nil || err != nil {
		return nil, err
	}
	return ParseGoal(text)
}

// ParseGoal parses the text of a goal file; nil if nothing is in it. Its error is an *Error for the first mistake.
func ParseGoal(text []byte) (*GoalFile, error) {
	if len(text) > maxBytes {
		return nil, refusal(0, goalForm, "it is larger than %d KiB", maxBytes>>10)
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, refusal(0, goalForm, "%s", plainError(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, refusal(0, "write one mapping", "there is more than one document in it (---)")
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, refusal(top.Line, goalForm, "expected goal flags and their values")
	}
	f := &GoalFile{Goal: goal.Goal{Frame: 64, From: "/" + GoalPath}}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if wrong := f.add(top.Content[i], top.Content[i+1]); wrong != nil {
			return nil, wrong
		}
	}
	if err := f.Goal.Complete(); err != nil {
		advice := goalForm
		if hinted, is := err.(interface{ Hint() string }); is {
			advice = hinted.Hint()
		}
		return nil, refusal(0, advice, "%v", err)
	}
	return f, nil
}

// refusal returns an error about the goal file.
func refusal(line int, advice, format string, a ...any) *Error {
	return &Error{File: GoalPath, Line: line, Problem: fmt.Sprintf(format, a...), Advice: advice}
}

// add adds one part of the goal, or returns what is wrong with it.
func (f *GoalFile) add(key, value *yaml.Node) *Error {
	name := key.Value
	if key.Kind != yaml.ScalarNode || !slices.Contains(goal.Names(), name) {
		return refusal(key.Line, "known are "+strings.Join(goal.Names(), ", "), "unknown part of a goal %q", name)
	}
	for _, other := range f.Parts {
		if other.Name == name {
			return refusal(key.Line, "keep one of the two", "%s is given twice, first at line %d", name, other.line)
		}
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && goal.Lists(name) {
		nodes = value.Content
	}
	part := Part{Name: name, line: key.Line}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || strings.TrimSpace(n.Value) == "" {
			return refusal(n.Line, goalForm, "%s: expected a value", name)
		}
		part.Values = append(part.Values, n.Value)
	}
	if len(nodes) == 0 {
		return refusal(key.Line, goalForm, "%s: expected a value", name)
	}
	if err := f.Goal.Set(name, part.Values...); err != nil {
		return refusal(key.Line, goalForm, "%s: %v", name, err)
	}
	f.Parts = append(f.Parts, part)
	return nil
}
