package layers

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/must"
)

// licences names each licence by a sentence that only its text has, of two with the same the one with more first.
var licences = []struct{ name, part, also string }{
	{"Apache-2.0", "Apache License Version 2.0", ""}, // its text
	{"Apache-2.0", "under the Apache License, Version 2.0", ""},
	{"BSD-3-Clause", "Redistribution and use in source and binary forms", "to endorse or promote products"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms", ""},
	{"MIT", "Permission is hereby granted, free of charge", ""},
	{"CC0-1.0", "CC0 1.0 Universal", ""},
}

// licenceOf returns the licences that a text holds, joined by "and".
func licenceOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	known := map[string]bool{}
	for _, l := range licences {
		holds := strings.Contains(text, l.part) && strings.Contains(text, l.also)
		if holds && !known[l.part] && !slices.Contains(found, l.name) {
			known[l.part] = true
			found = append(found, l.name)
		}
	}
	return strings.Join(found, " and ")
}

// TestLicences: docs/licences.md has every module that is linked into a program, with its version and its licence.
// MPPS_UPDATE=1 writes it.
func TestLicences(t *testing.T) {
	programs := []string{"mpps", "mpps-guest", "mpps-lab"}
	rows, users := map[string]string{}, map[string][]string{}
	for _, program := range programs {
		out, err := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "mpps/cmd/"+program).Output()
		must.Do(t, err)
		lines := slices.Compact(slices.Sorted(strings.Lines(string(out))))
		for _, line := range lines {
			module := strings.Fields(line)
			if len(module) != 3 {
				continue
			}
			users[module[0]] = append(users[module[0]], program)
			rows[module[0]] = fmt.Sprintf("| %s | %s | %s |", module[0], module[1], moduleLicence(t, module[2]))
		}
	}
	var b strings.Builder
	b.WriteString(`# Modules in the programs

What is linked into the programs of this tree besides its own packages and Go's standard library (BSD-3-Clause). ` + "`go version -m bin/mpps`" + `
prints the same, with the sum of each, from a program itself. The texts are in the modules: ` + "`go mod download`" + `.

| module | version | licence | in |
|---|---|---|---|
`)
	for _, module := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "%s %s |\n", rows[module], strings.Join(slices.Compact(users[module]), ", "))
	}
	golden.File(t, "../../docs/licences.md", b.String())
}

// moduleLicence returns the licences of a module.
func moduleLicence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "LICEN[CS]E*"))
	must.Need(t, err == nil && len(files) != 0, "no licence in %s (%v)", dir, err)
	text := must.Get(os.ReadFile(files[0]))(t)
	name := licenceOf(string(text))
	if name == "" {
		t.Fatalf("%s is of no licence that is known: look whether it may be linked, and name it", files[0])
	}
	return name
}
