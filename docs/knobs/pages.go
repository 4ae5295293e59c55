// Package knobs holds the pages of the catalogue: ID.md is what there is to say of a knob, README.md the index, and
// zh-CN/STAGE.md has the titles, values and reasons of a stage's knobs in Chinese.
package knobs

import (
	"embed"
	"strings"
)

//go:embed *.md zh-CN/*.md
var pages embed.FS

// Page returns the text of NAME.md; "" where there is no such page.
func Page(name string) string {
	text, err := pages.ReadFile(name + ".md")
	if err != nil {
		return ""
	}
	return string(text)
}

// Chinese returns the text of the page in Chinese on which a knob has its section; "" where there is no such page.
func Chinese(id string) string {
	group, _, _ := strings.Cut(id, ".")
	return Page("zh-CN/" + group)
}
