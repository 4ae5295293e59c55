package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/fleet"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/kube"
	"mpps/internal/advise/lookup"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/queuepath"
	"mpps/internal/advise/realtime"
	"mpps/internal/advise/sriov"
	"mpps/internal/advise/tune"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/change/apply"
	verdicts "mpps/internal/change/watch"
	"mpps/internal/golden"
	"mpps/internal/lab/command"
	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/ops/definition"
	"mpps/internal/ops/handing"
	"mpps/internal/ops/placing"
	"mpps/internal/ops/vf"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/report/founding"
)

// schemaFolder is where the schemas are shipped.
const schemaFolder = "../../docs/schemas"

// answers are the results of the --json answers by verb.
var answers = map[string]any{
	"inspect":            facts.Host{},
	"snapshot":           facts.Host{},
	"snapshot-diff":      snapshotDiff{},
	"fleet-audit":        fleet.Report{},
	"audit":              audit.Report{},
	"attest":             ops.Attested{},
	"explain":            knob.Page{},
	"explain-list":       knob.Listing{},
	"explain-search":     lookup.Hits{},
	"explain-advice":     lookup.Entry{},
	"plan":               plan.Plan{},
	"place":              placing.Answer{},
	"handover":           handing.Answer{},
	"apply":              apply.Result{},
	"confirm":            confirmed{},
	"rollback":           change.RolledBack{},
	"restore":            apply.Pass{},
	"status":             apply.Status{},
	"version":            built{},
	"verify":             apply.Status{},
	"history":            change.Transactions{},
	"history-tx":         apply.Detail{},
	"bench-pps":          measure.Run{},
	"bench-rr":           measure.Run{},
	"bench-crr":          measure.Run{},
	"bench-stream":       measure.Run{},
	"bench-compare":      measure.Compared{},
	"bench-ab":           measure.AB{},
	"report-runs":        bench.Document{},
	"bench-modes":        measure.Modes{},
	"search":             measure.Search{},
	"search-sizes":       measure.Sizes{},
	"tune":               tune.Result{},
	"agent":              agentReady{},
	"latency":            latencyAnswer{},
	"path":               queuepath.Path{},
	"diagnose":           bottleneck.Diagnosis{},
	"realtime-check":     realtime.Report{},
	"domain-show":        definition.ShowResult{},
	"domain-tune":        definition.TuneResult{},
	"domain-render":      definition.RenderResult{},
	"sriov-guest":        sriov.GuestSide{},
	"sriov-migrate-plan": sriov.Migration{},
	"lab-up":             command.Up{},
	"sriov-assign":       vf.AssignResult{},
	"sriov-release":      vf.ReleaseResult{},
	"sriov-list":         sriov.List{},
	"sriov-check":        sriov.Check{},
	"sriov-recover":      sriov.Recovery{},
	"lab-list":           command.List{},
	"acceptance":         acceptance.Report{},
	"acceptance-list":    founding.Listing{},
	"acceptance-dry-run": founding.DryRuns{},
	"export-tuned":       export.Profile{},
	"export-kube":        kube.Export{},
}

// files are what stands in files without an envelope, with the schema that they name.
var files = map[string]struct {
	content any
	schema  string
}{
	"plan-file": {plan.Plan{}, plan.Schema},
	"run":       {measure.Run{}, measure.Schema},
	"ab":        {measure.AB{}, measure.SchemaAB},
	"modes":     {measure.Modes{}, measure.SchemaModes},
	"searched":  {measure.Search{}, measure.SchemaSearch},
	"sizes":     {measure.Sizes{}, measure.SchemaSizes},
	"campaign":  {measure.CampaignLine{}, measure.SchemaCampaign}, // of each line
	"report":    {bench.Document{}, bench.DocumentSchema},
	"demo":      {command.Result{}, "mpps.demo/2"},
	"event":     {verdicts.Event{}, verdicts.Schema},        // of each line
	"top":       {bottleneck.Look{}, bottleneck.LookSchema}, // of each line

	"acceptance-report": {acceptance.Report{}, acceptance.Schema},

	"latency-run": {wakeup.File{}, wakeup.Schema},
}

