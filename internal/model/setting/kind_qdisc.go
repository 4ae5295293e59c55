package setting

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// RootQdisc: "root-qdisc:gre0", a virtual network device. The qdisc whose lock every sender takes; "noqueue" if there
// is none. One that the kernel chose (handle 0) begins with default: "default fq_codel", with several queues "default
// mq fq_codel", one for each. One that somebody added has its handle: "pfifo_fast 8001:", "mq 8001: fq_codel", "htb
// 1:". Only a qdisc without parameters can be restored as it was; others are read and left alone.
const RootQdisc Kind = "root-qdisc"

// NoQueue is the value of a device without a qdisc.
const NoQueue = "noqueue"

// Qdisc is a value of RootQdisc.
type Qdisc struct {
	Kind    string // noqueue, fq_codel, mq, …
	Default bool   // the kernel's own choice
	Handle  string // "8001:"; empty where it is the kernel's choice, and of noqueue
	Each    string // of mq: the qdisc of each queue; empty if they differ or somebody added one
}

var (
	qdiscKind   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,14}$`)
	qdiscHandle = regexp.MustCompile(`^[1-9a-f][0-9a-f]{0,3}:$`)
)

// String returns the canonical value.
func (q Qdisc) String() string {
	words := []string{q.Kind, q.Handle, q.Each}
	if q.Default {
		words = append([]string{"default"}, words...)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// ParseQdisc parses a value of RootQdisc.
func ParseQdisc(text string) (Qdisc, error) {
	var q Qdisc
	words := strings.Fields(text)
	if len(words) > 0 && words[0] == "default" {
		q.Default, words = true, words[1:]
	}
	if len(words) > 0 {
		q.Kind, words = words[0], words[1:]
	}
	if len(words) > 0 && !q.Default {
		q.Handle, words = words[0], words[1:]
	}
	if len(words) > 0 && q.Kind == "mq" {
		q.Each, words = words[0], words[1:]
	}
	none := q.Kind == NoQueue
	if len(words) > 0 || !qdiscKind.MatchString(q.Kind) || q.Each != "" && !qdiscKind.MatchString(q.Each) ||
		none && (q.Default || q.Handle != "") || !none && !q.Default && !qdiscHandle.MatchString(q.Handle) {
		return Qdisc{}, fmt.Errorf("expected a queueing discipline such as noqueue, default fq_codel or pfifo_fast "+
			"8001:, found %q", text)
	}
	return q, nil
}

// Restorable returns why a qdisc could not be restored as it was; nil if it could. One that the kernel chose has
// default parameters, and nobody can have changed them: handle 0 names nothing (net/sched/sch_api.c, tc_modify_qdisc).
func (q Qdisc) Restorable() error {
	switch {
	case q.Kind == "mq" && q.Each == "":
		return errors.New("its queues have disciplines that somebody put there, which could not be put back as they " +
			"were")
	case q.Kind == NoQueue, q.Default, q.Kind == "pfifo_fast", q.Kind == "mq":
		return nil
	}
	return fmt.Errorf("somebody put %s there, with parameters that could not be put back as they were", q.Kind)
}

// ByDefault returns the kind that net.core.default_qdisc must name for the value to come back, "" if that does not
// matter.
func (q Qdisc) ByDefault() string {
	switch {
	case q.Kind == "mq":
		return q.Each
	case q.Default:
		return q.Kind
	}
	return ""
}

func canonicalQdisc(raw string) (string, error) {
	q, err := ParseQdisc(raw)
	return q.String(), err
}
