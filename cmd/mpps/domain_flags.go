package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/ops/definition"
)

// domainFlags are the flags that say what a definition should be.
type domainFlags struct {
	definition.Request
	values map[string]*once // by the flag's name
}

func (f *domainFlags) add(cmd *cobra.Command) {
	f.values = map[string]*once{}
	flags := cmd.Flags()
	for _, n := range definition.Names() {
		f.values[n.Name] = &once{}
		flags.Var(f.values[n.Name], n.Name, n.Usage)
	}
	flags.StringSliceVar(&f.NICs, "nic", nil, "MAC address or index of the NICs that are meant (default: all that can)")
	flags.StringArrayVar(&f.Sets, "set", nil, "any other value, PATH=VALUE ('mpps domain show -v' lists paths)")
	flags.StringArrayVar(&f.Unsets, "unset", nil, "take a value away, PATH")
}

// asked is what the flags say.
func (f *domainFlags) asked() *definition.Request {
	f.Values = map[string]string{}
	for name, value := range f.values {
		f.Values[name] = value.text
	}
	return &f.Request
}

// once is the text of a flag that may be given once: which of two values is meant nobody can tell.
type once struct {
	text  string
	given bool
}

func (o *once) String() string { return o.text }
func (*once) Type() string     { return "string" }

func (o *once) Set(text string) error {
	if o.given && o.text != text {
		return fmt.Errorf("given before as %s, expected one value", quote(o.text))
	}
	o.text, o.given = text, true
	return nil
}
