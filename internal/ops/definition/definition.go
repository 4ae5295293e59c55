// Package definition implements 'mpps domain': it finds guests' definitions, asks the catalogue for advice, changes
// them on this host and renders new ones.
package definition

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
	"mpps/internal/outcome"
)

// Definition is a domain's XML: of a guest of this host, or from a file.
type Definition struct {
	Doc   *domain.Doc
	Text  []byte
	Guest *facts.Guest // nil for a file
	Host  *facts.Host  // nil for a file
	Name  string       // for messages: "guest vm1", "vm1.xml"
}

// Of finds NAME|FILE: a file if the word is - or looks like a file (has a slash or ends in .xml), else a guest of this
// host, else a file of that name.
func Of(ctx context.Context, env *ops.Env, word string, stdin io.Reader) (*Definition, error) {
	if word == "-" || strings.Contains(word, "/") || strings.HasSuffix(word, ".xml") {
		return file(word, stdin)
	}
	look, err := env.Host(ctx, ops.Look{Site: true})
	if err != nil {
		return nil, err
	}
	defer look.Close()
	h := look.Facts
	g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == word && g.Managed })
	if g == nil {
		if _, err := os.Stat(word); err == nil {
			return file(word, stdin)
		}
		return nil, noGuest(word, h)
	}
	if g.Definition == "" {
		return nil, outcome.Failed(fmt.Errorf("guest %s has no definition that could be read", word),
			"a transient guest has none: virsh dumpxml "+word+" > FILE, then use FILE")
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil, fmt.Errorf("definition of guest %s: %w", word, err)
	}
	return &Definition{Doc: doc, Text: []byte(g.Definition), Guest: g, Host: h, Name: "guest " + word}, nil
}

// noGuest says why there is no definition of a name.
func noGuest(word string, h *facts.Host) error {
	if g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == word }); g != nil {
		hint := judging.ChangedBy(g)
		if g.Rewrites() {
			hint = "'mpps handover --guest " + word + "' says what to set there"
		}
		return outcome.Failed(fmt.Errorf("guest %s (%s) runs without libvirt here: it has no definition", word,
			g.Owner), hint)
	}
	var names []string
	for _, g := range h.Guests {
		if g.Managed {
			names = append(names, g.Name)
		}
	}
	hint := "this host has no guests of libvirt, or they could not be seen; a file is named by a path or a name that " +
		"ends in .xml"
	if len(names) > 0 {
		hint = "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	for _, u := range h.Unseen {
		if u.Part == facts.UnseenGuests || u.Part == facts.UnseenDefinition && u.Of == word {
			hint = u.What + " could not be seen: " + u.Why
		}
	}
	for _, u := range h.Unverified {
		if u.Guest == word {
			hint = fmt.Sprintf("process %d only has its name: %s", u.PID, u.Why)
		}
	}
	return outcome.Failed(fmt.Errorf("no guest %q on this host, and no file of that name", word), hint)
}

// file reads a definition from a file, or from standard input.
func file(name string, from io.Reader) (*Definition, error) {
	if name == "-" {
		name = "standard input"
	} else {
		f, err := ops.OpenFile(name)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("domain %w", err),
				"expected the name of a guest, or a file that 'virsh dumpxml' wrote")
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, domain.MaxBytes+1))
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("%s: %w", name, outcome.FileCause(err)), "")
	}
	doc, err := domain.Parse(text)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("%s: %w", name, err),
			outcome.HintOf(err, "expected a domain as 'virsh dumpxml NAME' prints it"))
	}
	return &Definition{Doc: doc, Text: text, Name: name}, nil
}

// HostName returns the host of the definition; empty for a file.
func (d *Definition) HostName() string {
	if d.Host == nil {
		return ""
	}
	return d.Host.Name
}
