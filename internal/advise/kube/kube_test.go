package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// field is what a schema says of a field: its type, and what else holds.
type field struct {
	kind     string // string, integer, boolean, object, array, map (of strings)
	required bool
	enum     []string
	most     int // of an integer, if not 0
	fields   map[string]field
	items    *field
}

// head is what every object has.
func head(apiVersion, kind string, spec field) field {
	return field{kind: "object", fields: map[string]field{
		"apiVersion": {kind: "string", required: true, enum: []string{apiVersion}},
		"kind":       {kind: "string", required: true, enum: []string{kind}},
		"metadata":   {kind: "object", required: true, fields: map[string]field{"name": {kind: "string", required: true}, "namespace": {kind: "string"}, "labels": {kind: "map"}}},
		"spec":       spec}}
}

// What the published definitions say of the fields that are written: openshift/cluster-node-tuning-operator,
// manifests/20-tuned.crd.yaml; k8snetworkplumbingwg/sriov-network-operator, config/crd/bases/
// sriovnetwork.openshift.io_sriovnetworknodepolicies.yaml; k8s.io/api/apps/v1 and core/v1.
var (
	tunedCRD = head("tuned.openshift.io/v1", "Tuned", field{kind: "object", fields: map[string]field{
		"profile": {kind: "array", items: &field{kind: "object", fields: map[string]field{
			"name": {kind: "string", required: true}, "data": {kind: "string", required: true}}}},
		"recommend": {kind: "array", items: &field{kind: "object", fields: map[string]field{
			"machineConfigLabels": {kind: "map"}, "priority": {kind: "integer", required: true},
			"profile": {kind: "string", required: true},
			"match": {kind: "array", items: &field{kind: "object", fields: map[string]field{
				"label": {kind: "string", required: true}, "value": {kind: "string"}, "type": {kind: "string", enum: []string{"node", "pod"}}}}}}}},
	}})
	policyCRD = head("sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy", field{kind: "object", fields: map[string]field{
		"resourceName": {kind: "string", required: true}, "nodeSelector": {kind: "map", required: true},
		"numVfs": {kind: "integer", required: true}, "priority": {kind: "integer", most: 99},
		"externallyManaged": {kind: "boolean"}, "mtu": {kind: "integer"}, "isRdma": {kind: "boolean"},
		"deviceType": {kind: "string", enum: []string{"netdevice", "vfio-pci"}},
		"linkType":   {kind: "string", enum: []string{"eth", "ETH", "ib", "IB"}},
		"nicSelector": {kind: "object", required: true, fields: map[string]field{"vendor": {kind: "string"},
			"deviceID": {kind: "string"}, "pfNames": {kind: "array", items: &field{kind: "string"}},
			"rootDevices": {kind: "array", items: &field{kind: "string"}}}}}})
)

// check returns what is wrong with a value.
func (f field) check(at string, value any) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	switch v := value.(type) {
	case string:
		if f.kind != "string" || len(f.enum) > 0 && !slices.Contains(f.enum, v) {
			bad("%q is no %s of %q", v, f.kind, f.enum)
		}
	case int:
		if f.kind != "integer" || v < 0 || f.most > 0 && v > f.most {
			bad("%d is no %s up to %d", v, f.kind, f.most)
		}
	case bool:
		if f.kind != "boolean" {
			bad("%t is no %s", v, f.kind)
		}
	case []any:
		if f.kind != "array" {
			bad("a list is no %s", f.kind)
			return wrong
		}
		for i, item := range v {
			wrong = append(wrong, f.items.check(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
	case map[string]any:
		if f.kind != "object" && f.kind != "map" {
			bad("an object is no %s", f.kind)
			return wrong
		}
		for name, inner := range v {
			known, is := f.fields[name]
			switch {
			case f.kind == "map":
				known = field{kind: "string"}
			case !is:
				bad("there is no field %s", name)
				continue
			}
			wrong = append(wrong, known.check(at+"."+name, inner)...)
		}
		for name, known := range f.fields {
			if _, is := v[name]; known.required && !is {
				bad("%s is missing", name)
			}
		}
	default:
		bad("%v is of no type that is known", value)
	}
	return wrong
}

// objectsOf returns the documents of a YAML text.
func objectsOf(t *testing.T, text string) (all []any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return all
		}
		must.Need(t, err == nil, "%v in\n%s", err, text)
		all = append(all, value)
	}
}

// valid fails unless all documents are as a definition demands, and it finds a mistake that is made in each.
func valid(t *testing.T, crd field, text string, count int) {
	t.Helper()
	all := objectsOf(t, text)
	must.Need(t, len(all) == count, "%d objects, expected %d:\n%s", len(all), count, text)
	for _, object := range all {
		if wrong := crd.check("", object); len(wrong) > 0 {
			t.Errorf("%s\n%s", strings.Join(wrong, "\n"), text)
		}
		object.(map[string]any)["spec"].(map[string]any)["nothing"] = 1
		must.Hold(t, len(crd.check("", object)) == 1, "a field that there is not is taken")
	}
}

