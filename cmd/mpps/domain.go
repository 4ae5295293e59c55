package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/host"
)

func (a *app) domainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "domain",
		Short: "a guest's definition: read it, tune it in place, write a new one",
		Long: `Reads and edits the XML in which libvirt keeps a guest. An edit changes the
bytes of the values that it names and no others: comments, order, quotes, white
space and what mpps does not know stay as they are.

  mpps domain show vm1
  mpps domain tune vm1.xml --queues 4 -o vm1-tuned.xml
  mpps domain tune vm1 --queues 4 --vcpupin 2-5 --apply
  mpps domain render --name vm2 --vcpus 4 --memory 8GiB --nic br0`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.domainShowCommand(), a.domainTuneCommand(), a.domainRenderCommand())
	return cmd
}

// definition is a domain as it was found: a guest of this host, or a file.
type definition struct {
	doc   *domain.Doc
	text  []byte
	guest *facts.Guest // nil of a file
	host  *facts.Host  // nil of a file
	name  string       // for messages: "guest vm1", "vm1.xml"
}

// domainOf finds NAME|FILE: a file where the word is - or looks like one (it has a slash, or ends in .xml), else a guest of
// this host, else a file of that name.
func (a *app) domainOf(ctx context.Context, word string) (*definition, error) {
	if word == "-" || strings.Contains(word, "/") || strings.HasSuffix(word, ".xml") {
		return a.domainFile(word)
	}
	h, err := a.guestsOf(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == word && g.Managed })
	if at < 0 {
		if _, err := os.Stat(word); err == nil {
			return a.domainFile(word)
		}
		return nil, noGuest(word, h)
	}
	g := &h.Guests[at]
	if g.Definition == "" {
		return nil, failed(fmt.Errorf("guest %s has no definition that could be read", word), "a transient guest has none: virsh dumpxml "+word+" > FILE, then use FILE")
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil, fmt.Errorf("definition of guest %s: %w", word, err)
	}
	return &definition{doc: doc, text: []byte(g.Definition), guest: g, host: h, name: "guest " + word}, nil
}

// guestsOf takes stock of the machine below --root, without reading settings.
func (a *app) guestsOf(ctx context.Context) (*facts.Host, error) {
	m, err := host.Open(a.root)
	if err != nil {
		return nil, failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	defer m.Close()
	return m.Inventory(ctx), nil
}

func noGuest(word string, h *facts.Host) error {
	var names []string
	for _, g := range h.Guests {
		if g.Managed {
			names = append(names, g.Name)
		}
	}
	hint := "this host has no guests of libvirt, or they could not be seen; a file is named by a path or a name that ends in .xml"
	if len(names) > 0 {
		hint = "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	for _, u := range h.Unseen {
		if u.Part == facts.UnseenGuests || u.Part == facts.UnseenDefinition && u.Of == word {
			hint = u.What + " could not be seen: " + u.Why
		}
	}
	return failed(fmt.Errorf("no guest %q on this host, and no file of that name", word), hint)
}

// domainFile reads a definition from a file, or from standard input.
func (a *app) domainFile(name string) (*definition, error) {
	var from io.Reader = a.stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := openFile(name)
		if err != nil {
			return nil, failed(fmt.Errorf("domain: %w", err), "expected the name of a guest, or a file that 'virsh dumpxml' wrote")
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, domain.MaxBytes+1))
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", name, err), "")
	}
	doc, err := domain.Parse(text)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", name, err), hintOf(err, "expected a domain as 'virsh dumpxml NAME' prints it"))
	}
	return &definition{doc: doc, text: text, name: name}, nil
}

// hintOf is the hint that an error brings, or another.
func hintOf(err error, other string) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) && hinted.Hint() != "" {
		return hinted.Hint()
	}
	return other
}

// hostName is the host that an answer is about; empty of a file.
func (d *definition) hostName() string {
	if d.host == nil {
		return ""
	}
	return d.host.Name
}
