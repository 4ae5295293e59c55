package survey

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"

	"mpps/internal/model/setting"
)

// element is one of a definition.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
}

func (e *element) attribute(name string) (string, bool) {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}

// step is one on the way to an element: its name and, where there are several, an attribute of it ("vcpu=0") or of a
// child ("mac.address=…") that tells which.
type step struct{ name, which string }

func (e *element) is(s step) bool {
	if e.XMLName.Local != s.name {
		return false
	}
	where, value, several := strings.Cut(s.which, "=")
	if !several {
		return true
	}
	owner := e
	if child, attribute, below := strings.Cut(where, "."); below {
		where = attribute
		if owner = e.at(step{name: child}); owner == nil {
			return false
		}
	}
	found, _ := owner.attribute(where)
	return found == value
}

// at follows steps, nil where they lead nowhere.
func (e *element) at(steps ...step) *element {
	for _, s := range steps {
		next := (*element)(nil)
		for i := range e.Children {
			if e.Children[i].is(s) {
				next = &e.Children[i]
				break
			}
		}
		if next == nil {
			return nil
		}
		e = next
	}
	return e
}

// policyAndPriority stands for the two attributes of a scheduler.
const policyAndPriority = "scheduler and priority"

// places are where values of a definition stand in it: the form of the address's path, the steps from domain to the
// element, its attribute (none: that the element is there). $1 and $2 are parts of the path.
var places = []struct {
	form      *regexp.Regexp
	steps     []step
	attribute string
}{
	{regexp.MustCompile(`^vcpupin/(\d+)$`), []step{{"cputune", ""}, {"vcpupin", "vcpu=$1"}}, "cpuset"},
	{regexp.MustCompile(`^iothreadpin/(\d+)$`), []step{{"cputune", ""}, {"iothreadpin", "iothread=$1"}}, "cpuset"},
	{regexp.MustCompile(`^emulatorpin$`), []step{{"cputune", ""}, {"emulatorpin", ""}}, "cpuset"},
	{regexp.MustCompile(`^numatune/memory\.(\w+)$`), []step{{"numatune", ""}, {"memory", ""}}, "$1"},
	{regexp.MustCompile(`^vcpusched/([\d,-]+)$`), []step{{"cputune", ""}, {"vcpusched", "vcpus=$1"}},
		policyAndPriority},
	{regexp.MustCompile(`^memoryBacking/(\w+)$`), []step{{"memoryBacking", ""}, {"$1", ""}}, ""},
	{regexp.MustCompile(`^features/pmu\.state$`), []step{{"features", ""}, {"pmu", ""}}, "state"},
	{regexp.MustCompile(`^features/kvm/([\w-]+)\.state$`), []step{{"features", ""}, {"kvm", ""}, {"$1", ""}}, "state"},
	{regexp.MustCompile(`^cpu/(mode|migratable)$`), []step{{"cpu", ""}}, "$1"},
	{regexp.MustCompile(`^cpu/cache\.mode$`), []step{{"cpu", ""}, {"cache", ""}}, "mode"},
	{regexp.MustCompile(`^features/hyperv/(\w+)\.state$`), []step{{"features", ""}, {"hyperv", ""}, {"$1", ""}},
		"state"},
	{regexp.MustCompile(`^clock/timer/(\w+)\.present$`), []step{{"clock", ""}, {"timer", "name=$1"}}, "present"},
	{regexp.MustCompile(`^interface/([^/]+)/model$`), []step{{"devices", ""}, {"interface", "mac.address=$1"},
		{"model", ""}}, "type"},
	{regexp.MustCompile(`^interface/([^/]+)/driver\.(\w+)$`), []step{{"devices", ""}, {"interface", "mac.address=$1"},
		{"driver", ""}}, "$2"},
	{
		regexp.MustCompile(`^interface/([^/]+)/coalesce\.rx\.frames\.max$`),
		[]step{{"devices", ""}, {"interface", "mac.address=$1"}, {"coalesce", ""}, {"rx", ""}, {"frames", ""}}, "max",
	},
}

// definition is what stands at a path of a guest's definition, as virsh prints it.
func definition(text, path string) (string, bool, error) {
	for _, p := range places {
		match := p.form.FindStringSubmatchIndex(path)
		if match == nil {
			continue
		}
		fill := func(template string) string { return string(p.form.ExpandString(nil, template, path, match)) }
		var domain element
		if err := xml.Unmarshal([]byte(text), &domain); err != nil || domain.XMLName.Local != "domain" {
			return "", false, fmt.Errorf("virsh dumpxml: expected a domain, found %.200q", text)
		}
		steps := make([]step, len(p.steps))
		for i, s := range p.steps {
			steps[i] = step{fill(s.name), fill(s.which)}
		}
		found := domain.at(steps...)
		switch {
		case found == nil:
			return "", false, nil
		case found.XMLName.Local == "hugepages":
			return "default", len(found.Children) == 0, nil
		case p.attribute == "":
			return "yes", true, nil
		case p.attribute == policyAndPriority:
			policy, _ := found.attribute("scheduler")
			if priority, has := found.attribute("priority"); has {
				policy += ":" + priority
			}
			return policy, true, nil
		}
		value, has := found.attribute(fill(p.attribute))
		if has && p.attribute == "cpuset" {
			set, err := setting.ParseCPUs(value)
			return set.String(), true, err
		}
		return value, has, nil
	}
	return "", false, fmt.Errorf("%s is not a path of a definition that is known here", path)
}
