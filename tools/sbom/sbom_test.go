// Package sbom tests the bill of materials that scripts/sbom writes.
package sbom

import (
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bill is what of CycloneDX is compared.
type bill struct {
	Format   string `json:"bomFormat"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []struct {
		Ref string `json:"ref"`
	} `json:"dependencies"`
}

type component struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Evidence struct {
		Licenses []any `json:"licenses"`
	} `json:"evidence"`
}

// TestBill: the bill of each program has the modules and versions that are linked into it, no others, each with a
// licence, and Go's standard library.
func TestBill(t *testing.T) {
	for _, name := range []string{"../../go.mod", "../../go.sum", "../go.mod"} { // so that go test sees them change
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	bin, out := t.TempDir(), t.TempDir()
	build := exec.Command("go", "-C", "../..", "build", "-o", bin, "./cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if text, err := exec.Command("../../scripts/sbom", bin, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, program := range []string{"mpps", "mpps-guest", "mpps-lab"} {
		info, err := buildinfo.ReadFile(filepath.Join(bin, program))
		if err != nil {
			t.Fatal(err)
		}
		linked := map[string]string{}
		for _, m := range info.Deps {
			linked[m.Path] = m.Version
		}
		text, err := os.ReadFile(filepath.Join(out, program+".cdx.json"))
		var b bill
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil || b.Format != "CycloneDX" || b.Metadata.Component.Name != "mpps" ||
			len(b.Dependencies) < len(linked) {
			t.Fatalf("%s: %v, %+v", program, err, b)
		}
		listed, std := map[string]string{}, false
		for _, c := range b.Components {
			if c.Name == "std" {
				std = true
				continue
			}
			listed[c.Name] = c.Version
			if len(c.Evidence.Licenses) == 0 {
				t.Errorf("%s: %s has no licence", program, c.Name)
			}
		}
		if len(linked) == 0 || !maps.Equal(linked, listed) || !std {
			t.Errorf("%s: linked are %v, listed %v, the standard library: %v", program, linked, listed, std)
		}
	}
}
