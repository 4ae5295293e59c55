package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/report/sheet"
)

// isPage and isPicture report whether a file is to be a page or a picture.
func isPage(name string) bool    { return strings.HasSuffix(strings.ToLower(name), ".html") }
func isPicture(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".svg") }

// addSheet adds the flag for a page to a command that writes no other file.
func addSheet(cmd *cobra.Command, output *string) {
	cli.OutputVar(cmd.Flags(), output, "output,o", "", "write the answer as a page to this .html file")
}

// writeSheet writes the page about a host, if a file is named for it.
func (a *app) writeSheet(name string, s sheet.Sheet) error {
	switch {
	case name == "":
		return nil
	case !isPage(name):
		return usage(errors.New("-o "+quote(name)+": expected a file that ends in .html"), "")
	}
	s.Chinese = a.out.Chinese()
	return a.writeEncoded(name, func(w io.Writer) error { return sheet.HTML(w, s, version, time.Now()) })
}
