// Package advice holds pages of advice that is often read and is no knob of the catalogue.
package advice

import "embed"

//go:embed *.md
var pages embed.FS

// files are the pages, in the order of their index.
var files = []string{"symptom", "nic", "path", "guest", "host", "tcp", "storage"}

// Pages returns the texts of all pages.
func Pages() []string {
	var all []string
	for _, name := range files {
		text, _ := pages.ReadFile(name + ".md") // embedded: TestAdvice reads each
		all = append(all, string(text))
	}
	return all
}