// profile is one with variables, kernel arguments and a value that TuneD cannot hold.
func profile() *export.Profile {
	return &export.Profile{Name: "mpps_RT1", Files: []export.File{
		{Name: "tuned.conf", Text: "# comment\n\n[main]\ninclude=realtime-virtual-host\n\n[variables]\n" +
			"include=${i:PROFILE_DIR}/variables.conf\n\n[sysctl]\nvm.stat_interval=10\n"},
		{Name: "variables.conf", Text: "isolated_cores=2-3\n"}},
		Held:    []export.Held{{ID: "boot.x", Value: "on", Option: "bootloader.cmdline_mpps"}},
		NotHeld: []export.Left{{ID: "domain.queues", Wanted: "4", Why: "TuneD has\nno guests", Command: "mpps apply"}}}
}

// TestTuned: the object is valid, its profile is one text with the variables in it, and kernel arguments are said not
// to be held without a pool.
func TestTuned(t *testing.T) {
	for pool, left := range map[string]int{"": 2, "worker-nfv": 1} {
		e := must.Get(Tuned(profile(), "1", "kvm-01", "", pool))(t)
		valid(t, tunedCRD, e.Text, 1)
		golden.File(t, "testdata/tuned"+strings.TrimSuffix("-"+pool, "-")+".yaml", e.Text)
		var o struct {
			Metadata struct{ Name string }
			Spec     struct {
				Profile   []struct{ Name, Data string }
				Recommend []struct {
					MachineConfigLabels map[string]string `yaml:"machineConfigLabels"`
					Match               []struct{ Label, Value string }
					Profile             string
				}
			}
		}
		must.Do(t, yaml.Unmarshal([]byte(e.Text), &o))
		data, r := o.Spec.Profile[0].Data, o.Spec.Recommend[0]
		must.Hold(t, strings.HasPrefix(data, "[main]\n") &&
			strings.Contains(data, "[variables]\nisolated_cores=2-3\n") && !strings.Contains(data, "PROFILE_DIR"),
			"data:\n%s", data)
		must.Hold(t, o.Metadata.Name == "mpps-rt1" && r.Profile == o.Spec.Profile[0].Name && len(e.NotHeld) == left,
			"%s, %+v, not held: %+v", o.Metadata.Name, r, e.NotHeld)
		if byPool := len(r.MachineConfigLabels) == 1; byPool != (pool != "") || byPool == (len(r.Match) > 0) {
			t.Errorf("pool %q: %+v", pool, r)
		}
		if pool == "" && (r.Match[0].Label != hostLabel || r.Match[0].Value != "kvm-01") {
			t.Errorf("match: %+v", r.Match)
		}
	}
	must.Fail(Tuned(&export.Profile{Name: "___"}, "1", "h", "", ""))(t, "a name without letters is taken")
}

// TestSRIOVPolicy: each run of free functions of one kind has a policy; those in use, and attributes, are listed.
func TestSRIOVPolicy(t *testing.T) {
	h := &facts.Host{Name: "kvm-01", NICs: []facts.NIC{{Name: "ens1f0", PCI: "0000:41:00.0", SRIOV: &facts.SRIOV{Total: 8,
		Enabled: 6}}, {Name: "eth9", SRIOV: &facts.SRIOV{Total: 8}}, {Name: "eth8"}}}
	for i, driver := range []string{"iavf", "iavf", "vfio-pci", "iavf", "vfio-pci", "vfio-pci"} {
		h.VFs = append(h.VFs, facts.VF{PF: "ens1f0", Index: i, Driver: driver})
	}
	h.VFs[2].Guest, h.VFs[3].VLAN = "vm1", 7
	e, err := SRIOVPolicy(h, "1", "role=nfv")
	must.Do(t, err)
	valid(t, policyCRD, e.Text, 3) // 0-1, 3-3, 4-5
	golden.File(t, "testdata/sriov-policy.yaml", e.Text)
	var names []string
	for _, o := range objectsOf(t, e.Text) {
		spec := o.(map[string]any)["spec"].(map[string]any)
		must.Hold(t, spec["externallyManaged"] == true && spec["numVfs"] == 6, "%v", spec)
		if name := spec["resourceName"].(string); strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("resource name %q", name)
		}
		names = append(names, fmt.Sprintf("%v %v", spec["nicSelector"].(map[string]any)["pfNames"], spec["deviceType"]))
	}
	must.Equal(t, strings.Join(names, " "), "[ens1f0#0-1] netdevice [ens1f0#3-3] netdevice [ens1f0#4-5] vfio-pci",
		"policies")
	must.Hold(t, len(e.NotHeld) == 2 && strings.Contains(e.NotHeld[0].Why, "vm1") &&
		strings.Contains(e.NotHeld[1].What, "vlan 7"), "not held: %+v", e.NotHeld)
	if e, err = SRIOVPolicy(&facts.Host{}, "1", ""); err != nil || len(objectsOf(t, e.Text)) > 0 {
		t.Errorf("without functions: %v\n%s", err, e.Text)
	}
}