// TestSchemas makes every schema from the Go types and compares it with the shipped one. MPPS_UPDATE=1 writes them.
func TestSchemas(t *testing.T) {
	t.Parallel()
	g := newSchemaMaker(t)
	shipped := map[string]bool{"README.md": true}
	for verb, result := range answers {
		shipped[checkSchema(t, verb, "1", g.answer(verb, reflect.TypeOf(result)))] = true
	}
	for name, file := range files {
		_, version, _ := strings.Cut(file.schema, "/")
		shipped[checkSchema(t, name, version, g.file(name, file.schema, reflect.TypeOf(file.content)))] = true
	}
	entries := must.Get(os.ReadDir(schemaFolder))(t)
	for _, e := range entries {
		if !shipped[e.Name()] {
			t.Errorf("%s is a schema of nothing", e.Name())
		}
	}
}

func checkSchema(t *testing.T, name, version string, made *jsonschema.Schema) string {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must.Do(t, encoder.Encode(made))
	file := "mpps." + name + "." + version + ".json"
	golden.File(t, filepath.Join(schemaFolder, file), text.String())
	return file
}

// schemaMaker makes schemas of Go types, with their doc comments as descriptions.
type schemaMaker struct {
	reflector jsonschema.Reflector
	constants map[string][]any        // package path and name of a string type → its constants
	structs   map[string]reflect.Type // by name of definition
}

func newSchemaMaker(t *testing.T) *schemaMaker {
	m := &schemaMaker{constants: constantsBelow(t, "../../internal"), structs: map[string]reflect.Type{}}
	m.reflector = jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, Mapper: m.text, Namer: m.name}
	for _, folder := range []string{"../../internal", "."} {
		must.Do(t, m.reflector.AddGoComments("mpps/cmd/mpps", folder, jsonschema.WithFullComment()))
	}
	for what, comment := range m.reflector.CommentMap {
		m.reflector.CommentMap[what] = strings.Join(strings.Fields(comment), " ")
	}
	return m
}

func (m *schemaMaker) name(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t.Name() != "" && t != reflect.TypeFor[time.Time]() {
		name := path.Base(t.PkgPath()) + "." + t.Name()
		m.structs[name] = t
		return name
	}
	return ""
}

