package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/knob"
	"mpps/internal/report"
)

// knobPages is where the pages of the catalogue are.
const knobPages = "../../docs/knobs"

// TestKnobPages: the pages in docs/knobs are those of the definitions. MPPS_UPDATE=1 writes them anew.
func TestKnobPages(t *testing.T) {
	want := map[string]string{"README.md": report.KnobsMarkdown(knob.Catalogue())}
	for _, k := range knob.Catalogue() {
		want[k.ID+".md"] = report.KnobMarkdown(k)
	}
	if golden.Updating() {
		if err := os.MkdirAll(knobPages, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range want {
		golden.File(t, filepath.Join(knobPages, name), text)
	}
	files, err := os.ReadDir(knobPages)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, expected := want[f.Name()]; expected {
			continue
		}
		if !golden.Updating() {
			t.Errorf("%s is the page of no knob", f.Name())
		} else if err := os.Remove(filepath.Join(knobPages, f.Name())); err != nil {
			t.Error(err)
		}
	}
}

// TestKnobPagesAreWhole looks at one page as a reader does: nothing of the definition is missing.
func TestKnobPagesAreWhole(t *testing.T) {
	k, _ := knob.Find("rt.throttling")
	page := strings.ReplaceAll(report.KnobMarkdown(k), "\\", "")
	for _, part := range append([]string{k.ID, k.Title, k.Doc.Why, k.Doc.Cost, k.Doc.Verify, k.After[0], string(k.Risk), k.Stage.String()}, k.Doc.Traps...) {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not hold %q", part)
		}
	}
	if index := report.KnobsMarkdown(knob.Catalogue()); strings.Count(index, "\n## ") < 10 || !strings.Contains(index, "](rt.throttling.md)") {
		t.Error("the index is not by stage, or lacks a knob")
	}
}