// TestFeatures: each line is a label that Kubernetes takes, and the labels end.
func TestFeatures(t *testing.T) {
	r := audit.Report{Tier: "aggressive", Role: facts.RoleHost, Verdict: "two\nlines", Findings: []audit.Finding{
		{State: audit.Off, Severity: knob.High}, {State: audit.Off, Severity: knob.Low}, {State: audit.Off,
			Severity: knob.Info}}}
	text := Features(r, "1", "h", time.Unix(0, 0), time.Hour).Text
	golden.File(t, "testdata/nfd", text)
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		must.Hold(t, found && len(key) <= 63 && len(value) <= 63 && !strings.ContainsAny(key+value, " /:"),
			"%q is no label", line)
		labels[key] = value
	}
	must.Hold(t, labels["mpps.limits"] == "2" && labels["mpps.worst"] == "high" && labels["mpps.tier"] == "aggressive",
		"labels: %v", labels)
	must.Hold(t, strings.Contains(text, "\n# +expiry-time=1970-01-01T01:00:00Z\nmpps."), "they do not end:\n%s", text)
}

// TestProblems: the rule sets a condition that is declared, and is over before the plugin's own time is.
func TestProblems(t *testing.T) {
	e := must.Get(Problems())(t)
	golden.File(t, "testdata/npd.json", e.Text)
	var c npdConfig
	decoder := json.NewDecoder(bytes.NewReader([]byte(e.Text)))
	decoder.DisallowUnknownFields()
	must.Do(t, decoder.Decode(&c))
	whole, _ := time.ParseDuration(c.Config.Timeout)
	for _, r := range c.Rules {
		own, err := time.ParseDuration(r.Timeout)
		if err != nil || own >= whole || !slices.ContainsFunc(c.Conditions,
			func(k npdCondition) bool { return k.Type == r.Condition && k.Reason != r.Reason }) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestDaemonSet: its pods are those that it selects, it only watches, and it can write one folder alone.
func TestDaemonSet(t *testing.T) {
	e := must.Get(DaemonSet("1", "h", "busybox", "kvm=true"))(t)
	golden.File(t, "testdata/daemonset.yaml", e.Text)
	var o struct {
		APIVersion string `yaml:"apiVersion"`
		Spec       daemonSetSpec
	}
	must.Do(t, yaml.Unmarshal([]byte(e.Text), &o))
	pod := o.Spec.Template
	must.Hold(t, o.APIVersion == "apps/v1" &&
		fmt.Sprint(o.Spec.Selector.MatchLabels) == fmt.Sprint(pod.Metadata.Labels) &&
		pod.Spec.NodeSelector["kvm"] == "true" && slices.Contains(pod.Spec.Containers[0].Command, "--watch"), "%+v", o)
	for _, m := range pod.Spec.Containers[0].Mounts {
		if !m.ReadOnly && m.MountPath != "/host"+metricsFolder {
			t.Errorf("%s can be written", m.MountPath)
		}
		must.Hold(t, slices.ContainsFunc(pod.Spec.Volumes, func(v volume) bool { return v.Name == m.Name }),
			"there is no volume %s", m.Name)
	}
}

func TestCheckLabel(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"kubernetes.io/hostname=kvm1": true, "role=": true, "role=kvm-host_1.a": true, "a.b-c/R.o_le=1": true,
		"": false, "role": false, "a/b": false, "=kvm": false, "/role=kvm": false, "a/b/c=d": false, "A/b=c": false,
		"role=-kvm": false, "role=kvm host": false, "role=a=b": false, "role=kvm\nx: y": false, "-role=kvm": false,
		strings.Repeat("a", 64) + "=b": false, "role=" + strings.Repeat("b", 64): false,
		strings.Repeat("a", 254) + "/role=b": false,
	} {
		if err := CheckLabel(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, good := range map[string]bool{"worker-kvm": true, "w.x": true, "": false, "a/b": false, "Worker": false,
		"w\n": false} {
		if err := CheckPool(text); (err == nil) != good {
			t.Errorf("pool %q: %v", text, err)
		}
	}
}

// TestHostNames: the name of a host, which a snapshot brings, ends no comment: to parsers of YAML 1.1 more than \n ends
// a line.
func TestHostNames(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		host := "node" + end + "evil: injected" + end + "--- " + end + "kind: Pod" + end + "# "
		watch := must.Get(DaemonSet("1", host, "mpps:1", "a/b=c"))(t)
		tuned := must.Get(Tuned(profile(), "1", host, "a/b=c", ""))(t)
		policy := must.Get(SRIOVPolicy(&facts.Host{Name: host}, "1", "a/b=c"))(t)
		features := Features(audit.Report{}, "1", host, time.Time{}, time.Hour)
		for _, e := range []*Export{watch, tuned, policy} {
			for _, object := range objectsOf(t, e.Text) {
				fields, is := object.(map[string]any)
				if _, evil := fields["evil"]; !is || evil || fields["kind"] == "Pod" {
					t.Errorf("%s, %q: %v", e.Target, end, object)
				}
			}
		}
		if first, _, _ := strings.Cut(features.Text, "\n"); strings.ContainsAny(first, "\r\u0085\u2028\u2029") ||
			!strings.Contains(first, "Pod") {
			t.Errorf("%q: %q", end, first)
		}
	}
}
