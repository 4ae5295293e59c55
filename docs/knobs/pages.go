// Package knobs holds the pages of the catalogue: ID.md is what there is to say of a knob, README.md the index.
package knobs

import "embed"

//go:embed *.md
var pages embed.FS

// Page returns the text of NAME.md; "" where there is no such page.
func Page(name string) string {
	text, err := pages.ReadFile(name + ".md")
	if err != nil {
		return ""
	}
	return string(text)
}