// text is the schema of what stands as text in JSON: types that write their own, and those with a list of constants.
func (m *schemaMaker) text(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return nil
	case reflect.TypeFor[knob.Severity]():
		return enum(knob.Severities())
	case reflect.TypeFor[datapath.Stage]():
		var stages []datapath.Stage
		for s := datapath.Firmware; s <= datapath.Guest; s++ {
			stages = append(stages, s)
		}
		return enum(stages)
	case reflect.TypeFor[setting.State]():
		return enum([]setting.State{setting.Unknown, setting.Absent, setting.Known})
	case reflect.TypeFor[setting.CPUSet]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$`}
	case reflect.TypeFor[setting.Address]():
		return &jsonschema.Schema{Type: "string", Pattern: `^[a-z0-9-]+:.`}
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return &jsonschema.Schema{Type: "string"}
	}
	if values := m.constants[t.PkgPath()+"."+t.Name()]; t.Kind() == reflect.String && len(values) > 0 {
		return &jsonschema.Schema{Type: "string", Enum: values}
	}
	return nil
}

func enum[T any](values []T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, fmt.Sprint(v))
	}
	return s
}

// of reflects a type. A pointer that always stands there may be null.
func (m *schemaMaker) of(t reflect.Type) *jsonschema.Schema {
	s := m.reflector.ReflectFromType(t)
	for name, definition := range s.Definitions {
		if of := m.structs[name]; of != nil && definition.Properties != nil {
			nullable(of, definition)
		}
	}
	return s
}

func nullable(t reflect.Type, s *jsonschema.Schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			nullable(f.Type, s)
			continue
		}
		if !f.IsExported() || f.Type.Kind() != reflect.Pointer || name == "-" ||
			strings.Contains(options, "omitempty") {
			continue
		}
		property, _ := s.Properties.Get(name)
		described := &jsonschema.Schema{Description: property.Description}
		property.Description = ""
		described.AnyOf = []*jsonschema.Schema{property, {Type: "null"}}
		s.Properties.Set(name, described)
	}
}

// answer is the schema of an envelope with a result.
func (m *schemaMaker) answer(verb string, result reflect.Type) *jsonschema.Schema {
	inner, warning := m.of(result), m.of(reflect.TypeFor[report.Caveat]())
	words := "mpps " + strings.ReplaceAll(verb, "-", " ")
	if strings.HasPrefix(verb, "lab-") {
		words = "mpps-" + strings.Replace(verb, "-", " ", 1)
	}
	s := &jsonschema.Schema{
		Version: jsonschema.Version, ID: jsonschema.ID("urn:mpps:" + verb + ":1"),
		Description: "The answer of " + words + " --json.",
		Type:        "object", Properties: jsonschema.NewProperties(), Definitions: inner.Definitions,
		Required: []string{"schema", "mpps", "host", "result", "warnings"},
	}
	for name, definition := range warning.Definitions {
		s.Definitions[name] = definition
	}
	add := func(name, description string, property *jsonschema.Schema) {
		property.Description = description
		s.Properties.Set(name, property)
	}
	add("schema", "", &jsonschema.Schema{Const: "mpps." + verb + "/1"})
	add("mpps", "Version of the program.", &jsonschema.Schema{Type: "string"})
	add("host", "Name of the host that the answer is about; empty where it is about none.",
		&jsonschema.Schema{Type: "string"})
	add("result", "", &jsonschema.Schema{Ref: inner.Ref})
	add("warnings", "What a reader must know of the answer.",
		&jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Ref: warning.Ref}})
	return s
}

// file is the schema of a file without an envelope.
func (m *schemaMaker) file(name, schema string, content reflect.Type) *jsonschema.Schema {
	s := m.of(content)
	definition := s.Definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]
	definition.Properties.Set("schema", &jsonschema.Schema{Const: schema})
	s.ID = jsonschema.ID("urn:mpps:" + name + ":1")
	return s
}

// constantsBelow are the constants of named string types in the packages below a folder.
func constantsBelow(t *testing.T, folder string) map[string][]any {
	all := map[string][]any{}
	must.Do(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.GenDecl); ok && d.Tok == token.CONST {
				addConstants(all, path.Join("mpps/cmd/mpps", path.Dir(name)), d.Specs)
			}
		}
		return nil
	}))
	return all
}

func addConstants(all map[string][]any, pkg string, specs []ast.Spec) {
	for _, spec := range specs {
		s := spec.(*ast.ValueSpec)
		of, named := s.Type.(*ast.Ident)
		if !named || of.Name == "string" || len(s.Values) != 1 {
			continue
		}
		literal, ok := s.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if value, err := strconv.Unquote(literal.Value); err == nil {
			all[pkg+"."+of.Name] = append(all[pkg+"."+of.Name], value)
		}
	}
}

// promised are the names in results that DESIGN lets programs rely on from the first version on. "x[]" is a list that
// is never null.
var promised = map[string][]string{
	"inspect": {"topology.counts.packages", "topology.counts.numa_nodes", "topology.counts.l3_caches",
		"topology.counts.cores",
		"topology.counts.cpus_online", "topology.counts.cpus_offline", "nics[]", "bridges[]", "guests[]", "vfs[]"},
	"explain-list": {"knobs[].id", "knobs[].title", "knobs[].stage", "knobs[].risk", "knobs[].goals[]"},
	"audit": {"tier", "findings[].id", "findings[].address", "findings[].state", "findings[].found",
		"findings[].wanted",
		"findings[].severity", "findings[].why"},
	"plan": {"digest", "changes[].id", "changes[].address", "changes[].from", "changes[].to", "changes[].risk",
		"changes[].lasts",
		"changes[].needs", "changes[].because"},
	"place": {"guests[].name", "guests[].vcpus[].cpu", "guests[].vhost[].cpu", "guests[].nodes", "housekeeping",
		"refused[]"},
	"status":    {"state", "rows[].id", "rows[].address", "rows[].wanted", "rows[].found", "rows[].state", "rows[].why"},
	"verify":    {"state", "rows[].id", "rows[].address", "rows[].wanted", "rows[].found", "rows[].state", "rows[].why"},
	"bench-pps": {"offered_pps", "sent", "received", "lost", "pps", "limited_by", "cpu_ns_per_packet", "samples[]"},
	"search": {"ndr.lower_pps?", "ndr.upper_pps?", "ndr.throughput_pps?", "pdr.lower_pps?", "pdr.upper_pps?",
		"pdr.throughput_pps?", "seconds", "trials",
		"lossy_seconds", "irregular"},
	"latency": {"runs[].threads[]", "runs[].slices[]", "worst[].ns", "causes.found[]", "causes.verdict", "tool.name"},
	"sriov-list": {"vfs[].pf", "vfs[].index", "vfs[].pci", "vfs[].group", "vfs[].driver", "vfs[].guest", "vfs[].mac",
		"vfs[].vlan?", "vfs[].max_tx_rate?",
		"vfs[].spoofchk?", "vfs[].trust?", "vfs[].link_state"},
	"path": {"seconds", "watched", "every_packet", "rows[].frames", "rows[].packets", "lanes[].way",
		"lanes[].stops[].device", "lanes[].stops[].queue", "lanes[].packets",
		"lanes[].share", "hops[].from.device", "hops[].to.device", "hops[].packets[]", "faults[].kind",
		"faults[].object", "faults[].severity", "faults[].share",
		"faults[].packets", "faults[].evidence", "faults[].cause", "faults[].mend.text", "unseen[]"},
	"demo": {"before?.pps", "before?.samples[]", "after?.pps", "after?.samples[]", "changes[]", "rollback?.identical",
		"missing[]", "seconds", "emulated"},
}

// TestPromisedNames finds every promised name in the shipped schemas, where it must be required and must not be null.
func TestPromisedNames(t *testing.T) {
	for verb, names := range promised {
		version := "1"
		if file, ok := files[verb]; ok {
			_, version, _ = strings.Cut(file.schema, "/")
		}
		root := readSchema(t, "mpps."+verb+"."+version)
		result := root
		if _, isAnswer := answers[verb]; isAnswer {
			result = stepInto(t, root, root, "result")
			if warnings := stepInto(t, root, root, "warnings[]"); !slices.Equal(required(warnings),
				[]string{"code", "text", "hint"}) {
				t.Errorf("%s: warnings have %v", verb, required(warnings))
			}
		} else {
			result = resolve(root, root)
		}
		for _, name := range names {
			at := result
			for _, step := range strings.Split(name, ".") {
				at = stepInto(t, root, at, step)
			}
			if verb == "audit" && name == "findings[].state" &&
				fmt.Sprint(at["enum"]) != "[ok off unknown not-applicable]" {
				t.Errorf("audit: states are %v", at["enum"])
			}
		}
	}
}

func readSchema(t *testing.T, name string) map[string]any {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(schemaFolder, name+".json")))(t)
	var schema map[string]any
	must.Do(t, json.Unmarshal(text, &schema))
	return schema
}

func resolve(root, s map[string]any) map[string]any {
	ref, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	return root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
}

func required(s map[string]any) []string {
	var names []string
	list, _ := s["required"].([]any)
	for _, name := range list {
		names = append(names, name.(string))
	}
	return names
}

// stepInto is the schema of a member that must stand in an object; "name[]" that of the elements of a list, "name?" one
// that may be null.
func stepInto(t *testing.T, root, s map[string]any, step string) map[string]any {
	t.Helper()
	name, isList := strings.CutSuffix(step, "[]")
	name, mayBeNull := strings.CutSuffix(name, "?")
	properties, _ := s["properties"].(map[string]any)
	member, there := properties[name].(map[string]any)
	must.Need(t, there && slices.Contains(required(s), name), "%v: %s is not always there", root["$id"], step)
	either, orNull := member["anyOf"].([]any)
	must.Hold(t, orNull == mayBeNull, "%v: %s is null where it should not be, or never", root["$id"], step)
	if orNull {
		member = either[0].(map[string]any)
	}
	member = resolve(root, member)
	if isList {
		must.Need(t, member["type"] == "array", "%v: %s is %v", root["$id"], step, member["type"])
		return resolve(root, member["items"].(map[string]any))
	}
	return member
}
